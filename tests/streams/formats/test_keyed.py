"""What the records of a table say about its keys."""

import io
from typing import Any

import fastavro
import pytest

from headrace.streams.formats import row_schema
from headrace.streams.formats.decoding import Decoded
from headrace.streams.formats.keyed import KeyedDecoder
from tests.streams.formats.batches import batch, framed, shown
from tests.streams.formats.registry_server import registry_server

Record = tuple[bytes | None, bytes | None]


def fates(
    schema: str, key: list[str], *records: Record, named: str = "json", **options: str
) -> list[str]:
    keys, values = [each for each, _ in records], [value for _, value in records]
    made = KeyedDecoder(named, row_schema(named, schema or None, options), options, key)
    decoded: Decoded = made.decode(batch(values, keys))
    decoded.rows.validate(full=True)
    assert decoded.rows.schema == made.schema
    return shown(decoded, len(records))


NOWHERE = "rejected: id: neither in the value nor in the key"


def test_only_a_record_without_a_value_is_a_deletion():
    assert fates(
        "id int, age int not null",
        ["id"],
        (b"1", b'{"id": 1, "age": 17}'),
        (b"2", b'{"age": 18}'),
        (None, b'{"age": 18}'),
        (b"two", b'{"id": null, "age": 18}'),
        (b"3", b'{"id": 3}'),
        (b"4", None),
        (None, None),
        (b"?", None),
        (b"5", b"no json"),
        (None, b'{"id": 6, "age": 1}'),
    ) == [
        "1, 17, False",
        "2, 18, False",
        NOWHERE,
        NOWHERE,
        "rejected: age: missing or null",
        "4, null, True",
        NOWHERE,
        NOWHERE,
        "rejected: no JSON from byte 0 on: no json",
        "6, 1, False",
    ]


def test_a_key_of_several_columns_is_an_object_of_them():
    assert fates(
        "shop string, id int, age int",
        ["shop", "id"],
        (b'{"shop": "a", "id": 1}', None),
        (b'{"shop": "a", "id": 1}', b'{"id": 2, "age": 3}'),
        (b'{"shop": "a"}', None),
        (b"a", b'{"id": 2}'),
    ) == [
        "'a', 1, null, True",
        "'a', 2, 3, False",
        NOWHERE,
        "rejected: shop: neither in the value nor in the key",
    ]


@pytest.mark.parametrize(
    ("kind", "key", "read"),
    [
        ("string", b"ada", "'ada'"),
        ("string", b"17", "'17'"),
        ("string", b'{"id": "ada"}', "'ada'"),
        ("string", b'{"name": "ada"}', """'{"name": "ada"}'"""),
        ("string", b"\xff", None),
        ("binary", b"\xff", "b'\\xff'"),
        ("bigint", b"9" * 5000, None),
        ("bigint", b'1, "id": 2', None),
        ("bigint", b'"1"', None),
        ("boolean", b"true", "True"),
        ("decimal(5,2)", b"1.50", "1.50"),
        ("date", b"2026-01-02", "2026-01-02"),
        ("timestamp", b"2026-01-02 03:04:05.5", "2026-01-02T03:04:05.500000"),
        ("double", b"[" * 9000, None),
    ],
)
def test_the_text_of_a_key_is_read_as_its_column(kind: str, key: bytes, read: str | None):
    (fate,) = fates(f"id {kind}", ["id"], (key, None))
    assert fate == (NOWHERE if read is None else f"{read}, True")


def test_a_deletion_of_debezium_is_one():
    assert fates(
        "id int, name string",
        ["id"],
        (b'{"id": 1}', b'{"op": "c", "after": {"id": 1, "name": "a"}}'),
        (b'{"id": 1}', b'{"op": "d", "before": {"id": 1, "name": "a"}}'),
        (b'{"schema": {"type": "struct"}, "payload": {"id": 2}}', b'{"op": "d"}'),
        (b'{"schema": {"type": "struct"}, "payload": {"id": 2}}', None),
        (None, b'{"op": "t"}'),
        named="debezium",
        unwrap="true",
    ) == [
        "1, 'a', 'c', null, False",
        "1, 'a', 'd', null, True",
        "2, null, 'd', null, True",
        "2, null, null, null, True",
        NOWHERE,
    ]


def test_keys_are_read_with_the_schema_that_they_name():
    def avro(schema: Any, row: Any) -> bytes:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), row)
        return stream.getvalue()

    fields = [{"name": "id", "type": "long"}]
    key = {"type": "record", "name": "K", "fields": fields}
    value = {"type": "record", "name": "V", "fields": [*fields, {"name": "a", "type": "string"}]}
    with registry_server() as registry:
        registry.register("t-key", key)
        registry.register("t-value", value)
        assert fates(
            "id bigint, a string",
            ["id"],
            (None, framed(2, avro(value, {"id": 1, "a": "x"}))),
            (framed(1, avro(key, {"id": 1})), None),
            (framed(9, b""), None),
            named="avro",
            registry=registry.address,
        ) == ["1, 'x', False", "1, null, True", NOWHERE]


def test_raw_records_have_their_key():
    assert fates("", ["key"], (b"a", b"1"), (b"a", None), (None, b"1"), named="raw") == [
        "b'a', b'1', False",
        "b'a', null, True",
        "rejected: key: neither in the value nor in the key",
    ]
