"""What batches read, decided against real clusters."""

import socket
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from headrace.clock import ManualClock
from headrace.kafka import Cluster as Client
from headrace.kafka import ClusterUnreachable, Partition, UnknownTopic, delete_topic, ensure_topic
from headrace.kafka.connection import Connection, TopicMetadata, connect
from headrace.kafka.errors import ClusterSilent
from headrace.kafka.gaps import OffsetsGone
from headrace.kafka.raw_positions import commit
from headrace.settings import KafkaSettings
from headrace.streams.source import TopicGone, TopicReplaced, check_source, parse_options
from headrace.streams.source.offsets import SourceOffsets
from headrace.streams.source.planner import Planner, tasks_between
from tests.clusters import Cluster
from tests.conftest import TopicFactory

NOW_MS = int(time.time()) * 1000
"""Records of a fixed time would be too old for Kafka's retention."""


def plan(cluster: Cluster, clock: ManualClock | None = None, **options: str) -> Planner:
    given = {"bootstrap": cluster.bootstrap, "parallelism": "4", **options}
    return Planner(parse_options(given), clock=clock)


def produce(cluster: Cluster, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition, timestamp=NOW_MS + number)
    assert producer.flush(20) == 0


def delete_records(admin: AdminClient, topic: str, before: int) -> None:
    where = TopicPartition(topic, 0, before)
    admin.delete_records([where])[where].result(20)


def ranges(start: SourceOffsets, end: SourceOffsets) -> list[tuple[str, int, int, int]]:
    return [
        (each.partition.topic, each.partition.number, each.start, each.end)
        for task in tasks_between(start, end)
        for each in task
    ]


@pytest.mark.partitions(2)
def test_batches_go_on_where_the_last_one_ended(cluster: Cluster, topic: str) -> None:
    planner = plan(cluster, topics=topic)
    start = planner.initial()
    assert planner.next(start, None) is start
    produce(cluster, topic, 3)
    first = planner.next(start, None)
    assert ranges(start, first) == [(topic, 0, 0, 3)]
    produce(cluster, topic, 2, partition=1)
    assert ranges(first, planner.next(first, None)) == [(topic, 1, 0, 2)]


@pytest.mark.partitions(2)
def test_a_start_can_be_a_time_offsets_or_a_groups(
    cluster: Cluster, topic: str, group: str
) -> None:
    produce(cluster, topic, 10)
    given = f'{{"{topic}": {{"0": 7}}}}'
    commit(connect(KafkaSettings(bootstrap=cluster.bootstrap)), group, {Partition(topic, 0): 4})
    for text, expected in {
        "earliest": 0,
        "latest": 10,
        datetime.fromtimestamp((NOW_MS + 3) / 1000, UTC).isoformat(): 3,
        given: 7,
        f"group:{group}": 4,
        "-2": 8,
        "5": 5,
    }.items():
        offsets = plan(cluster, topics=topic, start=text).initial().offsets
        assert offsets == {Partition(topic, 0): expected, Partition(topic, 1): 0}, text


@pytest.mark.partitions(2)
def test_a_bounded_read_ends_where_it_is_told_to(cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, 10)
    (task,) = plan(cluster, topics=topic, start="2", end=f'{{"{topic}": {{"0": 7}}}}').bounded()
    assert [(each.start, each.end) for each in task] == [(2, 7)]


def test_a_limit_makes_many_batches_of_a_backlog(cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, 10)
    planner = plan(cluster, topics=topic)
    first = planner.next(planner.initial(), 4)
    second = planner.next(first, 4)
    assert [list(each.offsets.values()) for each in (first, second)] == [[4], [8]]


def test_a_rate_is_kept_over_time(cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, 10)
    clock = ManualClock()
    planner = plan(cluster, clock, topics=topic, max_records_per_second="4")
    first = planner.next(planner.initial(), None)
    clock.advance(0.5)
    second = planner.next(first, None)
    assert [list(each.offsets.values()) for each in (first, second)] == [[4], [6]]


def test_what_comes_after_the_target_is_not_read(cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, 3)
    planner = plan(cluster, topics=topic)
    planner.stop_at_latest()
    produce(cluster, topic, 3)
    end = planner.next(planner.initial(), None)
    assert list(end.offsets.values()) == [3]
    assert planner.next(end, None) is end


