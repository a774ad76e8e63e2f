"""When runs are merged, and how: a few runs of growing size, each row rewritten a few times.

Runs are in levels, each level four times the size of the one below. When enough of the newest runs
are of one level, they become one run of the level above, with the smaller ones among them. So a row
is written once per level, of which there are few, and a table of ten million rows is rewritten
after millions of changes instead of every few batches. Rows that no longer hold are left behind,
and a run without a row that holds is simply dropped.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.streams.state.runs import Identities, Run

_SMALLEST: Final = 1024
"""Rows of a run of the lowest level, at most."""

_GROWTH: Final = 4
"""How much larger a run of the next level is."""


def to_merge(sizes: Sequence[int], bucket: int) -> int:
    """The first of the newest runs that are to become one; as many as there are for none.

    `sizes` are those of a table's runs, the oldest first. Buckets grow alike, so that all would be
    merged in the same batch; they wait for a different number of runs.

    >>> to_merge([100_000, 10, 10, 10], bucket=0), to_merge([100_000, 10, 10, 10, 10], bucket=0)
    (4, 1)
    """
    levels = [_level(each) for each in sizes]
    first = len(sizes)
    for level in sorted(set(levels)):
        start = len(levels)
        while start and levels[start - 1] <= level:
            start -= 1
        if levels[start:].count(level) >= _GROWTH + (bucket + level) % 3:
            first = start
    return first


def _level(size: int) -> int:
    level = 0
    while size > _SMALLEST:
        size //= _GROWTH
        level += 1
    return level


def merged_parts(runs: Sequence[Run], rows_per_part: int) -> "Iterator[tuple[Identities, Any]]":
    """The rows of runs that hold, sorted, in parts of about that many rows.

    A part has all rows of its keys. Only one part is in memory at a time, so that a table that is
    larger than memory can be merged.
    """
    cuts = _cuts(runs, rows_per_part)
    for low, high in pairwise(cuts):
        pieces: list[tuple[Identities, Any]] = []
        for run in runs:
            keys = run.identities.keys
            begin = 0 if low is None else int(np.searchsorted(keys, low))
            end = len(keys) if high is None else int(np.searchsorted(keys, high))
            positions = begin + np.flatnonzero(run.live[begin:end])
            if len(positions):
                pieces.append((run.identities.at(positions), run.take(positions)))
        if not pieces:
            continue
        identities = Identities.joined([each for each, _ in pieces])
        rows = pa.concat_tables([each for _, each in pieces]).combine_chunks()
        order = identities.order()
        yield identities.at(order), rows.take(pa.array(order))


def merged_tombstones(runs: Sequence[Run], *, oldest: bool) -> Identities:
    """What the merged run deletes from earlier ones; nothing if there are none."""
    if oldest:
        return Identities.none()
    return Identities.joined([each.tombstones for each in runs]).sorted_set()


def _cuts(runs: Sequence[Run], rows_per_part: int) -> "list[np.uint64 | None]":
    """Hashes that divide the rows into parts, between the ends, which are None."""
    total = sum(each.holding for each in runs)
    parts = -(-total // rows_per_part)
    if parts <= 1:
        return [None, None]
    # Hashes are spread evenly, but a key can have many rows: the largest run knows.
    keys = max(runs, key=len).identities.keys
    chosen = np.unique(keys[np.linspace(0, len(keys) - 1, parts + 1).astype(np.int64)[1:-1]])
    return [None, *chosen, None]
