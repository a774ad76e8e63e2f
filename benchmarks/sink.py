"""Writing a batch to a topic beside Spark's own Kafka connector: `make bench NAME=sink`.

The same rows lie in Spark's memory and go to new topics of the same broker, from the same session:
once exactly once, through Headrace's sink, which is a transaction per partition, and once through
Spark's connector, which knows only at least once. What is timed is the whole batch as a streaming
query runs it. Headrace without transactions is measured in the same rounds, which shows what they
cost; so is a small batch, where what counts is how many requests there are.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

from pyspark.sql import DataFrame, SparkSession

from benchmarks import load
from benchmarks.command import Options, command
from benchmarks.experiment import Experiment, Figures, NothingMeasured, run
from benchmarks.peers import Fleet, Server, launch_headrace
from benchmarks.report import Better, Row
from benchmarks.spark import CONNECTOR, session
from headrace.settings import KafkaSettings
from headrace.streams.sinks.applying import apply, partitions_of, written
from headrace.streams.sinks.contract import Batch
from headrace.streams.sinks.topic import Delivery, TopicSink

EXACTLY_ONCE = "Headrace, exactly once"
AT_LEAST_ONCE = "Headrace, at least once"

_PARTITIONS = 4
_VALUE_BYTES = 200
_SMALL_BATCH = 100
_RATE = "records_per_second"
_SECONDS = "batch_ms"

Write = Callable[[Server, DataFrame, str], None]
"""Writes rows to a topic, as one batch."""

_batches = count()


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    rounds: int
    records: int
    small_batches: int


FULL = Scale(rounds=5, records=2_000_000, small_batches=20)
QUICK = Scale(rounds=2, records=200_000, small_batches=5)


def experiments(fleet: Fleet, spark: SparkSession, scale: Scale) -> list[Experiment]:
    """A large batch and small ones."""
    writes: dict[str, Write] = {
        EXACTLY_ONCE: partial(_write, Delivery.EXACTLY_ONCE),
        CONNECTOR: _write_by_connector,
        AT_LEAST_ONCE: partial(_write, Delivery.AT_LEAST_ONCE),
    }
    large, small = (_rows(spark, number) for number in (scale.records, _SMALL_BATCH))
    rate = Row("sink_exactly_once", "records/s", Better.HIGHER, _RATE, EXACTLY_ONCE, CONNECTOR, 0.7)
    batch = Row("sink_small_batch", "ms", Better.LOWER, _SECONDS, EXACTLY_ONCE, CONNECTOR)
    return [
        Experiment(
            "large batch",
            {
                side: partial(_measure_rate, fleet, large, scale.records, write)
                for side, write in writes.items()
            },
            (rate, replace(rate, metric="sink_at_least_once", headrace=AT_LEAST_ONCE, target=None)),
            rounds=scale.rounds,
        ),
        Experiment(
            "small batch",
            {
                side: partial(_measure_small, fleet, small, scale.small_batches, write)
                for side, write in writes.items()
            },
            (
                batch,
                replace(batch, metric="sink_small_at_least_once", headrace=AT_LEAST_ONCE),
            ),
            rounds=scale.rounds,
        ),
    ]


def main() -> None:
    """Run the benchmark from the command line."""
    options = Options.parse("Headrace's exactly-once sink beside Spark's at-least-once one.")
    with command(), Fleet() as fleet, session() as spark:
        run("sink", experiments(fleet, spark, QUICK if options.quick else FULL), options)


def _rows(spark: SparkSession, number: int) -> DataFrame:
    """Keys and values in Spark's memory, where reading them costs both sides the same."""
    rows = spark.range(0, number, 1, _PARTITIONS).selectExpr(
        "cast(cast(id as string) as binary) key",
        f"cast(rpad(cast(id as string), {_VALUE_BYTES}, 'x') as binary) value",
    )
    rows.persist().count()
    return rows


def _measure_rate(fleet: Fleet, rows: DataFrame, number: int, write: Write) -> Figures:
    server = fleet.server(launch_headrace)
    with load.fresh_topic(server, partitions=_PARTITIONS) as topic:
        began = time.monotonic()
        write(server, rows, topic)
        return {_RATE: number / (time.monotonic() - began)}


def _measure_small(fleet: Fleet, rows: DataFrame, batches: int, write: Write) -> Figures:
    server = fleet.server(launch_headrace)
    with load.fresh_topic(server, partitions=_PARTITIONS) as topic:
        began = time.monotonic()
        for _ in range(batches):
            write(server, rows, topic)
        return {_SECONDS: 1000 * (time.monotonic() - began) / batches}


def _write(delivery: Delivery, server: Server, rows: DataFrame, topic: str) -> None:
    sink = TopicSink(KafkaSettings(bootstrap=server.bootstrap), topic, delivery=delivery)
    batch = Batch(topic, next(_batches), partitions_of(rows))
    if apply(sink, batch, written(rows, sink)).repeated:
        raise NothingMeasured("a batch that was new has been found in the output")


def _write_by_connector(server: Server, rows: DataFrame, topic: str) -> None:
    options = {"kafka.bootstrap.servers": server.bootstrap, "topic": topic}
    rows.write.format("kafka").options(**options).save()


if __name__ == "__main__":
    main()
