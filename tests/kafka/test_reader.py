"""Reading without a group: ends that are reached, ends that never come, records that are gone."""

import threading

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.kafka import Cluster, ClusterSilent, OffsetGone, Partition, Reader
from headrace.kafka import reader as reader_module
from headrace.settings import KafkaSettings
from tests.clusters import headrace_cluster


def write(connection: Cluster, partition: Partition, *values: bytes) -> None:
    producer = connection.producer()
    for value in values:
        producer.produce(partition.topic, value, partition=partition.number)
    assert producer.flush(20) == 0


def read(reader: Reader) -> list[bytes | None]:
    return [message.value() for batch in reader.batches() for message in batch]


@pytest.mark.partitions(2)
def test_it_finishes_when_every_partition_is_at_its_end(connection: Cluster, topic: str):
    first, second = Partition(topic, 0), Partition(topic, 1)
    write(connection, first, b"a0", b"a1", b"a2")
    write(connection, second, b"b0")
    with Reader(connection, {first: 1, second: 0}, end={first: 3, second: 1}) as reader:
        assert sorted(map(str, read(reader))) == ["b'a1'", "b'a2'", "b'b0'"]
    with Reader(connection, {first: 0, second: 0}, end={first: 2, second: 0}) as reader:
        assert read(reader) == [b"a0", b"a1"]


def test_nothing_to_read_is_finished_at_once(connection: Cluster, topic: str):
    with Reader(connection, {Partition(topic, 0): 0}, end={Partition(topic, 0): 0}) as reader:
        assert read(reader) == []


def test_an_end_beyond_the_last_record_is_the_last_record(connection: Cluster, topic: str):
    partition = Partition(topic, 0)
    write(connection, partition, b"a", b"b")
    with Reader(connection, {partition: 0}, end={partition: 5}) as reader:
        assert read(reader) == [b"a", b"b"]


def test_following_sees_what_comes_later(connection: Cluster, topic: str):
    partition = Partition(topic, 0)
    with Reader(connection, {partition: 0}) as reader:
        batches = reader.batches()
        assert next(batches) == []
        writing = threading.Thread(target=write, args=(connection, partition, b"later"))
        writing.start()
        batch = next(batch for batch in batches if batch)
        writing.join()
        assert [message.value() for message in batch] == [b"later"]


def test_a_record_that_is_gone_is_an_error(connection: Cluster, admin: AdminClient, topic: str):
    partition = Partition(topic, 0)
    write(connection, partition, b"a", b"b", b"c")
    for future in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        future.result(20)
    with (
        Reader(connection, {partition: 0}, end={partition: 3}) as reader,
        pytest.raises(OffsetGone, match=f"The next record of {topic}-0 is gone"),
    ):
        read(reader)


def test_an_outage_ends_a_bounded_read_and_is_told_to_a_follower(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader_module, "CONNECT_SECONDS", 0.2)
    partition = Partition("outage", 0)
    outages: list[str] = []
    with headrace_cluster() as broker:
        connection = Cluster(KafkaSettings(bootstrap=broker.bootstrap))
        write(connection, partition, b"a")
        follower = Reader(connection, {partition: 1}, on_outage=outages.append)
        waiting = follower.batches()
        assert next(waiting) == []
    with follower:
        while not outages:
            assert next(waiting) == []
        assert all(outages)
    with (
        Reader(connection, {partition: 0}, end={partition: 1}) as bounded,
        pytest.raises(ClusterSilent, match=broker.bootstrap),
    ):
        read(bounded)
