"""Readers that ask for committed messages only, on a log without transactions."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from tests.clients.librdkafka import consumer, read_values, reader, send
from tests.clusters import Cluster

SENT = [str(number).encode() for number in range(50)]


@pytest.fixture
def filled(cluster: Cluster, topic: str) -> str:
    send(cluster, topic, SENT)
    return topic


def test_confluent_kafka_reads_everything(cluster: Cluster, filled: str):
    with reader(cluster, filled, isolation_level="read_committed") as reading:
        assert read_values(reading, 50) == SENT
    with consumer(cluster, "unused", {"isolation.level": "read_committed"}) as asking:
        assert asking.get_watermark_offsets(TopicPartition(filled, 0), 20) == (0, 50)


def test_kafka_python_reads_everything(cluster: Cluster, filled: str):
    partition = KafkaPythonPartition(filled, 0)
    reading = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    try:
        reading.assign([partition])
        assert [next(reading).value for _ in range(50)] == SENT
        assert reading.end_offsets([partition]) == {partition: 50}
    finally:
        reading.close()


async def test_aiokafka_reads_everything(cluster: Cluster, filled: str):
    partition = AiokafkaPartition(filled, 0)
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as reading:
        reading.assign([partition])
        async with asyncio.timeout(20):
            assert [(await reading.getone()).value for _ in range(50)] == SENT
        assert reading.last_stable_offset(partition) == reading.highwater(partition) == 50
