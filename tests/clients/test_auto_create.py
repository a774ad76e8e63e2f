"""A topic that nobody created appears when it is first used, unless the client says no."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kio.schema.errors import ErrorCode

from tests.clients.drivers import DRIVERS, Driver, named
from tests.clients.librdkafka import consumer, eventually, producer
from tests.clients.messages import numbered, plain
from tests.clients.wire import Wire
from tests.clusters import Cluster


@pytest.mark.parametrize("client", DRIVERS, ids=named)
def test_producing_creates_the_topic(cluster: Cluster, fresh_name: str, client: Driver):
    messages = numbered(3)
    client.produce(cluster, fresh_name, messages)
    assert plain(client.consume(cluster, fresh_name, 3)) == plain(messages)


def test_asking_for_the_metadata_of_one_topic_creates_it(cluster: Cluster, fresh_name: str):
    asking = producer(cluster)

    def partitions() -> int:
        found = asking.list_topics(fresh_name, timeout=10).topics[fresh_name]
        return len(found.partitions) if found.error is None else 0

    assert eventually(partitions) == 1


def test_asking_for_all_topics_creates_none(cluster: Cluster, admin: AdminClient, fresh_name: str):
    assert fresh_name not in admin.list_topics(timeout=10).topics
    assert fresh_name not in admin.list_topics(timeout=10).topics


def test_metadata_without_permission_to_create_reports_an_unknown_topic(
    cluster: Cluster, admin: AdminClient, fresh_name: str
):
    with Wire(cluster) as wire:
        answer = wire.ask(
            "metadata", 4, topics=[{"name": fresh_name}], allow_auto_topic_creation=False
        )
    (found,) = answer.topics
    assert found.error_code is ErrorCode.unknown_topic_or_partition
    assert found.partitions == ()
    assert fresh_name not in admin.list_topics(timeout=10).topics


def test_metadata_from_before_that_permission_creates_the_topic(cluster: Cluster, fresh_name: str):
    with Wire(cluster) as wire:

        def leaders() -> list[int]:
            (found,) = wire.ask("metadata", 1, topics=[{"name": fresh_name}]).topics
            return [partition.leader_id for partition in found.partitions]

        assert len(eventually(leaders)) == 1


def test_an_invalid_name_is_refused_instead_of_created(cluster: Cluster, fresh_name: str):
    asking = producer(cluster)
    invalid = f"{fresh_name} with spaces"
    found = asking.list_topics(invalid, timeout=10).topics[invalid]
    assert found.error is not None
    assert found.error.code() == KafkaError.TOPIC_EXCEPTION


def test_a_confluent_consumer_does_not_create_what_it_subscribes_to(
    cluster: Cluster, admin: AdminClient, fresh_name: str, group: str
):
    with consumer(cluster, group) as subscribed:
        subscribed.subscribe([fresh_name])
        message = subscribed.poll(10)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert fresh_name not in admin.list_topics(timeout=10).topics


async def test_an_aiokafka_consumer_waits_for_a_topic_that_a_producer_then_creates(
    cluster: Cluster, fresh_name: str
):
    async with (
        AIOKafkaConsumer(
            fresh_name,
            bootstrap_servers=cluster.bootstrap,
            auto_offset_reset="earliest",
            metadata_max_age_ms=200,
        ) as waiting,
        AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as sender,
    ):
        await sender.send_and_wait(fresh_name, b"at last")
        record = await asyncio.wait_for(waiting.getone(), 20)
    assert record.value == b"at last"


def test_a_kafka_python_consumer_creates_what_it_subscribes_to(
    cluster: Cluster, admin: AdminClient, fresh_name: str
):
    subscribed = KafkaConsumer(fresh_name, bootstrap_servers=cluster.bootstrap)
    try:
        subscribed.poll(timeout_ms=500)
        eventually(lambda: fresh_name in admin.list_topics(timeout=10).topics)
    finally:
        subscribed.close()
