"""From topic to topic through Spark, record by record: `make bench NAME=latency`.

A few records a second go into one topic, a query copies them to another, and a reader of committed
records there compares the clock with the one in the record. Once that query is Headrace's source
and its exactly-once sink, once Spark's own connector at both ends, which writes at least once.
Both run micro-batches one after the other, in one Spark, against the same broker, each with the
checkpoint files of its own: Spark's, when nobody tells it how, and those of Headrace's sessions.
The connector with Headrace's files, and Headrace's source with the connector's sink, are measured
in the same rounds and reported beside it.
The real-time lane has an experiment of its own: a flow that asks for it, beside Spark's real-time
mode with the same query written by hand.
"""

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks import load
from benchmarks.command import Options, command
from benchmarks.experiment import Experiment, Figures, NothingMeasured, run
from benchmarks.peers import HEADRACE, Fleet, Server, launch_headrace
from benchmarks.report import Better, Row
from benchmarks.spark import CONNECTOR, session, with_its_own_files
from headrace.settings import KafkaSettings, Settings, StreamsSettings
from headrace.streams import Flow
from headrace.streams.realtime.running import in_real_time
from headrace.streams.sinks.applying import foreach_batch, written
from headrace.streams.sinks.topic import TopicSink
from headrace.streams.source import register

SAME_FILES = "Spark's Kafka connector, in Headrace's session"
SOURCE_ONLY = "Headrace's source, the connector's sink"
REALTIME = "a flow in real time"
BY_HAND = "Spark's real-time mode by hand"

_PAUSE_SECONDS = 0.01
"""Between one record and the next."""

_FIRST_RECORD_SECONDS = 60.0
_P50, _P99 = "p50_ms", "p99_ms"

Copy = Callable[[SparkSession, Server, str, str], DataStreamWriter]
"""A query from one topic to another that is ready to be started."""

Running = Callable[[SparkSession, Server, str, str], contextlib.AbstractContextManager[None]]
"""A query from one topic to another that runs while a block does."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How long a run takes."""

    rounds: int
    records: int
    warm_up_records: int


FULL = Scale(rounds=5, records=1500, warm_up_records=500)
QUICK = Scale(rounds=1, records=200, warm_up_records=100)


def experiments(fleet: Fleet, spark: SparkSession, scale: Scale) -> list[Experiment]:
    """The one experiment."""
    copies: dict[str, Copy] = {
        HEADRACE: _copy,
        CONNECTOR: _copy_by_connector_alone,
        SAME_FILES: _copy_by_connector,
        SOURCE_ONLY: _copy_to_connector,
    }
    rows = (
        Row("latency_p50", "ms", Better.LOWER, _P50, HEADRACE, CONNECTOR, 1.5),
        Row("latency_p99", "ms", Better.LOWER, _P99, HEADRACE, CONNECTOR),
        Row("latency_same_files_p50", "ms", Better.LOWER, _P50, HEADRACE, SAME_FILES),
        Row("latency_same_files_p99", "ms", Better.LOWER, _P99, HEADRACE, SAME_FILES),
        Row("latency_source_p50", "ms", Better.LOWER, _P50, SOURCE_ONLY, SAME_FILES),
        Row("latency_source_p99", "ms", Better.LOWER, _P99, SOURCE_ONLY, SAME_FILES),
    )
    sides = {side: partial(_measure, fleet, spark, scale, copy) for side, copy in copies.items()}
    batches = Experiment("latency", sides, rows, rounds=scale.rounds)
    return [batches, realtime_experiment(fleet, spark, scale)]


def realtime_experiment(fleet: Fleet, spark: SparkSession, scale: Scale) -> Experiment:
    """The real-time lane, which has to be fast by itself and no slower than Spark's own mode."""
    ways: dict[str, Running] = {REALTIME: _flow_in_real_time, BY_HAND: _real_time_by_hand}
    rows = (
        Row("latency_realtime_p50", "ms", Better.LOWER, _P50, REALTIME, BY_HAND, bound=10),
        Row("latency_realtime_p99", "ms", Better.LOWER, _P99, REALTIME, BY_HAND),
    )
    sides = {
        side: partial(_measure_running, fleet, spark, scale, way) for side, way in ways.items()
    }
    return Experiment("latency_realtime", sides, rows, rounds=scale.rounds)


def main() -> None:
    """Run the benchmark from the command line."""
    options = Options.parse("From topic to topic through Spark, in micro-batches.")
    with command(), Fleet() as fleet, session() as spark:
        register(spark)
        run("latency", experiments(fleet, spark, QUICK if options.quick else FULL), options)


