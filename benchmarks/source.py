"""Reading topics into Spark beside Spark's own Kafka connector: `make bench NAME=source`.

The same JSON records, from the same broker into the same session, to the same aggregate: once
through Headrace's source, which gives typed columns, and once through the connector with
`from_json`. A topic with a single partition is measured too, since much of what is read in practice
is one.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks import load
from benchmarks.command import Options, command
from benchmarks.experiment import Experiment, Figures, NothingMeasured, run
from benchmarks.peers import HEADRACE, Fleet, Server, launch_headrace
from benchmarks.report import Better, Row
from benchmarks.spark import CONNECTOR, session
from headrace.streams.source import register

_SCHEMA = "id bigint, country string, amount double, at timestamp, note string"
_RECORD_BYTES = 200
_COUNTRIES = 50
_FLUSH_EVERY = 50_000
_RATE = "records_per_second"

Read = Callable[[SparkSession, Server, str], DataFrame]
"""The records of a topic as typed columns."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    rounds: int
    records: int


FULL = Scale(rounds=5, records=5_000_000)
QUICK = Scale(rounds=2, records=400_000)


def experiments(fleet: Fleet, spark: SparkSession, scale: Scale) -> list[Experiment]:
    """Four partitions and one."""
    return [
        _experiment(fleet, spark, scale, "source_json_4_partitions", 4, 3.0),
        _experiment(fleet, spark, scale, "source_json_1_partition", 1, None),
    ]


def main() -> None:
    """Run the benchmark from the command line."""
    options = Options.parse("Headrace's source beside Spark's own Kafka connector.")
    with command(), Fleet() as fleet, session() as spark:
        register(spark)
        run("source", experiments(fleet, spark, QUICK if options.quick else FULL), options)


def _experiment(
    fleet: Fleet,
    spark: SparkSession,
    scale: Scale,
    metric: str,
    partitions: int,
    target: float | None,
) -> Experiment:
    topics: list[str] = []

    def measure(read: Read) -> Figures:
        server = fleet.server(launch_headrace)
        if not topics:
            topics.append(_fill(server, partitions, scale.records))
        began = time.monotonic()
        _aggregate(read(spark, server, topics[0]), scale.records)
        return {_RATE: scale.records / (time.monotonic() - began)}

    return Experiment(
        metric,
        {HEADRACE: partial(measure, _read), CONNECTOR: partial(measure, _read_by_connector)},
        (Row(metric, "records/s", Better.HIGHER, _RATE, HEADRACE, CONNECTOR, target),),
        rounds=scale.rounds,
    )


def _fill(server: Server, partitions: int, records: int) -> str:
    topic = load.create_topic(server, partitions=partitions)
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "linger.ms": 20,
            "queue.buffering.max.messages": 2 * _FLUSH_EVERY,
        }
    )
    for number in range(records):
        producer.produce(topic, _record(number), partition=number % partitions)
        if number % _FLUSH_EVERY == 0:
            producer.flush()
    producer.flush()
    return topic


def _record(number: int) -> bytes:
    record = {
        "id": number,
        "country": f"country-{number % _COUNTRIES}",
        "amount": number % 10_000 / 100,
        "at": f"2026-03-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000Z",
        "note": "",
    }
    record["note"] = "x" * (_RECORD_BYTES - len(json.dumps(record)))
    return json.dumps(record).encode()


def _aggregate(rows: DataFrame, records: int) -> None:
    found = (
        rows.groupBy("country")
        .agg(F.count("id").alias("n"), F.sum("amount"), F.max("at"), F.max(F.length("note")))
        .collect()
    )
    if (read := sum(row.n for row in found)) != records:
        raise NothingMeasured(f"{read} records were read where there are {records}")


def _read(spark: SparkSession, server: Server, topic: str) -> DataFrame:
    options = {
        "bootstrap": server.bootstrap,
        "topics": topic,
        "format": "json",
        "schema": _SCHEMA,
    }
    return spark.read.format("headrace").options(**options).load()


def _read_by_connector(spark: SparkSession, server: Server, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": server.bootstrap, "subscribe": topic}
    records = spark.read.format("kafka").options(**options).load()
    value = F.from_json(F.col("value").cast("string"), _SCHEMA)
    return records.select(value.alias("row")).select("row.*")


if __name__ == "__main__":
    main()
