"""Every record is in one place: among the rows, or among the dead letters."""

import io
import json
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.kafka import Partition
from headrace.streams.source import InvalidOption, parse_options
from headrace.streams.source.reading import TaskReader
from headrace.streams.source.schema import judging_schema, source_schema
from headrace.streams.source.splits import Range
from headrace.testing.plugin import BrokerUnderTest
from tests.streams.formats.batches import framed
from tests.streams.formats.registry_server import registry_server

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

SCHEMA = "id bigint not null, tags array<struct<name string not null>>, price decimal(10,2)"

ODD: list[bytes | None] = [
    b"not json",
    b"",
    None,
    b"\xff\xfe",
    b"[]",
    b"{}",
    b'{"id": null}',
    b'{"id": "one"}',
    b'{"id": 1.5}',
    b'{"id": 2, "tags": [{"name": null}]}',
    b'{"id": 3, "tags": "none"}',
    b'{"id": 4, "price": 1' + b"0" * 5000 + b"}",
    b'{"key": "QQ==", "value": "QQ==", "headers": []}',
]
"""Values that no row can be made of, whatever the format."""

GOOD: list[bytes | None] = [
    b'{"id": 5, "tags": [], "price": 1.25}',
    b'{"id": 6, "tags": [{"name": "new"}]}',
    b'{"id": 7}',
]

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": ["null", "long"]},
        {"name": "price", "type": ["null", "string"]},
    ],
}


def avro(row: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(AVRO), row)
    return framed(1, stream.getvalue())


def changes(values: Sequence[bytes | None]) -> list[bytes | None]:
    return [
        each and b'{"op": "c", "after": ' + (each if each.startswith(b"{") else b'"?"') + b"}"
        for each in values
    ]


