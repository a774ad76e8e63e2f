"""Which rows of two frames meet: those with equal keys, close enough to each other in time.

Keys are compared by the 128-bit hashes that identify them in the state, too, so that no column is
compared value by value. A key with a null in it equals none, as in SQL.

The rows that are asked for are sorted by key and time once, and each asking row finds its partners
there as one stretch. So the costs follow the rows and the pairs that are found, however many rows
have the same key.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from headrace.streams.joins.kernels import arranged, numbered, stretches
from headrace.streams.state.hashing import KEYS, ROWS, hashes
from headrace.streams.state.kernels import spread
from headrace.streams.windows.groups import read_only

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s, UInt64s

NEVER: Final = np.iinfo(np.int64).max
"""A time that does not come."""

_ALWAYS: Final = 1 << 62
"""Longer than the time before any event in which something can be found."""

_PAIRS_AT_A_TIME: Final = 1 << 20
"""About how many pairs are handed over at once."""


@dataclass(frozen=True, slots=True)
class Points:
    """Rows as they are matched: what identifies their keys, and their times in microseconds."""

    keys: "UInt64s"
    rows: "UInt64s"
    times: "Int64s"
    positions: "Int64s"
    """Where each is in its frame, from which those are left out that equal nothing."""

    @classmethod
    def of(cls, frame: pl.DataFrame, key: Sequence[str], times: "Int64s | None" = None) -> "Points":
        """The rows of a frame that have no null in their key; without times, all at the same."""
        positions = np.arange(frame.height)
        columns = [frame.get_column(name) for name in key]
        if (whole := without_nulls(columns)) is not None:
            positions = positions[whole]
            columns = [each.filter(whole) for each in columns]
        arrow = pl.DataFrame(columns).to_arrow(compat_level=pl.CompatLevel.oldest())
        found = [hashes(arrow.columns, seed, len(positions)) for seed in (KEYS, ROWS)]
        chosen = np.zeros(len(positions), np.int64) if times is None else times[positions]
        return cls(found[0], found[1], chosen, positions)

    def below(self, height: int) -> "Points":
        """The same rows, in a frame that is put below one of this height."""
        return replace(self, positions=self.positions + height)

    def joined(self, others: "Points") -> "Points":
        """These rows and others of the same frame."""
        return Points(
            np.concatenate([self.keys, others.keys]),
            np.concatenate([self.rows, others.rows]),
            np.concatenate([self.times, others.times]),
            np.concatenate([self.positions, others.positions]),
        )

    def distinct(self) -> "Int64s":
        """Where a row of each key is."""
        numbers, count = _numbered(self)
        found = np.empty(count, np.int64)
        found[numbers] = self.positions
        return found

    def __len__(self) -> int:
        return len(self.positions)


def pairs(
    asking: Points, asked: Points, back: int, reach: int
) -> "Iterator[tuple[Int64s, Int64s]]":
    """Positions of rows that meet, in the order of those that ask, their partners by time.

    A row asks for those from `back` before its time to `reach` after it. What is found comes in
    parts, so that a condition can thin out many pairs before there are all of them.
    """
    begins, ends, order = _found(asking, asked, back, reach)
    sizes = np.cumsum(ends - begins)
    if not len(sizes) or not sizes[-1]:
        return
    cuts = np.arange(_PAIRS_AT_A_TIME, int(sizes[-1]), _PAIRS_AT_A_TIME)
    stops = np.unique([0, *np.searchsorted(sizes, cuts), len(sizes)])
    for low, high in pairwise(stops):
        places, rows = spread(begins[low:high], ends[low:high])
        yield asking.positions[low + rows], asked.positions[order[places]]


def only(asking: Points, asked: Points) -> "Int64s":
    """For every row that asks, where the one with its key is, whatever its time; -1 for none.

    Of the rows that are asked for, no two may have the same key.
    """
    numbers, count = _numbered(asking, asked)
    places = np.full(count, -1, np.int64)
    places[numbers[len(asking) :]] = asked.positions
    found: Int64s = places[numbers[: len(asking)]]
    return found


def latest(asking: Points, asked: Points) -> "Int64s":
    """For every row that asks, where the last one is that is not later than it; -1 for none."""
    begins, ends, order = _found(asking, asked, _ALWAYS, 0)
    found = np.full(len(asking), -1, np.int64)
    there = begins < ends
    found[there] = asked.positions[order[ends[there] - 1]]
    return found


def following(points: Points) -> "Int64s":
    """For every row the time of the next one with its key; `NEVER` if it is the last."""
    numbers, count = _numbered(points)
    order, _ = _arranged(points, numbers, count)
    times, same = points.times[order], np.diff(numbers[order]) == 0
    found = np.full(len(points), NEVER, np.int64)
    found[order[:-1][same]] = times[1:][same]
    return found


def _found(asking: Points, asked: Points, back: int, reach: int) -> "tuple[Int64s, Int64s, Int64s]":
    numbers, count = _numbered(asking, asked)
    order, starts = _arranged(asked, numbers[len(asking) :], count)
    begins, ends = stretches(
        read_only(numbers[: len(asking)]),
        read_only(asking.times),
        read_only(starts),
        read_only(asked.times[order]),
        back,
        reach,
    )
    return begins, ends, order


def _numbered(*points: Points) -> "tuple[Int64s, int]":
    """The numbers of the keys of one frame after the other, and how many there are."""
    keys = np.concatenate([each.keys for each in points])
    return numbered(read_only(keys), read_only(np.concatenate([each.rows for each in points])))


def _arranged(points: Points, numbers: "Int64s", count: int) -> "tuple[Int64s, Int64s]":
    """The order of rows by key and time, and where each key begins in it."""
    by_time = np.argsort(points.times, kind="stable")
    return arranged(read_only(numbers), read_only(by_time), count)


def without_nulls(columns: Sequence[pl.Series]) -> Any:
    """Which rows have a value in each of these columns, as an array; None if all of them do."""
    nullable = [each for each in columns if each.null_count()]
    if not nullable:
        return None
    return np.logical_and.reduce([each.is_not_null().to_numpy() for each in nullable])


def microseconds(times: pl.Series) -> "Int64s":
    """A column of timestamps or of microseconds as numbers, 0 for null."""
    found: Int64s = times.to_physical().cast(pl.Int64).fill_null(0).to_numpy()
    return found
