"""Transactions of confluent-kafka: what readers see, who is fenced, what offsets do."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.clients.librdkafka import consumer, eventually, producer, read_values, reader
from tests.clusters import Cluster

TIMEOUT = 20.0
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
NEWEST_TIMESTAMP = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]


def transactional(cluster: Cluster, name: str, **config: Any) -> Producer:
    """A producer that is ready for its first transaction."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    made = producer(cluster, {"transactional.id": name, **settings})
    made.init_transactions(TIMEOUT)
    return made


def write(into: Producer, topic: str, *values: bytes, partition: int = 0) -> None:
    """Send values and wait until they are stored."""
    for value in values:
        into.produce(topic, value, partition=partition)
    assert into.flush(TIMEOUT) == 0


def ends(asking: Consumer, topic: str) -> tuple[int, int]:
    """The first and the next offset of partition 0."""
    found: tuple[int, int] = asking.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT)
    return found


def refusal(action: Callable[[], object]) -> KafkaError:
    """The error that an action ends with."""
    with pytest.raises(KafkaException) as raised:
        action()
    error: KafkaError = raised.value.args[0]
    return error


def test_committed_records_show_and_aborted_ones_do_not(cluster: Cluster, topic: str):
    writer = transactional(cluster, topic)
    for values, commit in (([b"1", b"2"], True), ([b"3"], False), ([b"4"], True)):
        writer.begin_transaction()
        write(writer, topic, *values)
        if commit:
            writer.commit_transaction(TIMEOUT)
        else:
            writer.abort_transaction(TIMEOUT)
    with reader(cluster, topic, isolation_level="read_committed") as reading:
        assert read_values(reading, 3) == [b"1", b"2", b"4"]
    with reader(cluster, topic, isolation_level="read_uncommitted") as reading:
        assert read_values(reading, 4) == [b"1", b"2", b"3", b"4"]


def test_markers_take_offsets(cluster: Cluster, topic: str):
    writer = transactional(cluster, topic)
    for end in (writer.commit_transaction, writer.abort_transaction):
        writer.begin_transaction()
        write(writer, topic, b"value")
        end(TIMEOUT)
    with consumer(cluster, "unused") as asking:
        assert eventually(lambda: ends(asking, topic) == (0, 4))


def test_readers_of_committed_records_wait_for_the_earliest_open_transaction(
    cluster: Cluster, topic: str
):
    slow = transactional(cluster, f"{topic}-slow")
    quick = transactional(cluster, f"{topic}-quick")
    slow.begin_transaction()
    write(slow, topic, b"slow")
    quick.begin_transaction()
    write(quick, topic, b"quick")
    quick.commit_transaction(TIMEOUT)
    with reader(cluster, topic, isolation_level="read_committed") as reading:
        assert reading.consume(1, 0.5) == []
        slow.commit_transaction(TIMEOUT)
        began = time.monotonic()
        assert read_values(reading, 2) == [b"slow", b"quick"]
        assert time.monotonic() - began < 5


@pytest.mark.partitions(2)
def test_a_transaction_spans_partitions_and_plain_records_stay_between(
    cluster: Cluster, topic: str
):
    writer = transactional(cluster, topic)
    writer.begin_transaction()
    write(writer, topic, b"aborted 0", partition=0)
    write(writer, topic, b"aborted 1", partition=1)
    plain = producer(cluster)
    write(plain, topic, b"plain", partition=0)
    writer.abort_transaction(TIMEOUT)
    writer.begin_transaction()
    write(writer, topic, b"kept 0", partition=0)
    write(writer, topic, b"kept 1", partition=1)
    writer.commit_transaction(TIMEOUT)
    for partition, expected in ((0, [b"plain", b"kept 0"]), (1, [b"kept 1"])):
        with consumer(cluster, "unused", {"isolation.level": "read_committed"}) as reading:
            reading.assign([TopicPartition(topic, partition, 0)])
            assert read_values(reading, len(expected)) == expected


def test_a_second_instance_fences_the_first_and_aborts_what_it_left(cluster: Cluster, topic: str):
    first = transactional(cluster, topic)
    first.begin_transaction()
    write(first, topic, b"left behind")
    second = transactional(cluster, topic)
    second.begin_transaction()
    write(second, topic, b"taken over")
    error = refusal(lambda: first.commit_transaction(TIMEOUT))
    assert error.code() == KafkaError._FENCED
    assert error.fatal()
    second.commit_transaction(TIMEOUT)
    with reader(cluster, topic, isolation_level="read_committed") as reading:
        assert read_values(reading, 1) == [b"taken over"]


def test_a_transaction_timeout_beyond_the_limit_is_refused(cluster: Cluster, topic: str):
    made = producer(cluster, {"transactional.id": topic, "transaction.timeout.ms": 900_001})
    error = refusal(lambda: made.init_transactions(TIMEOUT))
    assert error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


