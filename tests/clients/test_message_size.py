"""Large messages pass, and a topic's limit is kept whatever the client believes."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError as AiokafkaMessageTooLarge
from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kafka import KafkaProducer
from kafka.errors import MessageSizeTooLargeError

from tests.clients.drivers import LIBRARIES
from tests.clients.librdkafka import eventually, read_values, reader, send
from tests.clients.messages import values
from tests.clusters import Cluster
from tests.conftest import TopicFactory


def test_the_default_limit_is_a_mebibyte_and_twelve_bytes(cluster: Cluster, topic: str):
    generous = {"message.max.bytes": 4_000_000}
    overhead = 61 + 20
    fits = 1_048_588 - overhead
    (accepted,) = send(cluster, topic, [b"x" * fits], config=generous)
    (refused,) = send(cluster, topic, [b"x" * (fits + 40)], config=generous)
    assert (accepted.error, refused.error) == (0, KafkaError.MSG_SIZE_TOO_LARGE)


def test_a_message_above_the_topics_limit_is_refused_by_name(
    cluster: Cluster, new_topic: TopicFactory
):
    topic = new_topic(config={"max.message.bytes": "2000"})
    one_by_one = {"batch.num.messages": 1}
    deliveries = send(cluster, topic, [b"a", b"x" * 3_000, b"b"], config=one_by_one)
    codes = [delivery.error for delivery in deliveries]
    assert sorted(codes) == [0, 0, KafkaError.MSG_SIZE_TOO_LARGE]
    with reader(cluster, topic) as consumer:
        assert read_values(consumer, 2) == [b"a", b"b"]


def test_the_limit_counts_the_batch_as_it_is_stored(cluster: Cluster, new_topic: TopicFactory):
    topic = new_topic(config={"max.message.bytes": "2000"})
    (compressed,) = send(cluster, topic, [b"x" * 50_000], config={"compression.type": "gzip"})
    assert compressed.error == 0
    with reader(cluster, topic) as consumer:
        assert read_values(consumer, 1) == [b"x" * 50_000]


def test_kafka_python_learns_that_its_message_is_too_large(
    cluster: Cluster, new_topic: TopicFactory
):
    topic = new_topic(config={"max.message.bytes": "2000"})
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    try:
        with pytest.raises(MessageSizeTooLargeError):
            producer.send(topic, b"x" * 3_000).get(timeout=20)
    finally:
        producer.close(timeout=5)


async def test_aiokafka_learns_that_its_message_is_too_large(
    cluster: Cluster, new_topic: TopicFactory
):
    topic = new_topic(config={"max.message.bytes": "2000"})
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        with pytest.raises(AiokafkaMessageTooLarge):
            await asyncio.wait_for(producer.send_and_wait(topic, b"x" * 3_000), 20)


def test_a_raised_limit_lets_the_same_message_pass(
    cluster: Cluster, new_topic: TopicFactory, admin: AdminClient
):
    topic = new_topic(config={"max.message.bytes": "2000"})
    (refused,) = send(cluster, topic, [b"x" * 3_000])
    resource = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry("max.message.bytes", "5000", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    admin.incremental_alter_configs([resource])[resource].result(20)
    assert refused.error == KafkaError.MSG_SIZE_TOO_LARGE
    eventually(lambda: send(cluster, topic, [b"x" * 3_000])[0].error == 0)


def test_messages_of_several_megabytes_reach_every_client(
    cluster: Cluster, new_topic: TopicFactory
):
    topic = new_topic(config={"max.message.bytes": "20000000"})
    large = [bytes([number]) * 5_000_000 for number in range(3)]
    deliveries = send(cluster, topic, large, config={"message.max.bytes": 20_000_000})
    assert [delivery.error for delivery in deliveries] == [0, 0, 0]
    for client in LIBRARIES:
        assert values(client.consume(cluster, topic, 3)) == large, client.name
