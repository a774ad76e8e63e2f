"""State by key beside Spark's own: a running count per key, `make bench NAME=state`.

The same rows from the same files, counted by Headrace's buckets, by a Python `transformWithState`
and by Spark's aggregation in Java, all three with Spark's RocksDB store. What is reported is the
rate of the batches after the first. And what a batch that touches 10 000 keys takes when ten
million are stored, beside one with a hundred thousand.
"""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks import report
from benchmarks.batches import batches, keys_of, rate, session
from benchmarks.command import Options, command
from benchmarks.experiment import Experiment, Figures, run
from benchmarks.report import Better
from headrace.streams.state import Description, Kept, State
from headrace.streams.state.keyed import Input, keyed

HEADRACE = "Headrace"
PER_KEY = "transformWithState"
NATIVE = "Spark's aggregation"
MANY = "10 M stored"
FEW = "100 k stored"

_RATE = "rows_per_second"
_BATCH = "batch_milliseconds"
_COUNTS = pa.schema([("k", pa.int64()), ("n", pa.int64())])
_AT_ONCE = 2_500_000


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    rounds: int
    keys: tuple[int, ...]
    rows: int
    batches: int
    many: int
    touched_batches: int


FULL = Scale(3, (10_000, 100_000, 1_000_000), 1_000_000, 4, 10_000_000, 12)
QUICK = Scale(1, (10_000,), 50_000, 3, 200_000, 6)


@dataclass(frozen=True)
class Counting:
    """A running count per key."""

    @property
    def description(self) -> Description:
        """One table, one output."""
        return Description("counting", {"counts": Kept(_COUNTS, ("k",))}, {"counts": _COUNTS})

    def prepare(self, source: str, events: pl.DataFrame) -> pl.DataFrame:
        """Count what a task has, as Spark's aggregation does, too."""
        return events.group_by("k", maintain_order=True).agg(n=pl.len().cast(pl.Int64))

    def update(
        self, state: State, events: Mapping[str, pl.DataFrame], watermark: int | None
    ) -> Mapping[str, pl.DataFrame]:
        """Add the new counts to the stored ones."""
        new = events["events"].group_by("k", maintain_order=True).agg(pl.col("n").sum())
        old = state["counts"].lookup(new).rename({"n": "before"})
        counts = new.join(old, on="k", how="left", maintain_order="left").select(
            "k", n=pl.col("n") + pl.col("before").fill_null(0)
        )
        state["counts"].upsert(counts)
        return {"counts": counts}


class CountingByRow(StatefulProcessor):
    """The same, the way Spark's documentation has it."""

    def init(self, handle: Any) -> None:
        """Called once per task."""
        self._count = handle.getValueState("count", "n bigint")

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[Row], timer_values: Any
    ) -> Iterator[Row]:
        """Called once per key."""
        count = (self._count.get() or (0,))[0] + sum(1 for _ in rows)
        self._count.update((count,))
        yield Row(k=key[0], n=count)

    def close(self) -> None:
        """Nothing is held."""


def experiments(spark: SparkSession, scale: Scale) -> list[Experiment]:
    """Rates by number of keys, and batches by size of the state."""
    native = {10_000: None, 100_000: 0.8, 1_000_000: 2.0}
    found = [
        _rates(spark, scale, keys, NATIVE, "native", native[keys], scale.rounds)
        for keys in scale.keys
    ]
    # A million calls into Python take a quarter of an hour, so the third size is left out.
    found += [
        _rates(spark, scale, keys, PER_KEY, "tws", 20.0 if keys == 100_000 else None, 1)
        for keys in scale.keys[:2]
    ]
    row = report.Row(
        "state_batch_10m_stored", "ms", Better.LOWER, _BATCH, headrace=MANY, peer=FEW, target=2.0
    )
    sides = {
        MANY: partial(_touching, spark, scale, scale.many),
        FEW: partial(_touching, spark, scale, 100_000),
    }
    return [*found, Experiment("state_touched", sides, (row,), rounds=1, warm_up=0)]


def main() -> None:
    """Run the benchmark from the command line."""
    options = Options.parse("State by key beside Spark's own.")
    with command(), session() as spark:
        run("state", experiments(spark, QUICK if options.quick else FULL), options)


def _rates(
    spark: SparkSession,
    scale: Scale,
    keys: int,
    peer: str,
    short: str,
    target: float | None,
    rounds: int,
) -> Experiment:
    metric = f"state_{short}_{keys}_keys"
    row = report.Row(metric, "rows/s", Better.HIGHER, _RATE, HEADRACE, peer, target)
    # What takes minutes for a batch gets two: one to begin with, one that counts.
    counts = {HEADRACE: scale.batches, peer: 2 if peer == PER_KEY else scale.batches}
    sides = {
        side: partial(_counting, spark, side, keys, scale.rows, count)
        for side, count in counts.items()
    }
    return Experiment(metric, sides, (row,), rounds, warm_up=0 if rounds == 1 else 1)


def _counting(spark: SparkSession, side: str, keys: int, rows: int, count: int) -> Figures:
    with batches() as files:
        for number in range(count):
            files.write(pa.table({"k": keys_of(number, rows, keys)}))
        took = files.run(_counted(files.stream(spark), side))
    return {_RATE: rate(rows, took)}


def _touching(spark: SparkSession, scale: Scale, stored: int) -> Figures:
    chance = np.random.default_rng(7)
    with batches() as files:
        parts = np.array_split(np.arange(stored, dtype=np.int64), -(-stored // _AT_ONCE))
        touched = [chance.integers(0, stored, 10_000) for _ in range(scale.touched_batches)]
        for each in (*parts, *touched):
            files.write(pa.table({"k": each}))
        took = files.run(_counted(files.stream(spark), HEADRACE))
    # The first few after a load find other workers, which read the state for the first time.
    return {_BATCH: statistics.median(took[len(parts) + 2 :])}


def _counted(rows: DataFrame, side: str) -> DataFrame:
    if side == NATIVE:
        return rows.groupBy("k").count()
    if side == PER_KEY:
        return rows.groupBy("k").transformWithState(
            CountingByRow(), "k bigint, n bigint", "update", "None"
        )
    inputs = {"events": Input(rows, ("k",))}
    return keyed(inputs, Counting(), flow="benchmark").output("counts")


if __name__ == "__main__":
    main()
