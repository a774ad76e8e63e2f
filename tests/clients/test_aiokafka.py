"""What else aiokafka's users do: administration, patterns, listeners, positions."""

import asyncio

import pytest
from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAlreadyExistsError, for_code

from tests.clients.librdkafka import send
from tests.clusters import Cluster
from tests.conftest import TopicFactory


async def test_the_admin_client_manages_topics_and_settings(cluster: Cluster, fresh_name: str):
    client = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await client.start()
    try:
        wanted = NewTopic(fresh_name, 2, 1, topic_configs={"retention.ms": "1234567"})
        created = await client.create_topics([wanted])
        assert [error for _, error, *_ in created.topic_errors] == [0]
        again = await client.create_topics([wanted])
        assert [for_code(error) for _, error, *_ in again.topic_errors] == [TopicAlreadyExistsError]
        await client.create_partitions({fresh_name: NewPartitions(3)})

        async with asyncio.timeout(20):
            described = await client.describe_topics([fresh_name])
            while len(described[0]["partitions"]) < 3:
                described = await client.describe_topics([fresh_name])
        resource = ConfigResource(ConfigResourceType.TOPIC, fresh_name)
        (configured,) = await client.describe_configs([resource])
        settings = {name: value for name, value, *_ in configured.resources[0][4]}
        assert settings["retention.ms"] == "1234567"
        assert fresh_name in await client.list_topics()
        assert (await client.describe_cluster())["controller_id"] >= 0
        await client.delete_topics([fresh_name])
    finally:
        await client.close()


async def test_the_admin_client_shows_groups_and_their_offsets(
    cluster: Cluster, topic: str, group: str
):
    send(cluster, topic, [b"x"] * 5)
    client = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await client.start()
    try:
        async with AIOKafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
        ) as member:
            async with asyncio.timeout(20):
                for _ in range(5):
                    await member.getone()
            await member.commit()
            assert group in {name for name, *_ in await client.list_consumer_groups()}
            (described,) = await client.describe_consumer_groups([group])
            assert [one[2] for one in described.groups] == ["Stable"]
            offsets = await client.list_consumer_group_offsets(group)
            assert offsets[TopicPartition(topic, 0)].offset == 5
    finally:
        await client.close()


async def test_a_pattern_and_a_listener(cluster: Cluster, fresh_name: str, group: str):
    events: list[tuple[str, set[str]]] = []

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            events.append(("revoked", {one.topic for one in revoked}))

        def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            events.append(("assigned", {one.topic for one in assigned}))

    names = {f"{fresh_name}-{letter}" for letter in "ab"}
    for name in names:
        send(cluster, name, [b"x"])
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        metadata_max_age_ms=200,
    ) as member:
        member.subscribe(pattern=f"^{fresh_name}-.*", listener=Listener())
        async with asyncio.timeout(20):
            assert {(await member.getone()).topic for _ in range(2)} == names
    assert ("assigned", names) in events


@pytest.mark.partitions(2)
async def test_positions_move_to_both_ends(cluster: Cluster, topic: str):
    send(cluster, topic, [b"x"] * 8, partition=1)
    partition = TopicPartition(topic, 1)
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap) as reading:
        reading.assign([partition])
        async with asyncio.timeout(20):
            await reading.seek_to_end(partition)
            assert await reading.position(partition) == 8
            await reading.seek_to_beginning(partition)
            assert await reading.position(partition) == 0
            batches = await reading.getmany(partition, timeout_ms=10_000, max_records=5)
        assert [record.offset for record in batches[partition]] == [0, 1, 2, 3, 4]
        assert reading.highwater(partition) == 8


async def test_a_producer_knows_the_partitions_of_a_topic(
    cluster: Cluster, new_topic: TopicFactory
):
    topic = new_topic(partitions=5)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as sender:
        assert await sender.partitions_for(topic) == {0, 1, 2, 3, 4}
        batch = sender.create_batch()
        for number in range(10):
            batch.append(key=None, value=str(number).encode(), timestamp=None)
        metadata = await (await sender.send_batch(batch, topic, partition=3))
    assert (metadata.partition, metadata.offset) == (3, 0)
