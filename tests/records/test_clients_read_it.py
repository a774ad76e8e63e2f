"""Batches that Headrace encodes, through a real broker to a real client.

Apache Kafka takes every batch apart before it appends it, so its acceptance shows what the Java
client makes of it; the consumer is librdkafka's.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from kio.schema.errors import ErrorCode

from headrace.records import Codec, Record, iterate_headers, stamp
from headrace.records.arrow import encode
from tests.clients.stored import append
from tests.clients.wire import Wire
from tests.clusters import Cluster
from tests.records.golden.records import BULK, EDGES

RECORDS = EDGES + BULK


@pytest.fixture
def consumer(cluster: Cluster, group: str) -> Iterator[Consumer]:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "check.crcs": True}
    consumer = Consumer(settings)
    yield consumer
    consumer.close()


def table() -> pa.Table:
    return pa.table(
        {
            "key": [record.key for record in RECORDS],
            "value": [record.value for record in RECORDS],
            "timestamp": [record.timestamp for record in RECORDS],
            "headers": pa.array(
                [record.headers for record in RECORDS], pa.map_(pa.string(), pa.binary())
            ),
        }
    )


def read(consumer: Consumer, topic: str) -> list[Record]:
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(len(RECORDS), timeout=30)
    assert all(message.error() is None for message in messages)
    return [as_record(message) for message in messages]


def as_record(message: Message) -> Record:
    headers: Any = message.headers() or ()
    return Record(message.key(), message.value(), message.timestamp()[1], tuple(headers))


def send(cluster: Cluster, topic: str, batches: bytearray) -> None:
    with Wire(cluster) as wire:
        for position, header in iterate_headers(batches):
            batch = batches[position : position + header.size]
            stamp(batch, 0, -1)
            appended = append(wire, topic, batch)
            assert appended is not None
            assert appended.error_code is ErrorCode.none


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("max_records", [50, 1000])
def test_encoded_batches_are_accepted_and_read(
    cluster: Cluster, topic: str, consumer: Consumer, codec: Codec, max_records: int
):
    send(cluster, topic, encode(table(), codec=codec, max_records=max_records))
    assert read(consumer, topic) == list(RECORDS)
