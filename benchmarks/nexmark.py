"""Queries of Nexmark on topics, beside native Spark on the same topics: `make bench NAME=nexmark`.

Both sides read the same JSON from the same broker, in batches of the same size, one with Headrace's
source and operators, the other with Spark's Kafka connector, `from_json` and Spark's own. The round
that does not count writes down what each of them says, and compares it with what Polars computes
from the same events in one go. What is reported are the records that a query reads per second,
without its first batch.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

import polars as pl
from confluent_kafka import Producer
from polars.testing import assert_frame_equal
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks import load
from benchmarks.auctions import Events, events
from benchmarks.command import Options, command
from benchmarks.experiment import Experiment, Figures, NothingMeasured, run
from benchmarks.nexmark_queries import QUERIES, SCHEMAS, WAIT, Query
from benchmarks.peers import HEADRACE, Fleet, Server, launch_headrace
from benchmarks.report import Better, Row
from benchmarks.spark import session
from headrace.settings import KafkaSettings, Settings
from headrace.streams import Flow
from headrace.streams.session import stateful_session
from headrace.streams.source import register
from headrace.streams.time import Watermark

NATIVE = "native Spark"

_PARTITIONS = 4
_FLUSH_EVERY = 50_000
_RATE = "records_per_second"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    rounds: int
    events: int
    batch: int
    """Events that a batch is of; it reads as many records of each topic as there are of them."""


FULL = Scale(rounds=3, events=2_000_000, batch=300_000)
QUICK = Scale(rounds=1, events=300_000, batch=60_000)


@dataclass(slots=True)
class Auctions:
    """The events in topics of a broker, written when they are first needed."""

    fleet: Fleet
    scale: Scale
    _topics: dict[str, str] = field(default_factory=dict)
    _events: Events | None = None

    @property
    def server(self) -> Server:
        """The broker."""
        return self.fleet.server(launch_headrace)

    @property
    def events(self) -> Events:
        """What happened."""
        if self._events is None:
            self._events = events(self.scale.events)
        return self._events

    @property
    def end(self) -> pl.Expr:
        """A moment after the last event, and before the one that lets all windows close."""
        return pl.lit(self.events.bids["at"].max()) + timedelta(minutes=1)

    def batch(self, kind: str) -> int:
        """Records of one kind that a batch reads, at most."""
        rows: pl.DataFrame = getattr(self.events, kind)
        return self.scale.batch * rows.height // self.scale.events

    def topic(self, kind: str) -> str:
        """The topic of one kind of event."""
        if kind not in self._topics:
            self._topics[kind] = load.create_topic(self.server, partitions=_PARTITIONS)
            _fill(self.server, self._topics[kind], getattr(self.events, kind))
        return self._topics[kind]


def experiments(auctions: Auctions, spark: SparkSession) -> list[Experiment]:
    """One for each query."""
    return [_experiment(auctions, spark, name, query) for name, query in QUERIES.items()]


def main() -> None:
    """Run the benchmark from the command line."""
    options = Options.parse("Queries of Nexmark beside native Spark.")
    with command(), Fleet() as fleet, session() as spark:
        auctions = Auctions(fleet, QUICK if options.quick else FULL)
        stateful = stateful_session(spark)
        register(stateful)
        run("nexmark", experiments(auctions, stateful), options)


def _experiment(auctions: Auctions, spark: SparkSession, name: str, query: Query) -> Experiment:
    metric = f"nexmark_{name}"
    row = Row(metric, "records/s", Better.HIGHER, _RATE, HEADRACE, NATIVE)
    checked: set[str] = set()
    sides = {
        side: partial(_measure, auctions, spark, query, side, checked)
        for side in (HEADRACE, NATIVE)
    }
    return Experiment(metric, sides, (row,), auctions.scale.rounds)


def _measure(
    auctions: Auctions, spark: SparkSession, query: Query, side: str, checked: set[str]
) -> Figures:
    with tempfile.TemporaryDirectory(prefix="headrace-nexmark-") as name:
        home = Path(name)
        made = (
            _flow(auctions, spark, query) if side == HEADRACE else _native(auctions, spark, query)
        )
        writer = made.writeStream.outputMode("update" if side == HEADRACE else "append")
        if side in checked:
            return _run(writer.format("noop"), home)
        found = _run(writer.foreachBatch(partial(_write_down, home / "results")), home)
        _compare(home / "results", query.expected(auctions.events), auctions.end, side)
        checked.add(side)
        return found


def _flow(auctions: Auctions, spark: SparkSession, query: Query) -> DataFrame:
    settings = Settings(kafka=KafkaSettings(bootstrap=auctions.server.bootstrap))
    flow = Flow("nexmark", settings=settings, spark=spark)
    streams = {
        kind: flow.stream(
            auctions.topic(kind),
            SCHEMAS[kind],
            time="at",
            watermark=Watermark(out_of_order=WAIT),
            max_records_per_batch=auctions.batch(kind),
        )
        for kind in query.reads
    }
    return query.flow(streams)


def _native(auctions: Auctions, spark: SparkSession, query: Query) -> DataFrame:
    return query.native({kind: _read(auctions, spark, kind) for kind in query.reads})


def _read(auctions: Auctions, spark: SparkSession, kind: str) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": auctions.server.bootstrap,
        "subscribe": auctions.topic(kind),
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(auctions.batch(kind)),
    }
    records = spark.readStream.format("kafka").options(**options).load()
    value = F.from_json(F.col("value").cast("string"), SCHEMAS[kind])
    return records.select(value.alias("row")).select("row.*")


def _run(writer: DataStreamWriter, home: Path) -> Figures:
    checkpoint = str(home / "checkpoint")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    later = [each for each in query.recentProgress if each["numInputRows"]][1:]
    if not later:
        raise NothingMeasured("all records were read in one batch, which does not count")
    read = sum(each["numInputRows"] for each in later)
    return {_RATE: read / sum(each["durationMs"]["triggerExecution"] for each in later) * 1000}


def _write_down(path: Path, rows: DataFrame, number: int) -> None:
    rows.write.mode("append").parquet(str(path))


def _compare(path: Path, expected: pl.DataFrame, end: pl.Expr, side: str) -> None:
    """Raise NothingMeasured if what was written down is not what was expected."""
    found = pl.read_parquet(path / "*.parquet").select(expected.columns)
    kinds: Mapping[str, pl.DataType] = expected.schema
    found = found.with_columns(pl.col(name).cast(kind) for name, kind in kinds.items())
    for time in {"at", "window_start"} & set(found.columns):
        found = found.filter(pl.col(time) < end)
    try:
        assert_frame_equal(found, expected, check_row_order=False)
    except AssertionError as error:
        raise NothingMeasured(f"{side} says something else than Polars: {error}") from None


def _fill(server: Server, topic: str, rows: pl.DataFrame) -> None:
    """Write rows to all partitions in turn, and an hour later one row that closes all windows."""
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "linger.ms": 20,
            "queue.buffering.max.messages": 2 * _FLUSH_EVERY,
        }
    )
    for number, value in enumerate(_json(rows)):
        producer.produce(topic, value, partition=number % _PARTITIONS)
        if number % _FLUSH_EVERY == 0:
            producer.flush()
    producer.flush()
    later = rows.tail(1).with_columns(
        pl.col("at").dt.offset_by("1h"), *(pl.lit(1).alias(each) for each in _ids(rows))
    )
    for partition in range(_PARTITIONS):
        producer.produce(topic, _json(later)[0], partition=partition)
    producer.flush()


def _ids(rows: pl.DataFrame) -> list[str]:
    """Columns that, set to one, make a row that no query selects and no other row is joined to."""
    return [each for each in ("id", "seller", "category", "auction", "bidder") if each in rows]


def _json(rows: pl.DataFrame) -> list[bytes]:
    texts = rows.with_columns(pl.col(pl.Datetime).dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")).select(
        pl.struct(pl.all()).struct.json_encode()
    )
    return [each.encode() for each in texts.to_series()]


if __name__ == "__main__":
    main()
