"""Avro with a registry's header, read at once and record by record, against fastavro."""

import datetime
import io
import random
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from headrace.streams.formats import RegistryFailed, decoder, row_schema, schema_of
from headrace.streams.formats import registry as registry_module
from headrace.streams.formats.decoding import Decoded
from tests.streams.formats.batches import batch, framed
from tests.streams.formats.registry_server import RegistryServer

AT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC)

SIMPLE: list[tuple[Any, list[Any]]] = [
    ("long", [1, -(2**63)]),
    (["long", "null"], [1, None]),
    (["null", "string"], ["é", None]),
    ("int", [1, -5]),
    ("float", [0.5, 1.5]),
    ("double", [0.1, 1e300]),
    ("boolean", [True, False]),
    ("bytes", [b"", b"\xff"]),
    ({"type": "fixed", "name": "two", "size": 2}, [b"ab", b"cd"]),
    ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, ["B", "A"]),
    ({"type": "long", "logicalType": "timestamp-micros"}, [AT, AT]),
    (["null", {"type": "long", "logicalType": "timestamp-millis"}], [AT, None]),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, [AT.replace(tzinfo=None)]),
    ({"type": "int", "logicalType": "date"}, [AT.date()]),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        [Decimal("1.23"), Decimal("-500.00")],
    ),
    ({"type": "array", "items": ["null", "long"]}, [[1, None], []]),
    (["null", {"type": "array", "items": "string"}], [["x"], None]),
    (
        ["null", {"type": "record", "name": "In", "fields": [{"name": "a", "type": "long"}]}],
        [{"a": 1}, None],
    ),
]
LATER: list[tuple[Any, list[Any]]] = [
    ({"type": "map", "values": ["null", "long"]}, [{"a": 1, "b": None}, {}]),
    ({"type": "string", "logicalType": "uuid"}, ["12345678-1234-5678-1234-567812345678"]),
]


def record(kind: Any, name: str = "R") -> dict[str, Any]:
    fields = [{"name": "before", "type": "long"}, {"name": "value", "type": kind}]
    return {"type": "record", "name": name, "fields": fields}


def write(schema: Any, row: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), row)
    return stream.getvalue()


def read(registry: RegistryServer, schema: Any, values: Any, **options: str) -> Decoded:
    options = {"registry": registry.address, **options}
    rows = row_schema("avro", schema, options, ["topic"])
    decoded = decoder("avro", rows, options).decode(batch(values))
    decoded.rows.validate(full=True)
    return decoded


def plain(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) and "a" not in value else value


@pytest.mark.parametrize(("kind", "values"), SIMPLE + LATER)
def test_every_type_is_read(registry: RegistryServer, kind: Any, values: list[Any]):
    schema = record(kind)
    number = registry.register("topic-value", schema)
    rows = [{"before": place, "value": value} for place, value in enumerate(values)]
    decoded = read(registry, None, [framed(number, write(schema, row)) for row in rows])
    assert decoded.rejected == ()
    if isinstance(values[0], dict) and "b" in values[0]:
        rows = [{**row, "value": list(row["value"].items())} for row in rows]
    assert decoded.rows.to_pylist() == rows


def test_the_reader_s_schema_is_reached_from_the_writers(registry: RegistryServer):
    old = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "int"}, {"name": "gone", "type": "string"}],
    }
    new = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "note", "type": ["null", "string"]},
            {"name": "id", "type": "long"},
            {"name": "weight", "type": "float"},
        ],
    }
    first, second = registry.register("a", old), registry.register("a", new)
    values = [
        framed(first, write(old, {"id": 1, "gone": "x"})),
        framed(second, write(new, {"note": "n", "id": 2, "weight": 0.5})),
        framed(first, write(old, {"id": 3, "gone": "y"})),
    ]
    decoded = read(registry, "id bigint, weight double, note string", values)
    assert [tuple(row.values()) for row in decoded.rows.to_pylist()] == [
        (1, None, None),
        (2, 0.5, "n"),
        (3, None, None),
    ]


def test_what_can_never_fit_is_rejected_by_schema(registry: RegistryServer):
    schema = record("string")
    number = registry.register("topic-value", schema)
    value = framed(number, write(schema, {"before": 1, "value": "x"}))
    decoded = read(registry, "value bigint", [value])
    assert decoded.rejected[0].reason.startswith(f"schema {number}: value is ")
    assert decoded.rejected[0].reason.endswith("which cannot be read as int64")


def test_a_number_that_does_not_fit_is_rejected_alone(registry: RegistryServer):
    schema = record("long")
    number = registry.register("topic-value", schema)
    rows = [{"before": 1, "value": value} for value in (1, 2**40, 3)]
    decoded = read(registry, "value int", [framed(number, write(schema, row)) for row in rows])
    assert decoded.rows.to_pylist() == [{"value": 1}, {"value": 3}]
    assert decoded.rejected == [(1, "value: 1099511627776 does not fit int32")]


