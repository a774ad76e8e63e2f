"""What a fetch returns: whole batches, at least one, woken by an append."""

import threading
import time

import pytest
from confluent_kafka import OFFSET_END, Consumer, KafkaError, TopicPartition
from kio.schema.errors import ErrorCode

from headrace.records import build_batch
from tests.clients.drivers import DRIVERS, Driver, named
from tests.clients.librdkafka import consumer, producer, read, read_values, reader, send
from tests.clients.messages import CODECS, numbered, values
from tests.clients.stored import append, fetch
from tests.clients.wire import Wire
from tests.clusters import Cluster
from tests.conftest import TopicFactory


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("client", DRIVERS, ids=named)
def test_reading_from_the_middle_of_a_batch_starts_at_the_right_message(
    cluster: Cluster, topic: str, client: Driver, codec: str
):
    messages = numbered(100)
    DRIVERS[0].produce(cluster, topic, messages, codec=codec)
    assert values(client.consume(cluster, topic, 43, offset=57)) == values(messages[57:])


def test_a_fetch_in_the_middle_of_a_batch_returns_the_whole_batch(cluster: Cluster, topic: str):
    with Wire(cluster) as wire:
        for _ in range(3):
            append(wire, topic, build_batch([(None, b"x")] * 10, timestamp=1))
        fetched = fetch(wire, topic, 17)
    assert [batch.base_offset for batch in fetched.batches] == [10, 20]
    assert (fetched.high_watermark, fetched.log_start_offset) == (30, 0)


def test_a_batch_larger_than_every_limit_is_still_returned(cluster: Cluster, topic: str):
    with Wire(cluster) as wire:
        for _ in range(2):
            append(wire, topic, build_batch([(None, b"x" * 50_000)], timestamp=1))
        fetched = fetch(wire, topic, 0, partition_max_bytes=100, max_bytes=100)
    assert [batch.base_offset for batch in fetched.batches] == [0]
    assert fetched.size > 50_000


def test_a_small_fetch_limit_slows_a_consumer_but_never_stops_it(cluster: Cluster, topic: str):
    sent = [bytes([number % 256]) * 2_000 for number in range(60)]
    send(cluster, topic, sent, config={"batch.num.messages": 7})
    with reader(
        cluster,
        topic,
        fetch_message_max_bytes=1_000,
        message_max_bytes=1_000,
        fetch_max_bytes=1_000,
    ) as small:
        assert read_values(small, 60) == sent


def test_a_fetch_at_the_end_is_empty_and_beyond_it_out_of_range(cluster: Cluster, topic: str):
    with Wire(cluster) as wire:
        append(wire, topic, build_batch([(None, b"x")] * 5, timestamp=1))
        at_the_end = fetch(wire, topic, 5)
        beyond = fetch(wire, topic, 6)
        unknown = fetch(wire, topic, 0, partition=3)
    assert (at_the_end.error_code, at_the_end.size) == (ErrorCode.none, 0)
    assert at_the_end.high_watermark == 5
    assert (beyond.error_code, beyond.size) == (ErrorCode.offset_out_of_range, 0)
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition


def test_a_waiting_fetch_is_answered_by_an_append_and_not_by_its_timeout(
    cluster: Cluster, topic: str
):
    with Wire(cluster) as waiting, Wire(cluster) as writing:
        answers: list[tuple[float, list[int]]] = []

        def wait() -> None:
            fetched = fetch(waiting, topic, 0, max_wait_ms=15_000)
            answers.append((time.monotonic(), [batch.base_offset for batch in fetched.batches]))

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive(), "the fetch did not wait"
        written = time.monotonic()
        append(writing, topic, build_batch([(None, b"x")], timestamp=1))
        thread.join(20)
    ((answered, offsets),) = answers
    assert offsets == [0]
    assert answered - written < 5


def test_a_fetch_without_data_is_answered_when_its_time_is_up(cluster: Cluster, topic: str):
    with Wire(cluster) as wire:
        began = time.monotonic()
        fetched = fetch(wire, topic, 0, max_wait_ms=400)
        waited = time.monotonic() - began
    assert (fetched.error_code, fetched.size) == (ErrorCode.none, 0)
    assert 0.35 < waited < 5


