"""Event time of the rows that are measured: when it begins, and how far it has come."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import polars as pl

SECOND = 1_000_000
MINUTE = 60 * SECOND
BEGIN = 1_767_225_600 * SECOND
"""2026-01-01, in microseconds."""

DELAY = "10 seconds"
"""How late events are at most, as Spark's watermark is told."""

MOMENT = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class LatestTime:
    """A watermark ten seconds behind the latest event, of several inputs behind the slowest."""

    inputs: tuple[str, ...] = ("events",)

    def observe(self, source: str, events: "pl.DataFrame") -> Mapping[str, int]:
        """The latest event of a task."""
        if source not in self.inputs:
            return {}
        latest: Any = events["at"].to_physical().max()
        return {} if latest is None else {source: latest}

    def advance(self, memory: str, bounds: Mapping[str, int]) -> tuple[str, int | None]:
        """Remember the latest event of each input."""
        latest: dict[str, int] = json.loads(memory or "{}")
        latest |= {each: max(latest.get(each, 0), bounds[each]) for each in bounds}
        told = [latest.get(each) for each in self.inputs]
        known = [each for each in told if each is not None]
        reached = min(known) - 10 * SECOND if len(known) == len(told) else None
        return json.dumps(latest, sort_keys=True), reached


def times_of(number: int, rows: int, chance: np.random.Generator) -> Any:
    """The times of a batch, a minute long: in order, but one in ten is up to ten seconds late."""
    times = np.sort(chance.integers(0, MINUTE, rows))
    late = chance.random(rows) < 0.1
    times[late] -= chance.integers(0, 10 * SECOND, int(late.sum()))
    return pa.array(BEGIN + number * MINUTE + times).cast(MOMENT)
