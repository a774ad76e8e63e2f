"""What the topic sink makes of rows, and what it says when it cannot."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from confluent_kafka import Message, Producer

from headrace.kafka import Cluster as KafkaCluster
from headrace.kafka import describe_topic
from headrace.kafka.raw_produce import RecordsRefused, RecordTooLarge
from headrace.kafka.raw_transactions import TransactionTimeoutRefused
from headrace.records import Codec
from headrace.settings import KafkaSettings
from headrace.streams.sinks.contract import Batch, Fenced, Written
from headrace.streams.sinks.topic import Delivery, TopicSink
from tests.clusters import Cluster, headrace_process
from tests.conftest import TopicFactory
from tests.streams.sinks.topic_target import await_markers, records_in, topic_sink

AT = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)


def write(sink: TopicSink, *rows: pa.RecordBatch, query: str = "q", batch_id: int = 0) -> Written:
    """Write all rows as the only place of a batch."""
    batch = Batch(f"{sink.topic}-{query}", batch_id, 1)
    sink.begin(batch)
    return sink.write(batch.place(0), iter(rows))


def stored(sink: TopicSink, topic: str | None = None) -> list[Message]:
    return records_in(sink.kafka.bootstrap, topic or sink.topic)


def values(*texts: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": list(texts)})


@pytest.fixture
def sink(cluster: Cluster, fresh_name: str) -> TopicSink:
    return topic_sink(cluster, fresh_name)


def test_rows_become_records_with_all_they_have(sink: TopicSink):
    rows = pa.RecordBatch.from_pylist(
        [
            {
                "key": b"k",
                "value": b"v",
                "headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
                "timestamp": AT,
            },
            {"key": None, "value": None, "headers": None, "timestamp": None},
        ],
        schema=pa.schema(
            [
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
                ("timestamp", pa.timestamp("us", tz="UTC")),
            ]
        ),
    )
    before = datetime.now(UTC)
    assert write(sink, rows).rows == 2
    full, empty = sorted(stored(sink), key=lambda each: each.key() is None)
    assert (full.key(), full.value(), full.headers()) == (b"k", b"v", [("a", b"1"), ("a", None)])
    assert full.timestamp()[1] == AT.timestamp() * 1000
    assert (empty.key(), empty.value(), empty.headers()) == (None, None, None)
    late = timedelta(seconds=5)
    assert before - late < datetime.fromtimestamp(empty.timestamp()[1] / 1000, UTC)


def test_text_is_written_as_it_is(sink: TopicSink):
    write(sink, pa.RecordBatch.from_pydict({"key": ["käse"], "value": ["brot"]}))
    (found,) = stored(sink)
    assert (found.key(), found.value()) == ("käse".encode(), b"brot")


def test_keys_go_where_other_clients_send_them(
    sink: TopicSink, cluster: Cluster, new_topic: TopicFactory
):
    keys = [f"user-{number}" for number in range(100)]
    other = new_topic(3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(other, key=key, value=b"")
    producer.flush()
    write(sink, pa.RecordBatch.from_pydict({"key": keys, "value": keys}))
    ours, theirs = (
        {each.key(): each.partition() for each in records_in(cluster.bootstrap, topic)}
        for topic in (sink.topic, other)
    )
    assert ours == theirs


def test_rows_without_keys_are_spread_over_batches(sink: TopicSink):
    for batch_id in range(3):
        write(sink, values("a", "b"), batch_id=batch_id)
    assert sorted(each.partition() or 0 for each in stored(sink)) == [0, 0, 1, 1, 2, 2]


def test_rows_choose_their_topics_in_one_transaction(sink: TopicSink, fresh_name: str):
    topics = [f"{fresh_name}-a", None, f"{fresh_name}-b", f"{fresh_name}-a"]
    rows = pa.RecordBatch.from_pydict({"value": ["1", "2", "3", "4"], "topic": topics})
    assert write(sink, rows).rows == 4
    found = {
        topic: sorted(each.value() or b"" for each in stored(sink, topic))
        for topic in (f"{fresh_name}-a", f"{fresh_name}-b", sink.topic)
    }
    assert list(found.values()) == [[b"1", b"4"], [b"3"], [b"2"]]


def test_a_missing_topic_is_created_as_asked(cluster: Cluster, fresh_name: str):
    sink = topic_sink(cluster, fresh_name, partitions=5)
    write(sink, values("a"))
    assert len(describe_topic(KafkaCluster(sink.kafka), fresh_name).partitions) == 5


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_batches_are_compressed_as_asked(cluster: Cluster, fresh_name: str, codec: Codec):
    sink = topic_sink(cluster, fresh_name, codec=codec)
    texts = ["the same again and again"] * 1000
    written = write(sink, values(*texts))
    assert [each.value() for each in stored(sink)] == [text.encode() for text in texts]
    assert (written.bytes < 10_000) == (codec is not Codec.NONE)


def test_a_large_place_streams_through_in_order(cluster: Cluster, new_topic: TopicFactory):
    topic = new_topic(2, {"max.message.bytes": "20000"})
    sink = topic_sink(cluster, topic, chunk_bytes=1 << 20)

    def pieces() -> Iterator[pa.RecordBatch]:
        for piece in range(20):
            numbers = range(piece * 1000, (piece + 1) * 1000)
            texts = [f"{number:0200}" for number in numbers]
            keys = ["even" if number % 2 else "odd" for number in numbers]
            yield pa.RecordBatch.from_pydict({"key": keys, "value": texts})

    assert write(sink, *pieces()).rows == 20_000
    found = stored(sink)
    assert len(found) == 20_000
    for key in (b"even", b"odd"):
        numbers = [int(each.value() or b"") for each in found if each.key() == key]
        assert numbers == sorted(numbers)


def test_a_record_that_is_too_large_is_named(cluster: Cluster, new_topic: TopicFactory):
    sink = topic_sink(cluster, new_topic(1, {"max.message.bytes": "2000"}))
    rows = [values("a", "b"), values("c", "x" * 3000)]
    with pytest.raises(RecordTooLarge, match=r"Row 3 becomes .* accepts 2000"):
        write(sink, *rows)
    assert stored(sink) == []
    assert write(topic_sink(cluster, sink.topic, codec=Codec.ZSTD), *rows).rows == 4


def test_a_record_that_the_topic_refuses_is_named(cluster: Cluster, new_topic: TopicFactory):
    sink = topic_sink(cluster, new_topic(1, {"cleanup.policy": "compact"}))
    rows = pa.RecordBatch.from_pydict({"key": ["a", None], "value": ["1", "2"]})
    with pytest.raises(RecordsRefused, match=rf"{sink.topic}-0 refuses .* row 1"):
        write(sink, rows)
    assert stored(sink) == []


def test_a_timeout_beyond_what_brokers_allow_is_refused(cluster: Cluster, fresh_name: str):
    sink = topic_sink(cluster, fresh_name, transaction_timeout=timedelta(days=2))
    with pytest.raises(TransactionTimeoutRefused, match=r"transaction\.max\.timeout\.ms"):
        write(sink, values("a"))


def test_a_place_that_takes_too_long_says_so(cluster: Cluster, fresh_name: str):
    sink = topic_sink(cluster, fresh_name, transaction_timeout=timedelta(seconds=1))

    def pieces() -> Iterator[pa.RecordBatch]:
        yield values("a")
        yield values("b")
        assert await_markers(sink.kafka.bootstrap, sink.topic, seconds=20), "it is still open"
        yield values("c")

    batch = Batch(fresh_name, 0, 1)
    sink.begin(batch)
    with pytest.raises(Fenced, match="raise the transaction timeout"):
        sink.write(batch.place(0), pieces())
    assert stored(sink) == []


@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_broker_that_restarts_loses_nothing(delivery: Delivery, fresh_name: str):
    with headrace_process() as broker:
        kafka = KafkaSettings(bootstrap=broker.cluster.bootstrap)
        sink = TopicSink(kafka, fresh_name, delivery=delivery, partitions=2, chunk_bytes=1)

        def pieces() -> Iterator[pa.RecordBatch]:
            for piece in range(6):
                if piece in {2, 4}:
                    broker.kill()
                    broker.start()
                texts = [f"{piece}-{number}" for number in range(50)]
                yield pa.RecordBatch.from_pydict({"key": texts, "value": texts})

        batch = Batch(fresh_name, 0, 1)
        sink.begin(batch)
        assert sink.write(batch.place(0), pieces()).rows == 300
        found = [each.value() for each in stored(sink)]
        assert len(found) == len(set(found)) == 300