def test_a_dead_producer_holds_readers_back_no_longer_than_its_timeout(
    cluster: Cluster, topic: str
):
    dead = transactional(cluster, topic, transaction_timeout_ms=1000, message_timeout_ms=1000)
    dead.begin_transaction()
    write(dead, topic, b"never committed")
    write(producer(cluster), topic, b"plain")
    with reader(cluster, topic, isolation_level="read_committed") as reading:
        assert read_values(reading, 1) == [b"plain"]
    error = refusal(lambda: dead.commit_transaction(TIMEOUT))
    assert error.code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)


def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    cluster: Cluster, topic: str, group: str
):
    where = TopicPartition(topic, 0)
    write(producer(cluster), topic, *(str(number).encode() for number in range(10)))
    writer = transactional(cluster, group)
    with consumer(cluster, group) as reading:
        reading.subscribe([topic])
        read_values(reading, 10)

        def send(offset: int) -> None:
            writer.begin_transaction()
            write(writer, topic, b"output")
            writer.send_offsets_to_transaction(
                [TopicPartition(topic, 0, offset)], reading.consumer_group_metadata(), TIMEOUT
            )

        def committed() -> int:
            offset: int = reading.committed([where], TIMEOUT)[0].offset
            return offset

        send(5)
        writer.abort_transaction(TIMEOUT)
        assert committed() < 0
        send(7)
        writer.commit_transaction(TIMEOUT)
        assert committed() == 7


def test_offsets_in_an_open_transaction_are_not_told(cluster: Cluster, topic: str, group: str):
    where = TopicPartition(topic, 0)
    write(producer(cluster), topic, b"one", b"two")
    writer = transactional(cluster, group)
    with consumer(cluster, group) as reading:
        reading.subscribe([topic])
        read_values(reading, 2)
        writer.begin_transaction()
        writer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, 2)], reading.consumer_group_metadata(), TIMEOUT
        )
        # librdkafka asks for stable offsets, and goes on asking while there are none.
        assert refusal(lambda: reading.committed([where], 1)).code() == KafkaError._TIMED_OUT
        writer.commit_transaction(TIMEOUT)
        assert reading.committed([where], TIMEOUT)[0].offset == 2


def test_a_transaction_of_a_former_member_is_refused(cluster: Cluster, topic: str, group: str):
    write(producer(cluster), topic, b"one")
    writer = transactional(cluster, group)
    former = consumer(cluster, group)
    former.subscribe([topic])
    read_values(former, 1)
    metadata = former.consumer_group_metadata()
    former.close()
    writer.begin_transaction()
    error = refusal(
        lambda: writer.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], metadata, TIMEOUT)
    )
    assert error.code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION)
    assert error.txn_requires_abort()
    writer.abort_transaction(TIMEOUT)


def test_the_latest_offset_depends_on_the_isolation_level(
    cluster: Cluster, admin: AdminClient, topic: str
):
    def latest(level: IsolationLevel) -> int:
        asked = {TopicPartition(topic, 0): LATEST}
        (found,) = admin.list_offsets(asked, isolation_level=level).values()
        offset: int = found.result(TIMEOUT).offset
        return offset

    write(producer(cluster), topic, b"plain")
    writer = transactional(cluster, topic)
    writer.begin_transaction()
    write(writer, topic, b"open")
    assert latest(IsolationLevel.READ_UNCOMMITTED) == 2
    assert latest(IsolationLevel.READ_COMMITTED) == 1
    writer.commit_transaction(TIMEOUT)
    assert eventually(lambda: latest(IsolationLevel.READ_COMMITTED) == 3)


def test_times_are_looked_up_past_markers(cluster: Cluster, admin: AdminClient, topic: str):
    def at(spec: OffsetSpec, level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED) -> int:
        asked = {TopicPartition(topic, 0): spec}
        (found,) = admin.list_offsets(asked, isolation_level=level).values()
        offset: int = found.result(TIMEOUT).offset
        return offset

    writer = transactional(cluster, topic)
    writer.begin_transaction()
    writer.produce(topic, b"early", partition=0, timestamp=1_000)
    assert writer.flush(TIMEOUT) == 0
    writer.commit_transaction(TIMEOUT)
    writer.begin_transaction()
    writer.produce(topic, b"late", partition=0, timestamp=5_000)
    assert writer.flush(TIMEOUT) == 0
    assert at(OffsetSpec.for_timestamp(1_000)) == 0
    assert at(OffsetSpec.for_timestamp(1_000), IsolationLevel.READ_COMMITTED) == 0
    # A marker has a time of its own, that of its writing, and is found like a record.
    assert at(OffsetSpec.for_timestamp(2_000)) == 1
    assert at(NEWEST_TIMESTAMP) == 1
    writer.abort_transaction(TIMEOUT)
