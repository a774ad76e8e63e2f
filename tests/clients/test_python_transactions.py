"""Transactions of the clients that are written in Python: aiokafka and kafka-python."""

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition

from tests.clients.librdkafka import consumer, read_values, reader, send
from tests.clusters import Cluster

KEPT = [b"kept 1", b"kept 2"]


async def aiokafka_producer(cluster: Cluster, transactional_id: str) -> AIOKafkaProducer:
    made = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=transactional_id)
    await made.start()
    return made


async def test_aiokafka_commits_aborts_and_reads_what_counts(cluster: Cluster, topic: str):
    writer = await aiokafka_producer(cluster, topic)
    try:
        async with writer.transaction():
            await writer.send_and_wait(topic, KEPT[0])
        await writer.begin_transaction()
        await writer.send_and_wait(topic, b"dropped")
        await writer.abort_transaction()
        async with writer.transaction():
            await writer.send_and_wait(topic, KEPT[1])
    finally:
        await writer.stop()
    async with AIOKafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as reading:
        assert [(await reading.getone()).value for _ in KEPT] == KEPT


async def test_aiokafka_sends_offsets_with_its_records(cluster: Cluster, topic: str, group: str):
    send(cluster, topic, [b"input"])
    writer = await aiokafka_producer(cluster, topic)
    try:
        async with writer.transaction():
            await writer.send_and_wait(topic, b"output")
            offsets = {AiokafkaPartition(topic, 0): 1}
            await writer.send_offsets_to_transaction(offsets, group)
    finally:
        await writer.stop()
    with consumer(cluster, group) as asking:
        assert asking.committed([TopicPartition(topic, 0)], 20)[0].offset == 1


async def test_aiokafka_is_fenced_by_a_second_instance(cluster: Cluster, topic: str):
    first = await aiokafka_producer(cluster, topic)
    await first.begin_transaction()
    await first.send_and_wait(topic, b"left behind")
    second = await aiokafka_producer(cluster, topic)
    try:
        with pytest.raises(ProducerFenced):
            await first.commit_transaction()
        async with second.transaction():
            await second.send_and_wait(topic, KEPT[0])
    finally:
        await first.stop()
        await second.stop()
    with reader(cluster, topic, isolation_level="read_committed") as reading:
        assert read_values(reading, 1) == KEPT[:1]


def test_kafka_python_commits_aborts_and_reads_what_counts(cluster: Cluster, topic: str):
    writer = KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=topic)
    try:
        writer.init_transactions()
        for value, end in (
            (KEPT[0], writer.commit_transaction),
            (b"dropped", writer.abort_transaction),
            (KEPT[1], writer.commit_transaction),
        ):
            writer.begin_transaction()
            writer.send(topic, value, partition=0).get(20)
            end()
    finally:
        writer.close(timeout=5)
    reading = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    try:
        reading.assign([KafkaPythonPartition(topic, 0)])
        assert [next(reading).value for _ in KEPT] == KEPT
    finally:
        reading.close()
