"""Ten million events through joins on Spark: does what they keep, and take, end flat?

    python -m benchmarks.soak                        # the join of two streams
    python -m benchmarks.soak --join versions --events 2000000

Keys are bounded, and a batch is a minute of event time. After every batch it notes what the state
holds and the memory of the driver, Java and all workers. It exits with 1 if the last third of the
run has seen more of any of these than the middle third, but for a tenth.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.batches import Batches, batches, keys_of, session
from benchmarks.command import command
from benchmarks.event_time import BEGIN, MINUTE, MOMENT, LatestTime, times_of
from benchmarks.process import memory_bytes
from benchmarks.report import machine
from headrace.streams.joins.sides import Side
from headrace.streams.joins.versions import VersionedLookup
from headrace.streams.joins.within import WithinJoin
from headrace.streams.plan import DELETED
from headrace.streams.state.keyed import Input, Keyed, keyed
from headrace.streams.state.processor import STATISTICS

KEYS: Final = 50_000
SLACK: Final = 1.1
"""How much more the end of a run may have than its middle."""

_EVENTS = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("at", MOMENT)])
_VERSIONS = pa.schema(
    [("k", pa.int64()), ("rate", pa.int64()), ("since", MOMENT), (DELETED, pa.bool_())]
)


@dataclass(frozen=True, slots=True)
class Sample:
    """What there was after a batch."""

    rows: int
    """Of state."""

    bytes: int
    """Of state as it is stored, with what later runs have replaced and no merge has removed yet."""

    memory: int
    """Bytes of all processes."""


@dataclass(frozen=True, slots=True)
class Soak:
    """A join, and what goes through it."""

    fill: Callable[[Batches, int, int], None]
    """Writes so many batches of so many events each."""

    joined: Callable[[Batches, SparkSession], Keyed]


def fill_pairs(files: Batches, count: int, events: int) -> None:
    """Two streams, each with half of the events."""
    chance = np.random.default_rng(7)
    for number in range(count):
        for side in ("left", "right"):
            files.write(_events(number, events // 2, chance), side)


def fill_versions(files: Batches, count: int, events: int) -> None:
    """Events, and a table: at first all of it, then a change for every fifty events."""
    chance = np.random.default_rng(7)
    for number in range(count):
        files.write(_events(number, events, chance))
        some = chance.integers(0, KEYS, events // 50) if number else np.arange(KEYS)
        since = BEGIN + number * MINUTE + np.sort(chance.integers(0, MINUTE, len(some)))
        gone = chance.random(len(some)) < 0.05
        columns = [some, some % 30 + number, pa.array(since).cast(MOMENT), gone]
        files.write(pa.Table.from_arrays([*map(pa.array, columns)], schema=_VERSIONS), "table")


def pairs(files: Batches, spark: SparkSession) -> Keyed:
    """A left join within a minute and a half, which holds two batches and a half of events."""
    side = Side(_EVENTS, ("k",), "at")
    operator = WithinJoin("join", side, side, "left", 0, 3 * MINUTE // 2)
    inputs = {name: Input(files.stream(spark, name), ("k",)) for name in ("left", "right")}
    return keyed(inputs, operator, flow="soak", watermark=LatestTime(("left", "right")))


def versions(files: Batches, spark: SparkSession) -> Keyed:
    """A lookup in the past of a table, which is kept for five minutes."""
    operator = VersionedLookup(
        "lookup",
        Side(_EVENTS, ("k",), "at"),
        _VERSIONS,
        ("k",),
        "since",
        {"k": "k"},
        "at",
        keep=5 * MINUTE,
    )
    inputs = {name: Input(files.stream(spark, name), ("k",)) for name in ("events", "table")}
    return keyed(inputs, operator, flow="soak", watermark=LatestTime())


SOAKS: Final = {"pairs": Soak(fill_pairs, pairs), "versions": Soak(fill_versions, versions)}


def soaked(spark: SparkSession, soak: Soak, count: int, events: int) -> list[Sample]:
    """Run so many batches of so many events, and return what there was after each."""
    samples: list[Sample] = []
    with batches() as files:
        soak.fill(files, count, events)
        joined = soak.joined(files, spark)

        def note(batch: DataFrame, number: int) -> None:
            told = joined.collected([STATISTICS], batch)[STATISTICS]
            if told.num_rows:
                rows, size = (sum(told.column(name).to_pylist()) for name in ("rows", "bytes"))
                samples.append(Sample(rows, size, memory_bytes(os.getpid())))

        files.each(joined.tagged, note)
    return samples


def flat(samples: Sequence[Sample]) -> bool:
    """Whether the last third of a run has no more of anything than the middle third, or little."""
    third = len(samples) // 3
    middle, end = samples[third : 2 * third], samples[2 * third :]
    most = [[max(each) for each in zip(*map(astuple, part), strict=True)] for part in (middle, end)]
    return all(last <= SLACK * before for before, last in zip(*most, strict=True))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Joins that run for long.")
    parser.add_argument("--join", choices=list(SOAKS), default="pairs")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--batches", type=int, default=50)
    given = parser.parse_args()
    with command(), session() as spark:
        print(machine(), flush=True)
        per_batch = given.events // given.batches
        samples = soaked(spark, SOAKS[given.join], given.batches, per_batch)
    print(f"{'events':>12} {'rows of state':>14} {'MB of state':>12} {'MB of memory':>13}")
    for number, each in enumerate(samples, 1):
        if number % max(given.batches // 10, 1) == 0:
            sizes = f"{each.bytes / 1e6:12.1f} {each.memory / 1e6:13.0f}"
            print(f"{number * per_batch:12,} {each.rows:14,} {sizes}")
    if not flat(samples):
        sys.exit("not flat: the end of the run had more than its middle")
    print("flat")


def _events(number: int, count: int, chance: np.random.Generator) -> Any:
    keys, times = keys_of(number, count, KEYS), times_of(number, count, chance)
    return pa.Table.from_arrays([keys, pa.array(np.arange(count)), times], schema=_EVENTS)


if __name__ == "__main__":
    main()