def test_a_consumer_that_asks_for_many_bytes_gets_fewer_when_the_wait_is_over(
    cluster: Cluster, topic: str
):
    send(cluster, topic, [b"small"])
    with reader(cluster, topic, fetch_min_bytes=100_000, fetch_wait_max_ms=300) as patient:
        assert read_values(patient, 1) == [b"small"]


def test_a_consumer_that_asks_for_many_bytes_is_woken_when_they_are_there(
    cluster: Cluster, topic: str
):
    with reader(
        cluster, topic, fetch_min_bytes=50_000, fetch_wait_max_ms=30_000, socket_timeout_ms=60_000
    ) as patient:
        assert patient.poll(0.3) is None
        send(cluster, topic, [b"x" * 10_000] * 2)
        assert patient.poll(0.3) is None
        send(cluster, topic, [b"x" * 10_000] * 4)
        assert len(read(patient, 6, timeout=10)) == 6


def test_a_message_reaches_a_waiting_consumer_at_once(cluster: Cluster, topic: str):
    sender = producer(cluster, {"linger.ms": 0})
    with reader(cluster, topic, fetch_wait_max_ms=10_000) as waiting:
        assert waiting.poll(0.2) is None
        delays = []
        for _ in range(20):
            began = time.monotonic()
            sender.produce(topic, b"ping", partition=0)
            sender.flush(10)
            read(waiting, 1)
            delays.append(time.monotonic() - began)
    assert sorted(delays)[10] < 0.25


@pytest.mark.parametrize(
    ("reset", "offset", "first"), [("earliest", 99, b"0"), ("latest", 99, b"new")]
)
def test_an_offset_out_of_range_is_reset_as_the_consumer_asked(
    cluster: Cluster, topic: str, reset: str, offset: int, first: bytes
):
    send(cluster, topic, [b"0", b"1", b"2"])
    with reader(cluster, topic, offset, auto_offset_reset=reset) as lost:
        if reset == "latest":
            assert lost.poll(1) is None
            send(cluster, topic, [b"new"])
        assert read_values(lost, 1) == [first]


def test_a_consumer_that_wants_no_reset_is_told_so(cluster: Cluster, topic: str):
    send(cluster, topic, [b"0"])
    with reader(cluster, topic, 99, auto_offset_reset="error") as strict:
        message = strict.poll(10)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._AUTO_OFFSET_RESET


def test_seeking_moves_back_and_forth(cluster: Cluster, topic: str):
    sent = [str(number).encode() for number in range(100)]
    send(cluster, topic, sent, config={"compression.type": "zstd"})
    with reader(cluster, topic, enable_partition_eof=True, fetch_wait_max_ms=50) as moving:
        assert read_values(moving, 10) == sent[:10]
        for offset in (90, 5, 55, 0, 99):
            moving.seek(TopicPartition(topic, 0, offset))
            assert read_values(moving, 1) == [sent[offset]]
        moving.seek(TopicPartition(topic, 0, OFFSET_END))
        await_end(moving)
        send(cluster, topic, [b"after the end"])
        assert read_values(moving, 1) == [b"after the end"]


def test_a_paused_partition_delivers_after_it_is_resumed(cluster: Cluster, new_topic: TopicFactory):
    topic = new_topic(partitions=2)
    with consumer(cluster, "unused") as pausing:
        both = [TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)]
        pausing.assign(both)
        pausing.pause(both[:1])
        send(cluster, topic, [b"paused"], partition=0)
        send(cluster, topic, [b"flowing"], partition=1)
        assert read_values(pausing, 1) == [b"flowing"]
        assert pausing.poll(0.3) is None
        pausing.resume(both[:1])
        assert read_values(pausing, 1) == [b"paused"]


def test_the_end_of_a_partition_is_announced(cluster: Cluster, topic: str):
    send(cluster, topic, [b"only"])
    with reader(cluster, topic, enable_partition_eof=True) as eager:
        assert read_values(eager, 1) == [b"only"]
        assert await_end(eager) == 1


def await_end(reading: Consumer) -> int | None:
    """The offset at which the consumer, which must be at the end, says that it is there."""
    message = reading.poll(10)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._PARTITION_EOF
    return message.offset()