def test_broken_records_are_rejected_alone(registry: RegistryServer):
    schema = record("string")
    number = registry.register("topic-value", schema)
    good = [
        framed(number, write(schema, {"before": n, "value": "x" * (n % 50)})) for n in range(1000)
    ]
    values: list[bytes | None] = list(good)
    values[10] = good[10][:-1]
    values[500] = good[500] + b"\x02"
    values[700] = b"\x01" + good[700][1:]
    values[800] = framed(99, b"")
    values[801] = None
    values[802] = b"\0\0"
    decoded = read(registry, None, values)
    bad = {10, 500, 700, 800, 801, 802}
    assert {at for at, _ in decoded.rejected} == bad
    kept = [number for number in range(1000) if number not in bad]
    assert decoded.rows.column("before").to_pylist() == kept
    assert decoded.accepted is not None
    assert decoded.accepted.to_pylist() == kept
    reasons = dict(decoded.rejected)
    assert reasons[10].startswith(f"no record of schema {number}")
    assert reasons[500] == f"bytes are left over behind a record of schema {number}"
    assert reasons[700].startswith("no schema id")
    assert reasons[800] == "the registry has no schema 99"
    assert reasons[801].startswith("no value")


def test_bytes_that_are_changed_harm_only_their_record(registry: RegistryServer):
    schema = record({"type": "array", "items": "string"})
    number = registry.register("topic-value", schema)
    rows = [{"before": n, "value": ["x" * (n % 3)] * (n % 4)} for n in range(40)]
    good = [framed(number, write(schema, row)) for row in rows]
    chance = random.Random(5)
    for _ in range(100):
        victim = chance.randrange(1, len(good))
        changed = bytearray(good[victim])
        changed[chance.randrange(5, len(changed))] = chance.choice([0, 1, 127, 128, 255])
        decoded = read(registry, None, [*good[:victim], bytes(changed), *good[victim + 1 :]])
        assert {at for at, _ in decoded.rejected} <= {victim}
        read_rows = decoded.rows.to_pylist()
        assert read_rows[:victim] == rows[:victim]
        after = len(rows) - victim - 1
        assert read_rows[len(read_rows) - after :] == rows[victim + 1 :]


def test_two_mistakes_that_cancel_out_are_found(registry: RegistryServer):
    schema = record("string")
    number = registry.register("topic-value", schema)
    one = write(schema, {"before": 1, "value": "abc"})
    two = write(schema, {"before": 2, "value": "def"})
    values = [framed(number, one + two[:1]), framed(number, two[1:])]
    decoded = read(registry, None, values)
    assert len(decoded.rejected) == 2


def test_named_types_and_references_are_followed(registry: RegistryServer):
    point = {"type": "record", "name": "geo.Point", "fields": [{"name": "x", "type": "long"}]}
    registry.register("point", point)
    line = {
        "type": "record",
        "name": "Line",
        "fields": [
            {"name": "from", "type": "geo.Point"},
            {"name": "to", "type": ["null", "geo.Point"]},
        ],
    }
    reference = {"name": "geo.Point", "subject": "point", "version": 1}
    number = registry.register("topic-value", line, references=[reference])
    known: dict[str, Any] = {}
    fastavro.parse_schema(point, named_schemas=known)
    stream = io.BytesIO()
    row = {"from": {"x": 1}, "to": None}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(line, named_schemas=known), row)
    decoded = read(registry, None, [framed(number, stream.getvalue())])
    assert decoded.rows.to_pylist() == [row]


def test_null_where_it_must_not_be_is_rejected(registry: RegistryServer):
    schema = record(["null", "string"])
    number = registry.register("topic-value", schema)
    values = [
        framed(number, write(schema, {"before": 1, "value": text})) for text in ("a", None, "c")
    ]
    decoded = read(registry, "value string not null", values)
    assert decoded.rows.to_pylist() == [{"value": "a"}, {"value": "c"}]
    assert decoded.rejected == [(1, "value: missing or null")]


def test_a_registry_that_is_down_rejects_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry_module, "BACKOFF_SECONDS", (0.0,))
    options = {"registry": "http://127.0.0.1:1"}
    made = decoder("avro", schema_of("id bigint"), options)
    with pytest.raises(RegistryFailed, match="did not answer"):
        made.decode(batch([framed(1, b"\x02")]))


def test_no_records_are_no_rows(registry: RegistryServer):
    assert read(registry, "id bigint", []).rows.num_rows == 0
    assert read(registry, "id bigint", [None], tombstones="null").rows.to_pylist() == [{"id": None}]


def test_debezium_s_envelopes_may_be_avro(registry: RegistryServer):
    table = {
        "type": "record",
        "name": "Value",
        "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
    }
    envelope = {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.public.users",
        "fields": [
            {"name": "before", "type": ["null", table], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {
                "name": "source",
                "type": {
                    "type": "record",
                    "name": "Source",
                    "fields": [
                        {"name": "ts_ms", "type": "long"},
                        {"name": "db", "type": "string"},
                        {"name": "table", "type": "string"},
                    ],
                },
            },
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"]},
        ],
    }
    number = registry.register("shop.public.users-value", envelope)
    source = {"ts_ms": 1_700_000_000_123, "db": "shop", "table": "users"}
    event = {"before": None, "after": {"id": 1, "name": "ada"}, "source": source, "op": "c"}
    value = framed(number, write(envelope, {**event, "ts_ms": None}))
    options = {"registry": registry.address}
    rows = row_schema("debezium", "id bigint, name string", options)
    decoded = decoder("debezium", rows, options).decode(batch([value, None]))
    assert decoded.skipped == 1
    (row,) = decoded.rows.to_pylist()
    assert row["after"] == {"id": 1, "name": "ada"}
    assert row["before"] is None
    assert (row["op"], row["source_db"], row["source_table"]) == ("c", "shop", "users")
    assert row["ts"] == datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=datetime.UTC)