def test_new_partitions_and_topics_are_read_from_their_beginning(
    cluster: Cluster, admin: AdminClient, new_topic: TopicFactory, fresh_name: str
) -> None:
    planner = plan(cluster, pattern=f"{fresh_name}-.*", start="latest")
    first = new_topic()
    produce(cluster, first, 3)
    start = planner.initial()
    admin.create_partitions([NewPartitions(first, 2)])[first].result(20)
    second = new_topic()
    produce(cluster, first, 2, partition=1)
    produce(cluster, second, 4)
    end = planner.next(start, None)
    assert ranges(start, end) == [(first, 1, 0, 2), (second, 0, 0, 4)]
    produce(cluster, second, 1)
    assert ranges(end, planner.next(end, None)) == [(second, 0, 4, 5)]


def test_a_gap_fails_with_what_is_missing(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    produce(cluster, topic, 10)
    planner = plan(cluster, topics=topic)
    start = planner.initial()
    delete_records(admin, topic, 6)
    with pytest.raises(OffsetsGone, match="no longer has offsets 0 to 5: it begins at 6"):
        planner.next(start, None)


def test_a_gap_that_is_skipped_is_counted(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    produce(cluster, topic, 10)
    planner = plan(cluster, topics=topic, on_gap="skip")
    start = planner.initial()
    delete_records(admin, topic, 6)
    end = planner.next(start, None)
    assert ranges(start, end) == [(topic, 0, 6, 10)]
    assert end.to_json()["lost"] == {topic: {"0": 6}}
    produce(cluster, topic, 5)
    delete_records(admin, topic, 15)
    later = planner.next(end, None)
    assert ranges(end, later) == []
    assert later.to_json()["lost"] == {topic: {"0": 11}}
    assert planner.next(later, None) is later


def test_a_deleted_topic_is_named(cluster: Cluster, topic: str) -> None:
    client = Client(KafkaSettings(bootstrap=cluster.bootstrap))
    planner = plan(cluster, topics=topic)
    start = planner.initial()
    delete_topic(client, topic)
    with pytest.raises(TopicGone, match=topic):
        planner.next(start, None)
    assert plan(cluster, topics=topic, on_gap="skip").next(start, None) is start


def test_a_topic_of_the_same_name_is_not_the_same_topic(cluster: Cluster, topic: str) -> None:
    client = Client(KafkaSettings(bootstrap=cluster.bootstrap))
    produce(cluster, topic, 3)
    start = plan(cluster, topics=topic, start="latest").initial()
    delete_topic(client, topic)
    ensure_topic(client, topic, partitions=1)
    produce(cluster, topic, 2)
    with pytest.raises(TopicReplaced, match=topic):
        plan(cluster, topics=topic).next(start, None)
    end = plan(cluster, topics=topic, on_gap="skip").next(start, None)
    assert ranges(start, end) == [(topic, 0, 0, 2)]


class Blinking:
    """A connection to a cluster that sometimes does not list some of its topics."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.hidden: set[str] = set()

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicMetadata]:
        found = self._connection.topics(names)
        return {name: each for name, each in found.items() if name not in self.hidden}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_a_topic_that_is_out_of_sight_is_gone_on_with(
    cluster: Cluster, new_topic: TopicFactory
) -> None:
    one, other = new_topic(), new_topic()
    blinking: Any = Blinking(connect(KafkaSettings(bootstrap=cluster.bootstrap)))
    options = {"bootstrap": cluster.bootstrap, "topics": f"{one},{other}", "on_gap": "skip"}
    planner = Planner(parse_options(options), connection=blinking)
    produce(cluster, one, 3)
    produce(cluster, other, 3)
    first = planner.next(planner.initial(), None)
    blinking.hidden = {one}
    assert planner.next(first, None) is first
    produce(cluster, other, 1)
    planner.stop_at_latest()
    second = planner.next(first, None)
    assert ranges(first, second) == [(other, 0, 3, 4)]
    assert second.offsets == {Partition(one, 0): 3, Partition(other, 0): 4}
    blinking.hidden = set()
    produce(cluster, one, 2)
    planner.stop_at_latest()
    assert ranges(second, planner.next(second, None)) == [(one, 0, 3, 5)]


def test_a_smaller_topic_of_the_same_name_leaves_nothing_of_the_old_one(
    cluster: Cluster, admin: AdminClient, new_topic: TopicFactory
) -> None:
    topic = new_topic(2)
    client = Client(KafkaSettings(bootstrap=cluster.bootstrap))
    produce(cluster, topic, 3, partition=1)
    planner = plan(cluster, topics=topic, on_gap="skip")
    first = planner.next(planner.initial(), None)
    delete_topic(client, topic)
    ensure_topic(client, topic, partitions=1)
    produce(cluster, topic, 1)
    second = planner.next(first, None)
    assert second.offsets == {Partition(topic, 0): 1}
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(20)
    produce(cluster, topic, 4, partition=1)
    assert ranges(second, planner.next(second, None)) == [(topic, 1, 0, 4)]


@pytest.mark.parametrize("start", ["earliest", "latest", "-2", "group"])
def test_the_first_batch_says_itself_where_it_begins(
    cluster: Cluster, topic: str, group: str, start: str
) -> None:
    connection = connect(KafkaSettings(bootstrap=cluster.bootstrap))
    commit(connection, group, {Partition(topic, 0): 2})
    produce(cluster, topic, 5)
    planner = plan(cluster, topics=topic, start=start if start != "group" else f"group:{group}")
    began = planner.initial()
    produce(cluster, topic, 5)
    first = planner.next(began, None)
    commit(connection, group, {Partition(topic, 0): 7})
    produce(cluster, topic, 5)
    again = planner.initial()
    assert ranges(again, first) == ranges(began, first)
    # Spark also runs a first batch in which there is nothing to read.
    assert ranges(again, began) == []
    assert ranges(first, planner.next(first, None)) == [(topic, 0, 10, 15)]
    assert planner.next(first, None).begins == {}


def test_a_wrong_topic_is_told_before_spark_is_asked(cluster: Cluster) -> None:
    with pytest.raises(UnknownTopic, match="There is no topic no-such-topic"):
        check_source({"bootstrap": cluster.bootstrap, "topics": "no-such-topic"})


def test_a_wrong_address_is_told_within_seconds() -> None:
    began = time.monotonic()
    with pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1:1.*refused"):
        check_source({"bootstrap": "127.0.0.1:1", "topics": "orders"})
    assert time.monotonic() - began < 15


def test_somebody_who_is_no_broker_is_told_within_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        began = time.monotonic()
        with pytest.raises(ClusterSilent, match=f"127.0.0.1:{port}: no answer in time"):
            check_source({"bootstrap": f"127.0.0.1:{port}", "topics": "orders"})
        assert time.monotonic() - began < 20


def test_a_batch_has_the_time_and_silence_makes_one_of_nothing_else(
    cluster: Cluster, topic: str
) -> None:
    clock = ManualClock(now_ms=1_000_000)
    planner = plan(cluster, clock, topics=topic, time="at", time_tick_ms="5000")
    start = planner.initial()
    clock.advance(10)
    assert planner.next(start, None) is start
    produce(cluster, topic, 3)
    first = planner.next(start, None)
    assert first.clock == 1_010_000
    clock.advance(4.9)
    assert planner.next(first, None) is first
    clock.advance(0.1)
    tick = planner.next(first, None)
    assert (tick.clock, tick.offsets) == (1_015_000, first.offsets)
    assert ranges(first, tick) == []
    planner.stop_at_latest()
    clock.advance(100)
    assert planner.next(tick, None) is tick


def test_a_held_source_begins_with_a_batch_of_nothing(cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, 3)
    planner = plan(cluster, ManualClock(NOW_MS), topics=topic, hold_first="true")
    start = planner.initial()
    held = planner.next(start, None)
    assert held != start
    assert ranges(start, held) == []
    first = planner.next(held, None)
    assert ranges(held, first) == [(topic, 0, 0, 3)]
    assert planner.next(first, None) is first


def test_a_held_source_without_records_is_held_once(cluster: Cluster, topic: str) -> None:
    planner = plan(cluster, ManualClock(NOW_MS), topics=topic, hold_first="true")
    held = planner.next(planner.initial(), None)
    assert planner.next(held, None) is held
