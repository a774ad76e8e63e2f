"""Keys, values, headers and timestamps arrive as they were sent, whoever sends and reads."""

import struct
import time

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME
from confluent_kafka.admin import AdminClient

from tests.clients.drivers import DRIVERS, LIBRARIES, Driver, named, run_kcat
from tests.clients.librdkafka import read, reader, send
from tests.clients.messages import Message, plain, values
from tests.clusters import Cluster
from tests.conftest import TopicFactory

UNUSUAL = [
    Message(value=b"only a value", timestamp=1_600_000_000_001),
    Message(value=None, key=b"a tombstone", timestamp=1_600_000_000_002),
    Message(value=b"", key=b"", timestamp=1_600_000_000_003),
    Message(value=bytes(range(256)), key=b"\xff\x00\xfe", timestamp=1_600_000_000_004),
    Message(value="wässrig".encode(), key="schlüssel".encode(), timestamp=1_600_000_000_005),
    Message(
        value=b"with headers",
        timestamp=1_600_000_000_006,
        headers=(
            ("twice", b"first"),
            ("twice", b"second"),
            ("Jämtland", "Härjedalen".encode()),
            ("empty", b""),
            ("binary", struct.pack(">hiq", -1, 2, -3)),
        ),
    ),
    Message(value=b"the last", key=b"k", timestamp=1_600_000_000_007),
]


@pytest.mark.parametrize("producer", LIBRARIES, ids=named)
def test_unusual_messages_round_trip_between_all_libraries(
    cluster: Cluster, topic: str, producer: Driver
):
    producer.produce(cluster, topic, UNUSUAL)
    for consumer in LIBRARIES:
        assert consumer.consume(cluster, topic, len(UNUSUAL)) == UNUSUAL, consumer.name


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_header_without_a_value_stays_without_one(cluster: Cluster, topic: str, codec: str):
    message = Message(value=b"v", headers=(("absent", None), ("present", b"")))
    LIBRARIES[0].produce(cluster, topic, [message], codec=codec)
    for consumer in LIBRARIES:
        assert plain(consumer.consume(cluster, topic, 1)) == plain([message]), consumer.name


def test_kcat_sends_headers_and_tombstones(cluster: Cluster, topic: str):
    keyed = ("-P", "-t", topic, "-p", "0", "-K", ":", "-Z", "-H", "source=kcat", "-H", "run=7")
    run_kcat(cluster, *keyed, stdin=b"kept:value\nerased:\n")
    headers = (("source", b"kcat"), ("run", b"7"))
    expected = [(b"kept", b"value", headers), (b"erased", None, headers)]
    for consumer in DRIVERS:
        assert plain(consumer.consume(cluster, topic, 2)) == expected, consumer.name


def test_messages_keep_their_order_across_many_batches(cluster: Cluster, topic: str):
    sent = [str(number).encode() for number in range(5_000)]
    small_batches = {"batch.num.messages": 50, "linger.ms": 1}
    deliveries = send(cluster, topic, sent, config=small_batches)
    assert [delivery.offset for delivery in deliveries] == list(range(5_000))
    for consumer in LIBRARIES:
        assert values(consumer.consume(cluster, topic, 5_000)) == sent, consumer.name


def test_the_producer_chooses_the_timestamp_unless_the_topic_says_otherwise(
    cluster: Cluster, topic: str
):
    send(cluster, topic, [b"old"], timestamps=[1_234_567_890_123])
    with reader(cluster, topic) as consumer:
        (message,) = read(consumer, 1)
    assert message.timestamp() == (TIMESTAMP_CREATE_TIME, 1_234_567_890_123)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_log_append_time_topic_stamps_messages_with_the_brokers_clock(
    cluster: Cluster, new_topic: TopicFactory, codec: str
):
    topic = new_topic(config={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    ancient = [1_234_567_890_000 + number for number in range(10)]
    send(cluster, topic, [b"x"] * 10, timestamps=ancient, config={"compression.type": codec})
    after = int(time.time() * 1000)
    with reader(cluster, topic) as consumer:
        stamps = [message.timestamp() for message in read(consumer, 10)]
    assert {kind for kind, _ in stamps} == {TIMESTAMP_LOG_APPEND_TIME}
    assert before <= min(stamps)[1] <= max(stamps)[1] <= after
    for library in LIBRARIES[1:]:
        stamped = [message.timestamp for message in library.consume(cluster, topic, 10)]
        assert stamped == [moment for _, moment in stamps], library.name


def test_messages_without_a_partition_are_spread_by_key(
    cluster: Cluster, new_topic: TopicFactory, admin: AdminClient
):
    topic = new_topic(partitions=4)
    keyed = {"sticky.partitioning.linger.ms": 0, "partitioner": "murmur2_random"}
    deliveries = send(cluster, topic, [b"no key"] * 200, partition=-1, config=keyed)
    assert {delivery.error for delivery in deliveries} == {0}
    assert {delivery.partition for delivery in deliveries} == {0, 1, 2, 3}
