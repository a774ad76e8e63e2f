"""Bytes of records as what they mean: JSON, Avro by a registry, changes of rows, text, or bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from headrace.errors import HeadraceError

_HEADER_BYTES: Final = 5
"""A zero byte and the id of a schema, as producers with a registry write them."""

_SHOWN_BYTES: Final = 4096
"""Of a value that is neither text nor anything else that is known."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a value in Debezium's envelope says."""

    op: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    source: Mapping[str, Any]
    at_ms: int | None

    @property
    def verb(self) -> str:
        """What happened, in a word."""
        words = {"c": "created", "u": "updated", "d": "deleted", "r": "read", "t": "truncated"}
        return words.get(self.op, self.op)

    def differences(self) -> list[tuple[str, Any, Any]]:
        """Every column with what it was and what it is; None where there was, or is, no row."""
        before, after = self.before or {}, self.after or {}
        names = dict.fromkeys([*after, *before])
        return [(name, before.get(name), after.get(name)) for name in names]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A key or a value as it is shown."""

    kind: str
    """json, debezium, avro, text, bytes or none."""

    text: str
    value: Any = None
    """What JSON and Avro have; filters look into it."""

    change: Change | None = None
    problem: str = ""


class Decoder:
    """Makes sense of bytes; `registry` is the address of a schema registry, if there is one."""

    def __init__(self, registry: str | None = None) -> None:
        self._registry = registry
        self._schemas: dict[int, Any] = {}

    def decode(self, data: bytes | None) -> Decoded:
        """What bytes mean; never fails, at worst they are shown as they are."""
        if data is None:
            return Decoded("none", "")
        if self._registry is not None and data[:1] == b"\0" and len(data) > _HEADER_BYTES:
            return self._avro(data)
        if data[:1] in (b"{", b"["):
            try:
                return _structured("json", orjson.loads(data))
            except orjson.JSONDecodeError:
                pass
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return _bytes(data)
        return Decoded("text", text, text) if text.isprintable() or "\n" in text else _bytes(data)

    def _avro(self, data: bytes) -> Decoded:
        import io

        number = int.from_bytes(data[1:_HEADER_BYTES], "big")
        try:
            from fastavro import schemaless_reader

            schema = self._schema(number)
            found = schemaless_reader(io.BytesIO(data[_HEADER_BYTES:]), schema, None)
        except ImportError:
            return _bytes(data, "Avro needs fastavro: install headrace[avro].")
        except (HeadraceError, ValueError, EOFError, TypeError, IndexError) as error:
            return _bytes(data, f"Avro with schema {number}: {error}")
        return _structured("avro", found)

    def _schema(self, number: int) -> Any:
        if number not in self._schemas:
            from fastavro import parse_schema

            from headrace.streams.formats.registry import registry_of

            found = registry_of({"registry": self._registry or ""}).schema(number)
            if found is None:
                raise ValueError("the registry does not know it")
            if found.kind != "AVRO":
                raise ValueError(f"it is {found.kind}")
            self._schemas[number] = parse_schema(orjson.loads(found.text))
        return self._schemas[number]


def _structured(kind: str, value: Any) -> Decoded:
    change = _change(value)
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode()
    return Decoded("debezium" if change else kind, text, value, change)


def _change(value: Any) -> Change | None:
    """The change that an envelope tells, with or without its schema beside it."""
    if isinstance(value, dict) and {"schema", "payload"} <= value.keys():
        value = value["payload"]
    if not isinstance(value, dict) or not {"op", "source"} <= value.keys():
        return None
    before, after, source = value.get("before"), value.get("after"), value["source"]
    if not isinstance(source, dict) or not ("before" in value or "after" in value):
        return None
    return Change(
        str(value["op"]),
        before if isinstance(before, dict) else None,
        after if isinstance(after, dict) else None,
        source,
        value.get("ts_ms"),
    )


def _bytes(data: bytes, problem: str = "") -> Decoded:
    shown = data[:_SHOWN_BYTES]
    lines = [
        f"{place:08x}  {shown[place : place + 16].hex(' '):47}  {_ascii(shown[place : place + 16])}"
        for place in range(0, len(shown), 16)
    ]
    if len(data) > len(shown):
        lines.append(f"... {len(data):,} bytes in all")
    return Decoded("bytes", "\n".join(lines), problem=problem)


def _ascii(data: bytes) -> str:
    return "".join(chr(each) if 32 <= each < 127 else "." for each in data)
