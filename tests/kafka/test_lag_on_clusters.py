"""Lag of real groups on both clusters: plain, and with transactions open, aborted and committed."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace import kafka
from headrace.clock import SystemClock
from headrace.kafka import ClusterLagSource, GroupLag, LagMeter, Partition, describe_group
from headrace.kafka.positions import Isolation
from tests.clusters import Cluster
from tests.conftest import TopicFactory

READ_COMMITTED, READ_UNCOMMITTED = Isolation


@pytest.fixture
def source(connection: kafka.Cluster) -> Iterator[ClusterLagSource]:
    with ClusterLagSource(connection) as opened:
        yield opened


@pytest.fixture
def transactional(cluster: Cluster, fresh_name: str) -> Producer:
    """A producer that has introduced itself to the transaction coordinator."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": fresh_name, "linger.ms": 0}
    )
    producer.init_transactions(20)
    return producer


def produce(producer: Producer, topic: str, count: int, *, age_ms: int = 0) -> None:
    moment = SystemClock().now_ms() - age_ms
    for number in range(count):
        producer.produce(topic, str(number), partition=0, timestamp=moment + number)
    assert producer.flush(20) == 0


def commit(cluster: Cluster, group: str, topic: str, offset: int, partition: int = 0) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
    consumer.close()


def measured(
    source: ClusterLagSource, group: str, isolation: Isolation = READ_COMMITTED
) -> GroupLag:
    (found,) = LagMeter(source, isolation_of=lambda group: isolation).measure([group]).groups
    return found


def test_lag_in_records_and_in_time(
    source: ClusterLagSource, cluster: Cluster, topic: str, group: str
):
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    produce(producer, topic, 10, age_ms=3600_000)
    commit(cluster, group, topic, 4)
    before = measured(source, group)
    assert (before.records, before.lost, before.state) == (6, 0, "empty")
    assert before.time_ms is not None
    assert 3590_000 < before.time_ms < 3700_000
    commit(cluster, group, topic, 10)
    after = measured(source, group)
    assert (after.records, after.time_ms) == (0, 0)


def test_a_group_is_measured_in_all_its_partitions_at_once(
    source: ClusterLagSource, cluster: Cluster, new_topic: TopicFactory, group: str
):
    topic = new_topic(60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(60):
        producer.produce(topic, b"x", partition=number)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    places = [TopicPartition(topic, number, 0) for number in range(60)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
    found = measured(source, group)
    assert (len(found.partitions), found.records) == (60, 60)
    assert all(each.time_ms is not None for each in found.partitions)


def test_the_marker_of_a_transaction_is_no_lag(
    source: ClusterLagSource, cluster: Cluster, transactional: Producer, topic: str, group: str
):
    transactional.begin_transaction()
    produce(transactional, topic, 5)
    transactional.commit_transaction(20)
    commit(cluster, group, topic, 5)
    for isolation in Isolation:
        (lag,) = measured(source, group, isolation).partitions
        assert (lag.latest, lag.records, lag.time_ms) == (6, 0, 0)


def test_an_open_transaction_is_before_nobody_who_cannot_see_it(
    source: ClusterLagSource, cluster: Cluster, transactional: Producer, topic: str, group: str
):
    plain = Producer({"bootstrap.servers": cluster.bootstrap})
    produce(plain, topic, 3)
    transactional.begin_transaction()
    produce(transactional, topic, 5, age_ms=60_000)
    commit(cluster, group, topic, 2)
    committed = measured(source, group, READ_COMMITTED)
    assert (committed.partitions[0].latest, committed.records) == (3, 1)
    uncommitted = measured(source, group, READ_UNCOMMITTED)
    assert (uncommitted.partitions[0].latest, uncommitted.records) == (8, 6)
    transactional.commit_transaction(20)
    commit(cluster, group, topic, 3)
    ended = measured(source, group, READ_COMMITTED)
    assert (ended.partitions[0].latest, ended.records) == (9, 6)
    assert ended.time_ms is not None
    assert ended.time_ms >= 60_000


def test_an_aborted_transaction_is_no_lag_to_those_who_never_see_it(
    source: ClusterLagSource, cluster: Cluster, transactional: Producer, topic: str, group: str
):
    transactional.begin_transaction()
    produce(transactional, topic, 5)
    transactional.abort_transaction(20)
    commit(cluster, group, topic, 0)
    assert measured(source, group, READ_COMMITTED).records == 0
    assert measured(source, group, READ_UNCOMMITTED).records == 6
    transactional.begin_transaction()
    produce(transactional, topic, 2, age_ms=60_000)
    transactional.commit_transaction(20)
    lag = measured(source, group, READ_COMMITTED)
    # Two records and the marker behind them: offsets are counted from the first record on.
    assert lag.records == 3
    assert lag.time_ms is not None
    assert lag.time_ms >= 60_000


def test_offsets_in_an_open_transaction_do_not_count_yet(
    connection: kafka.Cluster,
    cluster: Cluster,
    transactional: Producer,
    topic: str,
    group: str,
):
    plain = Producer({"bootstrap.servers": cluster.bootstrap})
    produce(plain, topic, 3)
    commit(cluster, group, topic, 1)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    transactional.begin_transaction()
    transactional.send_offsets_to_transaction(
        [TopicPartition(topic, 0, 3)], consumer.consumer_group_metadata(), 20
    )
    consumer.close()
    assert kafka.committed_offsets(connection, group) == {Partition(topic, 0): 1}
    transactional.commit_transaction(20)
    assert kafka.committed_offsets(connection, group) == {Partition(topic, 0): 3}


def test_removed_records_are_lost_and_the_rest_is_lag(
    connection: kafka.Cluster, cluster: Cluster, topic: str, group: str
):
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    produce(producer, topic, 10)
    commit(cluster, group, topic, 2)
    deleted = connection.admin.delete_records([TopicPartition(topic, 0, 7)])
    for answer in deleted.values():
        answer.result(20)
    found = describe_group(connection, group)
    assert (found.lag, found.lost) == (3, 5)
    assert found.time_lag_ms is not None
