"""Committed offsets: what is stored, with what, for whom, and for how long."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.structs import OffsetAndMetadata as AiokafkaOffset
from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import GroupSubscribedToTopicError
from kafka.structs import OffsetAndMetadata

from tests.clients.librdkafka import consumer, eventually, read_values, send
from tests.clients.membership import Member, await_shares, stopping
from tests.clusters import Cluster
from tests.conftest import TopicFactory


def committed(cluster: Cluster, group: str, topic: str, partition: int = 0) -> int:
    with consumer(cluster, group) as asking:
        (found,) = asking.committed([TopicPartition(topic, partition)], 20)
    return found.offset


def test_a_commit_is_there_after_reconnecting(
    cluster: Cluster, new_topic: TopicFactory, group: str
):
    topic = new_topic(partitions=3)
    with consumer(cluster, group) as committing:
        places = [TopicPartition(topic, 0, 5), TopicPartition(topic, 2, 7)]
        committing.commit(offsets=places, asynchronous=False)
    assert [committed(cluster, group, topic, number) for number in range(3)] == [
        5,
        OFFSET_INVALID,
        7,
    ]


def test_commits_of_different_groups_do_not_touch_each_other(
    cluster: Cluster, topic: str, group: str
):
    for offset in (1, 2, 3):
        with consumer(cluster, f"{group}-{offset}") as committing:
            committing.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    assert [committed(cluster, f"{group}-{offset}", topic) for offset in (1, 2, 3)] == [1, 2, 3]
    assert committed(cluster, f"{group}-none", topic) == OFFSET_INVALID


def test_the_metadata_of_a_commit_comes_back_to_every_client(
    cluster: Cluster, topic: str, group: str
):
    note = "réunion at 3, ☂"
    with consumer(cluster, group) as committing:
        place = TopicPartition(topic, 0, 5, note)
        committing.commit(offsets=[place], asynchronous=False)
        (found,) = committing.committed([TopicPartition(topic, 0)], 20)
        assert (found.offset, found.metadata) == (5, note)
    asking = KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=group)
    try:
        answer = asking.committed(KafkaPythonPartition(topic, 0), metadata=True)
        # librdkafka ends the text that it sends with a zero byte, which is stored like the rest.
        assert (answer.offset, answer.metadata.removesuffix("\0")) == (5, note)
    finally:
        asking.close()


async def test_aiokafka_commits_offset_and_metadata(cluster: Cluster, topic: str, group: str):
    partition = AiokafkaPartition(topic, 0)
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap, group_id=group, enable_auto_commit=False
    ) as committing:
        committing.assign([partition])
        await committing.commit({partition: AiokafkaOffset(9, "from aiokafka")})
        async with asyncio.timeout(20):
            assert await committing.committed(partition) == 9
    with consumer(cluster, group) as asking:
        (found,) = asking.committed([TopicPartition(topic, 0)], 20)
    assert (found.offset, found.metadata) == (9, "from aiokafka")


def test_kafka_python_commits_offset_and_metadata(cluster: Cluster, topic: str, group: str):
    partition = KafkaPythonPartition(topic, 0)
    committing = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap, group_id=group, enable_auto_commit=False
    )
    try:
        committing.assign([partition])
        committing.commit({partition: OffsetAndMetadata(11, "from kafka-python", -1)})
        assert committing.committed(partition) == 11
    finally:
        committing.close()
    with consumer(cluster, group) as asking:
        (found,) = asking.committed([TopicPartition(topic, 0)], 20)
    assert (found.offset, found.metadata) == (11, "from kafka-python")


def test_too_much_metadata_is_refused(cluster: Cluster, topic: str, group: str):
    with consumer(cluster, group) as committing:
        oversized = TopicPartition(topic, 0, 5, "x" * 5_000)
        with pytest.raises(KafkaException) as caught:
            committing.commit(offsets=[oversized], asynchronous=False)
    assert caught.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE
    assert committed(cluster, group, topic) == OFFSET_INVALID


def test_a_commit_for_a_topic_that_is_not_there_is_refused(
    cluster: Cluster, fresh_name: str, group: str
):
    with consumer(cluster, group) as committing, pytest.raises(KafkaException) as caught:
        committing.commit(offsets=[TopicPartition(fresh_name, 0, 5)], asynchronous=False)
    assert caught.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_stored_offsets_are_committed_in_the_background_and_on_close(
    cluster: Cluster, topic: str, group: str
):
    send(cluster, topic, [b"x"] * 10)
    automatic = {
        "enable.auto.commit": True,
        "enable.auto.offset.store": False,
        "auto.commit.interval.ms": 100,
    }
    with consumer(cluster, group, automatic) as working:
        working.subscribe([topic])
        read_values(working, 10)
        working.store_offsets(offsets=[TopicPartition(topic, 0, 3)])
        eventually(lambda: committed(cluster, group, topic) == 3)
        working.store_offsets(offsets=[TopicPartition(topic, 0, 8)])
    assert committed(cluster, group, topic) == 8


def test_an_admin_lists_alters_and_deletes_the_offsets_of_an_idle_group(
    cluster: Cluster, admin: AdminClient, new_topic: TopicFactory, group: str
):
    topic = new_topic(partitions=2)

    def listed() -> dict[int, int]:
        request = ConsumerGroupTopicPartitions(group)
        answer = admin.list_consumer_group_offsets([request])[group].result(20)
        return {one.partition: one.offset for one in answer.topic_partitions}

    def alter(offsets: dict[int, int]) -> None:
        places = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        request = ConsumerGroupTopicPartitions(group, places)
        answer = admin.alter_consumer_group_offsets([request])[group].result(20)
        assert [place.error for place in answer.topic_partitions] == [None] * len(places)

    alter({0: 10, 1: 20})
    assert listed() == {0: 10, 1: 20}
    alter({1: 0})
    assert listed() == {0: 10, 1: 0}
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        client.delete_group_offsets(group, [KafkaPythonPartition(topic, 0)])
    finally:
        client.close()
    assert listed() == {1: 0}


def test_the_offsets_of_a_working_group_cannot_be_altered_or_deleted_from_outside(
    cluster: Cluster, admin: AdminClient, topic: str, group: str
):
    with stopping([Member(cluster, group, [topic])]) as members:
        await_shares(members, [1])
        request = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3)])
        answer = admin.alter_consumer_group_offsets([request])[group].result(20)
        assert [place.error.code() for place in answer.topic_partitions] == [
            KafkaError.UNKNOWN_MEMBER_ID
        ]
        client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        try:
            partition = KafkaPythonPartition(topic, 0)
            outcome = client.delete_group_offsets(group, [partition])
            assert outcome == {partition: GroupSubscribedToTopicError}
        finally:
            client.close()


def test_the_offsets_of_a_group_that_never_was_are_empty(
    cluster: Cluster, admin: AdminClient, group: str
):
    request = ConsumerGroupTopicPartitions(group)
    answer = admin.list_consumer_group_offsets([request])[group].result(20)
    assert answer.topic_partitions == []
