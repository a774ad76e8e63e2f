"""What compaction leaves of a topic, and that clients read it: the same on both brokers."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kio.schema.errors import ErrorCode

from headrace.records import Codec, build_batch
from tests.clients.drivers import LIBRARIES, Driver, named, run_kcat
from tests.clients.wire import Wire
from tests.clusters import Cluster
from tests.conftest import TopicFactory

COMPACTED = {
    "cleanup.policy": "compact",
    # The least that Apache Kafka allows.
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "1000",
}
FILLER = b"filler"
FILLER_VALUE = bytes(200_000)
TIMEOUT_SECONDS = 40.0


class Stored(NamedTuple):
    """A record as a consumer got it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


@pytest.fixture
def topic(new_topic: TopicFactory) -> str:
    return new_topic(1, COMPACTED)


def write(
    cluster: Cluster, topic: str, records: Sequence[tuple[bytes, bytes | None]], **config: object
) -> None:
    """Produce records in batches of a hundred."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "linger.ms": 1000,
            "batch.num.messages": 100,
            **config,
        }
    )
    for key, value in records:
        producer.produce(topic, key=key, value=value, partition=0)
    assert producer.flush(TIMEOUT_SECONDS) == 0


def seal(cluster: Cluster, topic: str) -> None:
    """Write so much that everything before is in segments that may be compacted."""
    write(cluster, topic, [(FILLER, FILLER_VALUE)] * 12)


def read(cluster: Cluster, topic: str, *, isolation: str = "read_uncommitted") -> list[Stored]:
    """Everything that is in the topic, fillers aside."""
    with Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found: list[Stored] = []
        while True:
            message = consumer.poll(TIMEOUT_SECONDS)
            assert message is not None, "a consumer must get to the end"
            if message.error():
                return found
            if message.key() != FILLER:
                offset, (_, timestamp) = message.offset(), message.timestamp()
                assert offset is not None
                found.append(Stored(offset, message.key(), message.value(), timestamp))


def read_until(cluster: Cluster, topic: str, done: Callable[[list[Stored]], bool]) -> list[Stored]:
    """Read again and again until compaction has done what is expected."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not done(found := read(cluster, topic)):
        assert time.monotonic() < deadline, f"{len(found)} records are left"
        time.sleep(0.2)
    return found


def without_duplicates(found: list[Stored]) -> bool:
    return len({each.key for each in found}) == len(found)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_latest_value_of_each_key_stays_where_it_was(
    cluster: Cluster, topic: str, codec: str
) -> None:
    records = [(b"key-%d" % (number * 7 % 60), b"value-%d" % number) for number in range(900)]
    write(cluster, topic, records, **{"compression.type": codec})
    before = read(cluster, topic)
    seal(cluster, topic)
    after = read_until(cluster, topic, without_duplicates)
    latest = {each.key: each for each in before}
    assert after == sorted(latest.values())
    assert [each.offset for each in after] == list(range(840, 900))


@pytest.mark.parametrize("driver", LIBRARIES, ids=named)
def test_clients_read_on_through_gaps(cluster: Cluster, topic: str, driver: Driver) -> None:
    write(cluster, topic, [(b"key-%d" % (n % 3), b"%d" % n) for n in range(300)])
    seal(cluster, topic)
    left = read_until(cluster, topic, without_duplicates)
    for offset in (0, 1, 150, left[1].offset):
        expected = [each for each in left if each.offset >= offset]
        found = driver.consume(cluster, topic, len(expected), offset=offset)
        assert [(each.key, each.value, each.timestamp) for each in found] == [
            each[1:] for each in expected
        ]


def test_kcat_reads_a_compacted_topic(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, [(b"key-%d" % (n % 3), b"%d" % n) for n in range(300)])
    seal(cluster, topic)
    read_until(cluster, topic, without_duplicates)
    assert run_kcat(cluster, "-C", "-q", "-t", topic, "-o", "0", "-c", "3") == b"297\n298\n299\n"


def test_a_tombstone_stays_for_a_while_and_then_goes(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, [(b"a", b"1"), (b"b", b"1"), (b"a", None), (b"c", b"1")])
    timestamps = {each.offset: each.timestamp for each in read(cluster, topic)}
    seal(cluster, topic)
    found = read_until(cluster, topic, without_duplicates)
    assert [each[:3] for each in found] == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    assert all(timestamps[each.offset] == each.timestamp for each in found)
    time.sleep(1.0)  # the topic's delete.retention.ms
    seal(cluster, topic)
    found = read_until(cluster, topic, lambda found: len(found) < 3)
    assert [each[:3] for each in found] == [(1, b"b", b"1"), (3, b"c", b"1")]
    assert all(timestamps[each.offset] == each.timestamp for each in found)


def test_aborted_records_go_and_committed_ones_stay(cluster: Cluster, topic: str) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": f"{topic}-writer"}
    )
    producer.init_transactions(TIMEOUT_SECONDS)
    for number in range(10):
        producer.begin_transaction()
        for key in (b"a", b"b"):
            producer.produce(topic, key=key, value=b"%d" % number, partition=0)
        if number % 2:
            producer.abort_transaction(TIMEOUT_SECONDS)
        else:
            producer.commit_transaction(TIMEOUT_SECONDS)
    seal(cluster, topic)
    found = read_until(cluster, topic, without_duplicates)
    assert [(each.key, each.value) for each in found] == [(b"a", b"8"), (b"b", b"8")]
    assert read(cluster, topic, isolation="read_committed") == found
    producer.begin_transaction()
    producer.produce(topic, key=b"c", value=b"9", partition=0)
    producer.commit_transaction(TIMEOUT_SECONDS)
    assert [each.key for each in read(cluster, topic, isolation="read_committed")] == [
        b"a",
        b"b",
        b"c",
    ]


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[Wire]:
    with Wire(cluster) as connection:
        yield connection


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4])
def test_records_without_key_are_refused_one_by_one(
    wire: Wire, topic: str, codec: Codec, version: int
) -> None:
    def produce(*keys: bytes | None) -> tuple[ErrorCode, list[int]]:
        records = build_batch([(key, b"v") for key in keys], timestamp=1_000, codec=codec)
        data = [{"index": 0, "records": bytes(records)}]
        answer = wire.ask(
            "produce",
            version,
            transactional_id=None,
            acks=-1,
            timeout=timedelta(seconds=10),
            topic_data=[{"name": topic, "partition_data": data}],
        )
        (found,) = answer.responses[0].partition_responses
        return found.error_code, [each.batch_index for each in found.record_errors]

    assert produce(b"a", None, b"", None) == (ErrorCode.invalid_record, [1, 3])
    assert produce(None) == (ErrorCode.invalid_record, [0])
    assert produce(b"a", b"") == (ErrorCode.none, [])
