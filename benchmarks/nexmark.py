"""Queries of Nexmark on topics, beside native Spark on the same topics: `make bench NAME=nexmark`.

Both sides read the same JSON from the same broker, in batches of the same size, one with Headrace's
source and operators, the other with Spark's Kafka connector, `from_json` and Spark's own. The round
that does not count writes down what each of them says, and compares it with what DuckDB computes
from the same events in one go. What is reported are the records that a query reads per second,
without its first batch.
"""

import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import cast

import polars as pl
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks import load
from benchmarks.auctions import Events, events
from benchmarks.command import Options, command
from benchmarks.experiment import Experiment, Figures, NothingMeasured, run
from benchmarks.nexmark_flows import SIDE, WAIT
from benchmarks.nexmark_queries import QUERIES, SCHEMAS, Query
from benchmarks.nexmark_truth import answer, compare, without_zones
from benchmarks.peers import HEADRACE, Fleet, Server, launch_headrace
from benchmarks.report import Better, Row
from benchmarks.spark import session
from headrace.settings import KafkaSettings, Settings
from headrace.streams import Flow, Stream
from headrace.streams.session import stateful_session
from headrace.streams.source import register
from headrace.streams.time import Watermark

_PARTITIONS = 4
_FLUSH_EVERY = 50_000
_RATE = "records_per_second"
_BATCH = "_batch"
_READ_TWICE = 1.05
"""More than this times the records that there are, and something is read more than once."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    rounds: int
    events: int
    batch: int
    """Events that a batch is of; it reads as many records of each topic as there are of them."""


FULL = Scale(rounds=3, events=1_000_000, batch=200_000)
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
    def end(self) -> datetime:
        """A moment after the last event, and before the one that lets all windows close."""
        last = without_zones(self.events.bids)["at"].max()
        return cast(datetime, last) + timedelta(minutes=1)

    def records(self, kinds: tuple[str, ...]) -> int:
        """How many records of some kinds there are, but for those that let windows close."""
        return sum(getattr(self.events, kind).height for kind in kinds)

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
    row = Row(metric, "records/s", Better.HIGHER, _RATE, HEADRACE, query.peer)
    checked: set[str] = set()
    sides = {
        side: partial(_measure, auctions, spark, name, side, checked)
        for side in (HEADRACE, query.peer)
    }
    return Experiment(metric, sides, (row,), auctions.scale.rounds)


def _measure(
    auctions: Auctions, spark: SparkSession, name: str, side: str, checked: set[str]
) -> Figures:
    query = QUERIES[name]
    with tempfile.TemporaryDirectory(prefix="headrace-nexmark-") as directory:
        home = Path(directory)
        if side == HEADRACE:
            writer = _flow(auctions, spark, query).writeStream.outputMode("update")
        else:
            writer = _native(auctions, spark, query).writeStream.outputMode(query.mode)
        if side in checked:
            return _run(writer.format("noop"), home, auctions, query)
        results = home / "results"
        found = _run(writer.foreachBatch(partial(_write_down, results)), home, auctions, query)
        compare(name, _told(results, query, auctions.end), auctions.events, side)
        checked.add(side)
        return found


def _flow(auctions: Auctions, spark: SparkSession, query: Query) -> DataFrame:
    settings = Settings(kafka=KafkaSettings(bootstrap=auctions.server.bootstrap))
    flow = Flow("nexmark", settings=settings, spark=spark)
    return query.flow({kind: _stream(auctions, flow, kind) for kind in query.reads}).df


def _stream(auctions: Auctions, flow: Flow, kind: str) -> Stream:
    if kind == SIDE:
        return flow.stream(auctions.topic(kind), SCHEMAS[kind])
    return flow.stream(
        auctions.topic(kind),
        SCHEMAS[kind],
        time="at",
        watermark=Watermark(out_of_order=WAIT),
        max_records_per_batch=auctions.batch(kind),
    )


def _native(auctions: Auctions, spark: SparkSession, query: Query) -> DataFrame:
    return query.native({kind: _read(auctions, spark, kind) for kind in query.reads})


def _read(auctions: Auctions, spark: SparkSession, kind: str) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": auctions.server.bootstrap,
        "subscribe": auctions.topic(kind),
        "startingOffsets": "earliest",
    }
    if kind == SIDE:
        records = spark.read.format("kafka").options(**options).load()
    else:
        limited = {**options, "maxOffsetsPerTrigger": str(auctions.batch(kind))}
        records = spark.readStream.format("kafka").options(**limited).load()
    value = F.from_json(F.col("value").cast("string"), SCHEMAS[kind])
    return records.select(value.alias("row")).select("row.*")


def _run(writer: DataStreamWriter, home: Path, auctions: Auctions, query: Query) -> Figures:
    """Run a query over all that there is; batches count after the first one that is not small."""
    checkpoint = str(home / "checkpoint")
    started = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    started.awaitTermination()
    batches = [each for each in started.recentProgress if "addBatch" in each["durationMs"]]
    read = [each["numInputRows"] for each in batches]
    if sum(read) > _READ_TWICE * auctions.records(query.reads):
        raise NothingMeasured(f"{sum(read)} records were read, which is more than there are")
    first = next(number for number, rows in enumerate(read) if rows >= max(read) / 2)
    later = batches[first + 1 :]
    if not sum(read[first + 1 :]):
        raise NothingMeasured("all records were read in one batch, which does not count")
    took = sum(each["durationMs"]["triggerExecution"] for each in later)
    return {_RATE: sum(read[first + 1 :]) / took * 1000}


def _write_down(path: Path, rows: DataFrame, number: int) -> None:
    rows.withColumn(_BATCH, F.lit(number)).write.mode("append").parquet(str(path))


def _told(path: Path, query: Query, end: datetime) -> pl.DataFrame:
    """What a query says in the end, without what only let windows close."""
    told = without_zones(pl.read_parquet(path / "*.parquet"))
    if query.key:
        told = told.sort(_BATCH).unique(query.key, keep="last")
    if "_deleted" in told.columns:
        told = told.filter(~pl.col("_deleted"))
    if query.told is not None:
        return answer(query.told, {"told": told})
    for time in {"at", "window_start"} & set(told.columns):
        told = told.filter(pl.col(time) < end)
    return told


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
    if "at" not in rows:
        return
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