def _measure(fleet: Fleet, spark: SparkSession, scale: Scale, copy: Copy) -> Figures:
    server = fleet.server(launch_headrace)
    with (
        load.fresh_topic(server) as source,
        load.fresh_topic(server) as target,
        _running(copy(spark, server, source, target)),
        _sending(server, source),
        contextlib.closing(_latencies(server, target)) as arrivals,
    ):
        for _ in range(scale.warm_up_records):
            next(arrivals)
        found = sorted(next(arrivals) for _ in range(scale.records))
    return {_P50: found[len(found) // 2], _P99: found[len(found) * 99 // 100]}


def _measure_running(fleet: Fleet, spark: SparkSession, scale: Scale, way: Running) -> Figures:
    """Like `_measure`, of what starts and stops itself."""
    server = fleet.server(launch_headrace)
    with (
        load.fresh_topic(server) as source,
        load.fresh_topic(server) as target,
        way(spark, server, source, target),
        _sending(server, source),
        contextlib.closing(_latencies(server, target)) as arrivals,
    ):
        for _ in range(scale.warm_up_records):
            next(arrivals)
        found = sorted(next(arrivals) for _ in range(scale.records))
    return {_P50: found[len(found) // 2], _P99: found[len(found) * 99 // 100]}


@contextlib.contextmanager
def _flow_in_real_time(
    spark: SparkSession, server: Server, source: str, target: str
) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="headrace-benchmark-") as checkpoints:
        settings = Settings(
            kafka=KafkaSettings(bootstrap=server.bootstrap),
            streams=StreamsSettings(checkpoints=checkpoints),
        )
        flow = Flow(target, settings=settings, spark=spark)
        rows = flow.stream(source, format="raw")
        flow.topic(target, rows, value="value", trigger="realtime")
        with flow.start():
            yield


def _real_time_by_hand(
    spark: SparkSession, server: Server, source: str, target: str
) -> contextlib.AbstractContextManager[None]:
    writer = _copy_by_connector(spark, server, source, target).outputMode("update")
    return _running(in_real_time(writer))


@contextlib.contextmanager
def _running(writer: DataStreamWriter) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="headrace-benchmark-") as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            yield
        finally:
            query.stop()


@contextlib.contextmanager
def _sending(server: Server, topic: str) -> Iterator[None]:
    """Send the time, again and again."""
    stop = threading.Event()

    def send() -> None:
        producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0})
        while not stop.wait(_PAUSE_SECONDS):
            producer.produce(topic, b"%d" % time.time_ns())
            producer.poll(0)
        producer.flush()

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        stop.set()
        sender.join()


def _latencies(server: Server, topic: str) -> Generator[float, None, None]:
    """How many milliseconds old each record is when it can be read."""
    consumer = Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": topic, "fetch.wait.max.ms": 100}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        while True:
            message = consumer.poll(_FIRST_RECORD_SECONDS)
            value = None if message is None else message.value()
            if value is None:
                raise NothingMeasured("no record has come through")
            yield (time.time_ns() - int(value)) / 1e6
    finally:
        consumer.close()


def _copy(spark: SparkSession, server: Server, source: str, target: str) -> DataStreamWriter:
    sink = TopicSink(KafkaSettings(bootstrap=server.bootstrap), target)
    rows = written(_read(spark, server, source), sink)
    return rows.writeStream.foreachBatch(foreach_batch(sink, target))


def _copy_to_connector(
    spark: SparkSession, server: Server, source: str, target: str
) -> DataStreamWriter:
    return _write_by_connector(_read(spark, server, source), server, target)


def _copy_by_connector_alone(
    spark: SparkSession, server: Server, source: str, target: str
) -> DataStreamWriter:
    return _copy_by_connector(with_its_own_files(spark), server, source, target)


def _copy_by_connector(
    spark: SparkSession, server: Server, source: str, target: str
) -> DataStreamWriter:
    options = {
        "kafka.bootstrap.servers": server.bootstrap,
        "subscribe": source,
        "startingOffsets": "earliest",
    }
    rows = spark.readStream.format("kafka").options(**options).load().select("key", "value")
    return _write_by_connector(rows, server, target)


def _read(spark: SparkSession, server: Server, topic: str) -> DataFrame:
    options = {"bootstrap": server.bootstrap, "topics": topic, "format": "raw"}
    return spark.readStream.format("headrace").options(**options).load()


def _write_by_connector(rows: DataFrame, server: Server, topic: str) -> DataStreamWriter:
    options = {"kafka.bootstrap.servers": server.bootstrap, "topic": topic}
    return rows.writeStream.format("kafka").options(**options)


if __name__ == "__main__":
    main()
