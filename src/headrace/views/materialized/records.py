"""What a record means to a view: which row is there now, or no longer."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import orjson

from headrace.views.materialized.description import ViewDescription

_TOMBSTONE = None


class Incoming(NamedTuple):
    """The state of one key, as a record says it."""

    key: str
    row: bytes | None
    """JSON on one line; None if the row is gone."""

    partition: int
    offset: int


class Rejected(ValueError):
    """A record that says nothing about a row; the text says why."""


class RowReader:
    """Reads the records of a view's topic, and learns its columns on the way."""

    def __init__(self, description: ViewDescription, columns: Iterable[str] = ()) -> None:
        self._key = description.key
        self._by_record = description.by_record or not description.key
        self._debezium = description.format == "debezium"
        self.columns = dict.fromkeys((*description.columns, *columns))
        """Every column that was seen so far, in the order in which they were."""

    def read(
        self, key: bytes | None, value: bytes | None, partition: int, offset: int
    ) -> list[Incoming]:
        """What a record says; Debezium may say of two keys at once. Raises Rejected."""
        if value is None:
            return [Incoming(self._key_of_record(key), None, partition, offset)]
        parsed = _parsed(value, "value")
        if self._debezium:
            return self._changed(parsed, key, partition, offset)
        row = self._checked(parsed)
        return [Incoming(self._key_of(row, key), _one_line(value, parsed), partition, offset)]

    def _changed(
        self, parsed: Any, key: bytes | None, partition: int, offset: int
    ) -> list[Incoming]:
        change = parsed.get("payload", parsed) if isinstance(parsed, dict) else None
        if not isinstance(change, dict) or "op" not in change:
            raise Rejected("the value is not in Debezium's envelope, with op, before and after")
        if change["op"] in ("t", "m"):
            raise Rejected(f"a view cannot follow a change of kind {change['op']!r}")
        before, after = change.get("before"), change.get("after")
        found: dict[str, bytes | None] = {}
        if before is not None and self._key and all(each in before for each in self._key):
            found[_text_of([before[each] for each in self._key])] = _TOMBSTONE
        if after is None and not found:
            found[self._key_of_record(key)] = _TOMBSTONE
        if after is not None:
            row = self._checked(after)
            found[self._key_of(row, key)] = orjson.dumps(row)
        return [Incoming(each, row, partition, offset) for each, row in found.items()]

    def _checked(self, row: Any) -> dict[str, Any]:
        if not isinstance(row, dict):
            raise Rejected("the value is not a JSON object")
        if not row.keys() <= self.columns.keys():
            self.columns.update(dict.fromkeys(row))
        return row

    def _key_of(self, row: dict[str, Any], key: bytes | None) -> str:
        if self._by_record:
            return self._key_of_record(key)
        try:
            values = [row[each] for each in self._key]
        except KeyError as missing:
            raise Rejected(
                f"the row has no column {missing.args[0]}, which is of the key"
            ) from None
        if None in values:
            raise Rejected(f"{self._key[values.index(None)]} is null, and it is of the key")
        return _text_of(values)

    def _key_of_record(self, key: bytes | None) -> str:
        if key is None:
            raise Rejected("the record has no key")
        if self._key and not (self._by_record and len(self._key) == 1):
            try:
                parsed = orjson.loads(key)
            except orjson.JSONDecodeError:
                parsed = None
            if isinstance(parsed, dict):
                parsed = parsed.get("payload", parsed)
            if isinstance(parsed, dict) and all(each in parsed for each in self._key):
                return _text_of([parsed[each] for each in self._key])
            if len(self._key) > 1:
                raise Rejected(f"the record's key has no {', '.join(self._key)}")
        try:
            return key.decode()
        except UnicodeDecodeError:
            raise Rejected("the record's key is not text") from None


def key_text(parts: Sequence[str]) -> str:
    """The key of a row from the texts of its columns: one is itself, several are a JSON list.

    >>> key_text(["u1"]), key_text(["u1", "7"])
    ('u1', '["u1","7"]')
    """
    return parts[0] if len(parts) == 1 else orjson.dumps(list(parts)).decode()


def _text_of(values: Sequence[Any]) -> str:
    return key_text(
        [each if isinstance(each, str) else orjson.dumps(each).decode() for each in values]
    )


def _parsed(text: bytes, what: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Rejected(f"the {what} is no JSON ({error})") from None


def _one_line(value: bytes, parsed: Any) -> bytes:
    """The JSON as it came, unless a line would break in it or names be written in two ways."""
    if b"\n" in value or b"\r" in value or b"\\" in value:
        return orjson.dumps(parsed)
    return value
