"""Record batches of a range, from both clusters."""

import pickle
import time

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.kafka import Isolation, Partition
from headrace.kafka.connection import Connection
from headrace.kafka.gaps import OffsetsBeyondEnd, OffsetsGone
from headrace.kafka.raw_fetch import fetch_range
from headrace.kafka.raw_positions import EARLIEST, LATEST, commit, committed, list_offsets
from headrace.records.arrow import decode
from headrace.settings import KafkaSettings
from tests.clusters import Cluster
from tests.conftest import TopicFactory


@pytest.fixture
def raw(cluster: Cluster):
    connection = Connection(KafkaSettings(bootstrap=cluster.bootstrap))
    yield connection
    connection.close()


def produce(cluster: Cluster, topic: str, *values: bytes, **config: object) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **config})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(20) == 0


def read(raw: Connection, topic: str, start: int, end: int, **options) -> list[bytes]:
    chunks = fetch_range(raw, Partition(topic, 0), start, end, **options)
    tables = [decode(chunk, min_offset=start) for chunk in chunks]
    records = pa.concat_tables(tables) if tables else None
    if records is None:
        return []
    kept = records.filter(pa.compute.less(records["offset"], end))
    values: list[bytes] = kept["value"].to_pylist()
    return values


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_range_has_exactly_its_records(cluster: Cluster, raw, topic: str, codec: str) -> None:
    values = [b"%d" % number for number in range(1000)]
    produce(cluster, topic, *values, **{"compression.type": codec, "batch.num.messages": 7})
    assert read(raw, topic, 0, 1000) == values
    assert read(raw, topic, 13, 700) == values[13:700]
    assert read(raw, topic, 13, 700, fetch_bytes=1) == values[13:700]
    assert read(raw, topic, 5, 5) == []


def test_a_record_larger_than_a_fetch_comes_whole(
    cluster: Cluster, raw, new_topic: TopicFactory
) -> None:
    topic = new_topic(config={"max.message.bytes": "4000000"})
    values = [b"small", b"x" * 3_000_000, b"small"]
    produce(cluster, topic, *values, **{"message.max.bytes": 4_000_000, "linger.ms": 0})
    assert read(raw, topic, 0, 3, fetch_bytes=1000) == values


def test_aborted_records_are_read_only_by_those_who_ask_for_them(
    cluster: Cluster, raw, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(20)
    for value, ending in ((b"a", "commit"), (b"b", "abort"), (b"c", "commit")):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(20)
        getattr(producer, f"{ending}_transaction")(20)
    end = list_offsets(raw, [Partition(topic, 0)], LATEST)[Partition(topic, 0)]
    assert read(raw, topic, 0, end) == [b"a", b"c"]
    assert read(raw, topic, 0, end, isolation=Isolation.READ_UNCOMMITTED) == [b"a", b"b", b"c"]


def test_the_gap_is_told_exactly(cluster: Cluster, raw, topic: str, admin: AdminClient) -> None:
    produce(cluster, topic, *[b"x"] * 10)
    partition = Partition(topic, 0)
    admin.delete_records([TopicPartition(topic, 0, 6)])[TopicPartition(topic, 0, 6)].result(20)
    with pytest.raises(OffsetsGone, match="no longer has offsets 2 to 5: it begins at 6") as gone:
        read(raw, topic, 2, 10)
    copy = pickle.loads(pickle.dumps(gone.value))
    assert (copy.partition, copy.first, copy.last, copy.earliest) == (partition, 2, 5, 6)
    with pytest.raises(OffsetsGone, match="offset 2:"):
        read(raw, topic, 2, 3)
    with pytest.raises(OffsetsBeyondEnd, match="ends at 10"):
        read(raw, topic, 20, 30)


@pytest.mark.partitions(2)
def test_offsets_are_found_by_time_and_at_both_ends(cluster: Cluster, raw, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    # Of an older time, Kafka's retention might take them away.
    now_ms = int(time.time()) * 1000
    for later in (1_000, 2_000, 3_000):
        producer.produce(topic, b"x", partition=0, timestamp=now_ms + later)
    producer.flush(20)
    partitions = [Partition(topic, 0), Partition(topic, 1)]
    assert list(list_offsets(raw, partitions, EARLIEST).values()) == [0, 0]
    assert list_offsets(raw, partitions, LATEST) == dict(zip(partitions, (3, 0), strict=True))
    assert list_offsets(raw, partitions, now_ms + 1_500) == dict(
        zip(partitions, (1, -1), strict=True)
    )


@pytest.mark.partitions(2)
def test_offsets_are_committed_and_found_again(raw, topic: str, group: str) -> None:
    partitions = [Partition(topic, 0), Partition(topic, 1)]
    assert committed(raw, group, partitions) == {}
    commit(raw, group, {partitions[1]: 7})
    assert committed(raw, group, partitions) == {partitions[1]: 7}