def letters_of(batches: "Sequence[pa.RecordBatch]") -> dict[int, bytes | None]:
    """Values by the offset that their headers tell."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    headers = [{each["key"]: each["value"] for each in row["headers"]} for row in rows]
    offsets = [int(each["headrace.offset"]) for each in headers]
    return dict(zip(offsets, (row["value"] for row in rows), strict=True))


class Topic:
    """A topic of some records, read in both ways."""

    def __init__(self, bootstrap: str, name: str, values: Sequence[bytes | None]) -> None:
        self.bootstrap, self.name, self.values = bootstrap, name, values
        producer = Producer({"bootstrap.servers": bootstrap})
        for value in values:
            producer.produce(name, value, key=b"k", partition=0)
        assert producer.flush(20) == 0

    def read(self, **options: str) -> "list[pa.RecordBatch]":
        given = {"bootstrap": self.bootstrap, "topics": self.name, **options}
        parsed = parse_options(given)
        schema = source_schema(parsed)
        reader = TaskReader(parsed, schema, judging_schema(parsed, schema))
        return list(reader.read([Range(Partition(self.name, 0), 0, len(self.values))]))

    def accepted(self, **options: str) -> set[int]:
        """The offsets of the rows, after a check that all other records are dead letters."""
        rows = self.read(**options, on_error="skip", include="offset")
        accepted = {offset for batch in rows for offset in batch.column("_offset").to_pylist()}
        for include in ("", "offset", "key,offset,headers,topic,partition,timestamp"):
            letters = letters_of(self.read(**options, on_error="only", include=include))
            assert letters == {
                offset: value for offset, value in enumerate(self.values) if offset not in accepted
            }
        return accepted


@pytest.fixture
def order(fresh_name: str) -> random.Random:
    return random.Random(fresh_name)


def test_records_of_json_are_rows_or_dead_letters(
    headrace_broker: BrokerUnderTest, fresh_name: str, order: random.Random
):
    values = [*GOOD, *ODD] * 3
    order.shuffle(values)
    topic = Topic(headrace_broker.bootstrap, fresh_name, values)
    good = {offset for offset, value in enumerate(values) if value in GOOD}
    assert topic.accepted(format="json", schema=SCHEMA) == good
    with_tombstones = good | {offset for offset, value in enumerate(values) if value is None}
    assert topic.accepted(format="json", schema=SCHEMA, tombstones="null") == with_tombstones


def test_records_of_json_with_a_header_are_rows_or_dead_letters(
    headrace_broker: BrokerUnderTest, fresh_name: str
):
    values = [*GOOD, *(each and framed(7, each) for each in (*GOOD, *ODD)), b"\0\0"]
    topic = Topic(headrace_broker.bootstrap, fresh_name, values)
    assert topic.accepted(format="json_schema", schema=SCHEMA) == {3, 4, 5}


@pytest.mark.parametrize("unwrap", ["false", "true"])
def test_changes_of_debezium_are_rows_or_dead_letters(
    headrace_broker: BrokerUnderTest, fresh_name: str, unwrap: str
):
    values = changes([*GOOD, *ODD])
    topic = Topic(headrace_broker.bootstrap, fresh_name, [*values, b"{}", b'{"op": 3}', b"?"])
    options = {"format": "debezium", "schema": SCHEMA, "decimals": "plain", "tombstones": "reject"}
    accepted = topic.accepted(**options, unwrap=unwrap)
    assert accepted >= {0, 1, 2}
    assert accepted.isdisjoint(range(len(values), len(values) + 3))


@pytest.mark.parametrize("schema", [None, "id bigint not null", "id int, price string not null"])
def test_records_of_avro_are_rows_or_dead_letters(
    headrace_broker: BrokerUnderTest, fresh_name: str, schema: str | None
):
    with registry_server() as registry:
        registry.register(f"{fresh_name}-value", AVRO)
        values = [
            avro({"id": 1, "price": "1"}),
            avro({"id": None, "price": "1"}),
            avro({"id": 2**40, "price": "1"}),
            avro({"id": 3, "price": None}),
            avro({"id": 4, "price": "1"})[:-1],
            avro({"id": 5, "price": "1"}) + b"?",
            framed(99, b"?"),
            *ODD,
        ]
        topic = Topic(headrace_broker.bootstrap, fresh_name, values)
        options = {"format": "avro", "registry": registry.address}
        accepted = topic.accepted(**options, **({"schema": schema} if schema else {}))
    expected = {
        None: {0, 1, 2, 3},
        "id bigint not null": {0, 2, 3},
        "id int, price string not null": {0, 1},
    }
    assert accepted == expected[schema]


def test_a_table_has_each_record_as_a_change_or_a_dead_letter(
    headrace_broker: BrokerUnderTest, fresh_name: str
):
    values = [*GOOD, *ODD]
    topic = Topic(headrace_broker.bootstrap, fresh_name, values)
    assert topic.accepted(format="json", schema=SCHEMA, key="id") == {0, 1, 2}


def test_a_record_of_no_time_is_a_dead_letter_where_its_time_is_wanted(
    headrace_broker: BrokerUnderTest, fresh_name: str
):
    admin = AdminClient({"bootstrap.servers": headrace_broker.bootstrap})
    any_time = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    admin.create_topics([NewTopic(fresh_name, 1, 1, config=any_time)])[fresh_name].result(20)
    topic = Topic(headrace_broker.bootstrap, fresh_name, GOOD)
    producer = Producer({"bootstrap.servers": headrace_broker.bootstrap})
    producer.produce(fresh_name, GOOD[0], timestamp=2**62, partition=0)
    assert producer.flush(20) == 0
    topic.values = [*GOOD, GOOD[0]]
    options = {"format": "json", "schema": SCHEMA, "include": "timestamp,offset"}
    assert sum(batch.num_rows for batch in topic.read(**options, on_error="skip")) == 3
    assert set(letters_of(topic.read(**options, on_error="only"))) == {3}


def test_what_a_task_skips_is_in_its_last_row(headrace_broker: BrokerUnderTest, fresh_name: str):
    topic = Topic(headrace_broker.bootstrap, fresh_name, [*GOOD, *ODD])
    options = {"format": "json", "schema": SCHEMA, "count_skipped": "true"}
    admin = AdminClient({"bootstrap.servers": headrace_broker.bootstrap})
    where = TopicPartition(fresh_name, 0, 2)
    admin.delete_records([where])[where].result(20)
    *rows, counts = topic.read(**options, on_error="skip", on_gap="skip")
    assert [row["_rejected"] for batch in rows for row in batch.to_pylist()] == [None]
    counted = {"_rejected": len(ODD), "_lost": 2, "_implausible": 0}
    assert counts.to_pylist() == [{"id": None, "tags": None, "price": None, **counted}]
    *letters, counts = topic.read(**options, on_error="only", on_gap="skip")
    assert len(letters_of(letters)) == len(ODD)
    assert counts.select(["_rejected", "_lost"]).to_pylist() == [{"_rejected": 0, "_lost": 2}]


def test_columns_given_to_spark_cannot_be_those_of_dead_letters():
    from headrace.streams.formats import schema_of

    options = parse_options({"topics": "orders", "format": "json", "on_error": "only"})
    with pytest.raises(InvalidOption, match="Give the schema as the option schema"):
        judging_schema(options, schema_of("id bigint"))


def test_in_spark_what_the_schema_forbids_is_rejected(
    spark: "SparkSession", headrace_broker: BrokerUnderTest, fresh_name: str
):
    from headrace.streams.source import register

    register(spark)
    values = [*GOOD, *ODD]
    Topic(headrace_broker.bootstrap, fresh_name, values)
    options = {
        "bootstrap": headrace_broker.bootstrap,
        "topics": fresh_name,
        "format": "json",
        "schema": SCHEMA,
        "include": "offset",
    }
    reader = spark.read.format("headrace").options(**options)
    rows = reader.option("on_error", "skip").load()
    assert not rows.schema["id"].nullable
    assert {row._offset for row in rows.collect()} == {0, 1, 2}
    letters = reader.option("on_error", "only").load().collect()
    assert [each.value and bytes(each.value) for each in letters] == ODD
    reasons = [json.dumps(bytes(each.headers[0].value).decode()) for each in letters]
    assert any("id: missing or null" in each for each in reasons)
