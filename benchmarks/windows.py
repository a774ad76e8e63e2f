"""Windows beside Spark's own: a count and a sum per key and minute, `make bench NAME=windows`.

Every batch is a minute of event time, and one event in ten is up to ten seconds late, which all
sides wait for. They say each result once, when the watermark has passed the window: Headrace's
operator, Spark's aggregation in append mode, and a Python `transformWithState` with a map of
windows and a timer for each key.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks import report
from benchmarks.batches import Batches, batches, keys_of, rate, session
from benchmarks.command import Options, command
from benchmarks.event_time import DELAY, MOMENT, LatestTime, times_of
from benchmarks.experiment import Experiment, Figures, run
from benchmarks.report import Better
from headrace.streams.state.keyed import Input, keyed
from headrace.streams.windows import tumbling
from headrace.streams.windows.aggregates.sums import Count, Sum
from headrace.streams.windows.layout import INPUT
from headrace.streams.windows.measures import Call
from headrace.streams.windows.operators import window_operator

HEADRACE = "Headrace"
PER_KEY = "transformWithState"
NATIVE = "Spark's aggregation"

_RATE = "rows_per_second"
_SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("at", MOMENT)])


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    rounds: int
    keys: tuple[int, ...]
    rows: int
    batches: int


FULL = Scale(3, (10_000, 100_000, 1_000_000), 1_000_000, 5)
QUICK = Scale(1, (10_000,), 50_000, 4)

_TARGETS: Mapping[tuple[str, int], float] = {
    (NATIVE, 100_000): 0.8,
    (NATIVE, 1_000_000): 2.0,
    (PER_KEY, 100_000): 20.0,
}


class WindowsByRow(StatefulProcessor):
    """The same, a key at a time: a map of windows, and timers that tell them."""

    def init(self, handle: Any) -> None:
        """Called once per task."""
        self._handle = handle
        self._windows = handle.getMapState("windows", "start bigint", "n bigint, total bigint")

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[Row], timer_values: Any
    ) -> Iterator[Row]:
        """Called once per key."""
        found: dict[int, list[int]] = {}
        for row in rows:
            start = int(row.at.timestamp()) // 60 * 60
            sums = found.setdefault(start, [0, 0])
            sums[0] += 1
            sums[1] += row.v
        for start, (n, total) in found.items():
            before = self._windows.getValue((start,))
            if before is None:
                self._handle.registerTimer((start + 60) * 1000)
                before = (0, 0)
            self._windows.updateValue((start,), (before[0] + n, before[1] + total))
        return iter(())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """Called once per window that is over."""
        start = expiredTimerInfo.getExpiryTimeInMs() // 1000 - 60
        n, total = self._windows.getValue((start,))
        self._windows.removeKey((start,))
        yield Row(k=key[0], start=start, n=n, total=total)

    def close(self) -> None:
        """Nothing is held."""


def experiments(spark: SparkSession, scale: Scale) -> list[Experiment]:
    """Rates by number of keys, against each of the others."""
    found = [_rates(spark, scale, keys, NATIVE, "native", scale.rounds) for keys in scale.keys]
    # A million calls into Python take a quarter of an hour, so the third size is left out.
    found += [_rates(spark, scale, keys, PER_KEY, "tws", 1) for keys in scale.keys[:2]]
    return found


def main() -> None:
    """Run the benchmark from the command line."""
    options = Options.parse("Windows beside Spark's own.")
    with command(), session() as spark:
        run("windows", experiments(spark, QUICK if options.quick else FULL), options)


def _rates(
    spark: SparkSession, scale: Scale, keys: int, peer: str, short: str, rounds: int
) -> Experiment:
    metric = f"windows_{short}_{keys}_keys"
    target = _TARGETS.get((peer, keys))
    row = report.Row(metric, "rows/s", Better.HIGHER, _RATE, HEADRACE, peer, target)
    # What takes minutes for a batch gets three: one to begin with, two that count.
    counts = {HEADRACE: scale.batches, peer: 3 if peer == PER_KEY else scale.batches}
    sides = {
        side: partial(_windows, spark, side, keys, scale.rows, count)
        for side, count in counts.items()
    }
    return Experiment(metric, sides, (row,), rounds, warm_up=0 if rounds == 1 else 1)


def _windows(spark: SparkSession, side: str, keys: int, rows: int, count: int) -> Figures:
    with batches() as files:
        _fill(files, keys, rows, count)
        mode = "append" if side == NATIVE else "update"
        took = files.run(_windowed(files.stream(spark), side), mode)
    return {_RATE: rate(rows, took)}


def _fill(files: Batches, keys: int, rows: int, count: int) -> None:
    chance = np.random.default_rng(7)
    for number in range(count):
        at = times_of(number, rows, chance)
        values = pa.array(chance.integers(0, 1000, rows))
        files.write(pa.Table.from_arrays([keys_of(number, rows, keys), values, at], schema=_SCHEMA))


def _windowed(rows: DataFrame, side: str) -> DataFrame:
    if side == HEADRACE:
        calls = {"n": Call(Count()), "total": Call(Sum(), ("v",))}
        operator = window_operator(
            "window",
            tumbling("1 minute"),
            by=("k",),
            aggregates=calls,
            time="at",
            input_schema=_SCHEMA,
        )
        inputs = {INPUT: Input(rows, ("k",))}
        return keyed(inputs, operator, flow="benchmark", watermark=LatestTime()).output("main")
    timed = rows.withWatermark("at", DELAY)
    if side == NATIVE:
        return timed.groupBy(F.window("at", "1 minute"), "k").agg(F.count("*"), F.sum("v"))
    schema = "k bigint, start bigint, n bigint, total bigint"
    return timed.groupBy("k").transformWithState(WindowsByRow(), schema, "update", "EventTime")


if __name__ == "__main__":
    main()
