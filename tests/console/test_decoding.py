"""What bytes are shown as."""

import io
import json
import struct

import pytest
from fastavro import parse_schema, schemaless_writer

from headrace.console.observing.decoding import Decoder
from headrace.streams.formats import registry as registries

CHANGE = {
    "before": {"id": 1, "status": "new", "note": None},
    "after": {"id": 1, "status": "paid", "note": None},
    "source": {"db": "shop", "schema": "public", "table": "orders", "lsn": 7, "ts_ms": 5},
    "op": "u",
    "ts_ms": 9,
}


def test_json_is_shown_indented() -> None:
    found = Decoder().decode(b'{"a": [1, 2]}')
    assert found.kind == "json"
    assert found.value == {"a": [1, 2]}
    assert found.text.splitlines()[0] == "{"


@pytest.mark.parametrize("around", [CHANGE, {"schema": {}, "payload": CHANGE}])
def test_a_change_is_recognised_with_and_without_its_schema(around: object) -> None:
    found = Decoder().decode(json.dumps(around).encode())
    assert found.kind == "debezium"
    assert found.change is not None
    assert found.change.verb == "updated"
    assert found.change.differences() == [
        ("id", 1, 1),
        ("status", "new", "paid"),
        ("note", None, None),
    ]


def test_a_deletion_has_only_what_was() -> None:
    found = Decoder().decode(json.dumps(CHANGE | {"op": "d", "after": None}).encode())
    assert found.change is not None
    assert found.change.after is None
    assert found.change.differences()[1] == ("status", "new", None)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (None, "none"),
        (b"", "text"),
        (b"plain words", "text"),
        (b"{broken json", "text"),
        (b"\x00\x01\xff", "bytes"),
        ("\u0000".encode(), "bytes"),
        (b'{"op": "u"}', "json"),
    ],
)
def test_anything_is_shown_as_something(data: bytes | None, kind: str) -> None:
    assert Decoder().decode(data).kind == kind


def test_long_bytes_are_cut_and_counted() -> None:
    found = Decoder().decode(b"\xff" * 10_000)
    assert found.text.endswith("10,000 bytes in all")
    assert len(found.text) < 30_000


class Registry:
    def schema(self, number: int) -> registries.RegisteredSchema | None:
        text = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}'
        return registries.RegisteredSchema("AVRO", text) if number == 7 else None


def test_avro_is_read_by_the_schema_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "registry_of", lambda options: Registry())
    schema = parse_schema(json.loads(Registry().schema(7).text))  # type: ignore[union-attr]
    body = io.BytesIO()
    schemaless_writer(body, schema, {"id": 42})
    found = Decoder("http://registry").decode(b"\0" + struct.pack(">I", 7) + body.getvalue())
    assert (found.kind, found.value) == ("avro", {"id": 42})
    unknown = Decoder("http://registry").decode(b"\0" + struct.pack(">I", 8) + body.getvalue())
    assert unknown.kind == "bytes"
    assert "does not know it" in unknown.problem
