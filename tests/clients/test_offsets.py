"""Finding a place in a partition: by time, the ends, the newest timestamp."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition
from kio.schema.errors import ErrorCode

from headrace.records import Record, build_batch
from tests.clients.drivers import run_kcat
from tests.clients.librdkafka import consumer, send
from tests.clients.messages import CODECS
from tests.clients.stored import append
from tests.clients.wire import Wire
from tests.clusters import Cluster
from tests.conftest import TopicFactory

EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
NEWEST_TIMESTAMP = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
START = 1_700_000_000_000


@pytest.fixture(params=CODECS)
def timed(request: pytest.FixtureRequest, cluster: Cluster, topic: str) -> str:
    """A topic with batches of 20 messages, each 10 ms after the one before."""
    for batch in range(3):
        first = batch * 20
        moments = [START + 10 * number for number in range(first, first + 20)]
        sent = send(
            cluster,
            topic,
            [str(number).encode() for number in range(first, first + 20)],
            timestamps=moments,
            config={"compression.type": request.param},
        )
        assert [delivery.offset for delivery in sent] == list(range(first, first + 20))
    return topic


def test_a_time_finds_the_exact_message_also_inside_a_batch(cluster: Cluster, timed: str):
    wanted = {
        START - 1: 0,
        START: 0,
        START + 1: 1,
        START + 70: 7,
        START + 195: 20,
        START + 333: 34,
        START + 590: 59,
        START + 591: OFFSET_END,
    }
    with consumer(cluster, "unused") as asking:
        for moment, offset in wanted.items():
            (found,) = asking.offsets_for_times([TopicPartition(timed, 0, moment)], 10)
            assert found.offset == offset, moment - START


def test_kafka_python_gets_the_timestamp_with_the_offset(cluster: Cluster, timed: str):
    partition = KafkaPythonPartition(timed, 0)
    asking = KafkaConsumer(bootstrap_servers=cluster.bootstrap)
    try:
        found = asking.offsets_for_times({partition: START + 333})[partition]
        beyond = asking.offsets_for_times({partition: START + 10_000})[partition]
        assert (found.offset, found.timestamp, beyond) == (34, START + 340, None)
        assert asking.beginning_offsets([partition]) == {partition: 0}
        assert asking.end_offsets([partition]) == {partition: 60}
    finally:
        asking.close()


async def test_aiokafka_gets_the_timestamp_with_the_offset(cluster: Cluster, timed: str):
    partition = AiokafkaPartition(timed, 0)
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap) as asking:
        async with asyncio.timeout(20):
            found = await asking.offsets_for_times({partition: START + 333})
            beyond = await asking.offsets_for_times({partition: START + 10_000})
            assert await asking.beginning_offsets([partition]) == {partition: 0}
            assert await asking.end_offsets([partition]) == {partition: 60}
    assert (found[partition].offset, found[partition].timestamp) == (34, START + 340)
    assert beyond[partition] is None


def test_kcat_reads_from_a_time(cluster: Cluster, timed: str):
    window = ("-o", f"s@{START + 333}", "-o", f"e@{START + 360}")
    assert run_kcat(cluster, "-C", "-q", "-t", timed, "-p", "0", *window).split() == [
        b"34",
        b"35",
    ]


def test_the_first_match_counts_when_timestamps_are_out_of_order(cluster: Cluster, topic: str):
    moments = [500, 100, 900, 300, 900, 200]
    with Wire(cluster) as wire:
        append(wire, topic, build_batch([Record(None, b"x", m) for m in moments], timestamp=0))
        append(wire, topic, build_batch([Record(None, b"y", 950)], timestamp=0))
    wanted = {100: 0, 501: 2, 600: 2, 901: 6}
    with consumer(cluster, "unused") as asking:
        for moment, offset in wanted.items():
            (found,) = asking.offsets_for_times([TopicPartition(topic, 0, moment)], 10)
            assert found.offset == offset, moment


def test_the_ends_of_a_partition(cluster: Cluster, admin: AdminClient, new_topic: TopicFactory):
    topic = new_topic(partitions=2)
    send(cluster, topic, [b"x"] * 7, partition=1)
    with consumer(cluster, "unused") as asking:
        assert asking.get_watermark_offsets(TopicPartition(topic, 0), 10) == (0, 0)
        assert asking.get_watermark_offsets(TopicPartition(topic, 1), 10) == (0, 7)
    one = TopicPartition(topic, 1)
    for spec, offset in ((EARLIEST, 0), (LATEST, 7)):
        found = admin.list_offsets({one: spec})[one].result(10)
        assert found.offset == offset


def test_the_newest_timestamp_is_found_wherever_it_is(
    cluster: Cluster, admin: AdminClient, topic: str
):
    one = TopicPartition(topic, 0)
    empty = admin.list_offsets({one: NEWEST_TIMESTAMP})[one].result(10)
    send(cluster, topic, [b"0", b"1", b"2"], timestamps=[100, 900, 300])
    send(cluster, topic, [b"3", b"4"], timestamps=[200, 400])
    found = admin.list_offsets({one: NEWEST_TIMESTAMP})[one].result(10)
    assert (empty.offset, empty.timestamp) == (-1, -1)
    assert (found.offset, found.timestamp) == (1, 900)


def test_a_time_in_the_admin_client_finds_offset_and_timestamp(
    cluster: Cluster, admin: AdminClient, topic: str
):
    send(cluster, topic, [b"0", b"1", b"2"], timestamps=[100, 200, 300])
    one = TopicPartition(topic, 0)
    found = admin.list_offsets({one: OffsetSpec.for_timestamp(150)})[one].result(10)
    beyond = admin.list_offsets({one: OffsetSpec.for_timestamp(301)})[one].result(10)
    assert (found.offset, found.timestamp) == (1, 200)
    assert (beyond.offset, beyond.timestamp) == (-1, -1)


def test_offsets_of_a_partition_that_is_not_there(cluster: Cluster, topic: str):
    with Wire(cluster) as wire:
        answer = wire.ask(
            "list_offsets",
            5,
            replica_id=-1,
            isolation_level=0,
            topics=[
                {
                    "name": topic,
                    "partitions": [
                        {"partition_index": partition, "timestamp": -1} for partition in (0, 9)
                    ],
                }
            ],
        )
    found = {partition.partition_index: partition for partition in answer.topics[0].partitions}
    there, missing = found[0], found[9]
    assert (there.error_code, there.offset) == (ErrorCode.none, 0)
    assert missing.error_code is ErrorCode.unknown_topic_or_partition
    assert missing.offset == -1
