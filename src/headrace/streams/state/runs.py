"""A run: rows of a table in the order of their hashes, and which of them still hold.

State is a list of runs, the oldest first. A run's rows never change. A later run supersedes rows of
earlier ones, by a row with the same identity or by a tombstone, and the decoded runs carry a mark
for that: each row that holds is in exactly one run, and not marked.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.streams.state.hashing import KEYS, ROWS, hashes, order_of
from headrace.streams.state.kernels import find_pairs, spread
from headrace.streams.state.operator import Kept

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s, UInt64s

_NEVER = np.iinfo(np.int64).max
"""The time of rows that have none."""


class Identities:
    """The identities of rows, 128 bits each, sorted."""

    __slots__ = ("keys", "rows")

    def __init__(self, keys: "UInt64s", rows: "UInt64s") -> None:
        self.keys = keys.view()
        self.rows = rows.view()
        # Kernels are compiled anew for arrays that can be written to.
        self.keys.flags.writeable = self.rows.flags.writeable = False

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def none(cls) -> "Identities":
        """No identities."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.uint64))

    @classmethod
    def of(cls, rows: Any, kept: Kept) -> "Identities":
        """Those of the rows of an Arrow table, in the order of the rows."""
        first = hashes([rows.column(name) for name in kept.key], KEYS, rows.num_rows)
        second = hashes([rows.column(name) for name in kept.identity], ROWS, rows.num_rows)
        return cls(first, second)

    def order(self) -> "Int64s":
        """The positions of these identities in sorted order; equal ones stay in their order."""
        return order_of(self.keys, self.rows)

    def at(self, positions: "Int64s | npt.NDArray[np.bool_]") -> "Identities":
        """Some of them."""
        return Identities(self.keys[positions], self.rows[positions])

    @classmethod
    def joined(cls, parts: "Sequence[Identities]") -> "Identities":
        """Those of all parts, one part after the other."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.none()
        keys = np.concatenate([each.keys for each in parts])
        return cls(keys, np.concatenate([each.rows for each in parts]))

    def sorted_set(self) -> "Identities":
        """The same identities, sorted and each of them once."""
        ordered = self.at(self.order())
        return ordered.at(ordered.distinct())

    def distinct(self) -> "npt.NDArray[np.bool_]":
        """Which sorted identities are the last of their kind."""
        last = np.ones(len(self), np.bool_)
        last[:-1] = (self.keys[1:] != self.keys[:-1]) | (self.rows[1:] != self.rows[:-1])
        return last

    def find(self, wanted: "Identities") -> "Int64s":
        """Where each wanted identity is among these, which are sorted; -1 where it is not."""
        return find_pairs(self.keys, self.rows, wanted.keys, wanted.rows)


class Run:
    """Rows of one table, decoded: sorted, searchable, with marks for what no longer holds."""

    __slots__ = (
        "_order",
        "_times",
        "batches",
        "dead",
        "held",
        "identities",
        "kept",
        "live",
        "starts",
        "tombstones",
    )

    def __init__(
        self,
        kept: Kept,
        batches: Sequence[Any],
        identities: Identities | None = None,
        tombstones: Identities | None = None,
        held: Sequence[object] = (),
    ) -> None:
        """Take Arrow record batches whose rows are, one batch after the other, sorted.

        `tombstones` are the identities of rows of earlier runs that this one deletes; `held` is
        what has to live as long as the rows do.
        """
        self.kept = kept
        self.tombstones = tombstones or Identities.none()
        self.held = tuple(held)
        self.batches = [each for each in batches if each.num_rows]
        rows = [each.num_rows for each in self.batches]
        self.starts = np.concatenate(([0], np.cumsum(rows))).astype(np.int64)
        if identities is None:
            identities = Identities.joined([Identities.of(each, kept) for each in self.batches])
        self.identities = identities
        self.live = np.ones(len(self.identities), np.bool_)
        self.dead = 0
        self._times: Int64s | None = None
        self._order: tuple[Int64s, Int64s] | None = None

    def __len__(self) -> int:
        return len(self.identities)

    @property
    def holding(self) -> int:
        """How many rows still hold."""
        return len(self) - self.dead

    def give_way_to(self, later: "Run") -> None:
        """Mark the rows that a later run replaces or deletes."""
        self.supersede(later.identities)
        self.supersede(later.tombstones)

    def supersede(self, identities: Identities) -> int:
        """Mark the rows with these identities; returns how many were not marked yet."""
        if not len(self) or not len(identities):
            return 0
        found = self.identities.find(identities)
        found = found[found >= 0]
        fresh = found[self.live[found]]
        self.live[fresh] = False
        self.dead += len(fresh)
        return len(fresh)

    def of_keys(self, keys: "UInt64s") -> "tuple[Int64s, Int64s]":
        """Positions of holding rows with these key hashes, and the number of the key of each."""
        held = self.identities.keys
        starts = np.searchsorted(held, keys, "left")
        positions, numbers = spread(starts, np.searchsorted(held, keys, "right"))
        holding = self.live[positions]
        return positions[holding], numbers[holding]

    def due(self, until: int) -> "Int64s":
        """Positions of holding rows whose time is not after `until`, without looking at others."""
        times = self.times()
        if self._order is None:
            if not len(times) or int(times.min()) > until:
                return np.empty(0, np.int64)
            order = np.argsort(times, kind="stable")
            self._order = (order, times[order])
        order, ordered = self._order
        end = int(np.searchsorted(ordered, until, "right"))
        holding = self.live[order[:end]]
        found = order[:end][holding]
        if len(found) < end:
            # What has been dealt with is not looked at again: the rest moves up to the others.
            begin = end - len(found)
            ordered[begin:end] = ordered[:end][holding]
            order[begin:end] = found
            self._order = (order[begin:], ordered[begin:])
        return found

    def times(self) -> "Int64s":
        """The time of every row, in microseconds."""
        if self._times is None:
            assert self.kept.time is not None
            columns = [each.column(self.kept.time) for each in self.batches]
            self._times = np.concatenate([_microseconds(each) for each in columns] or [_NO_TIMES])
        return self._times

    def take(self, positions: "Int64s") -> Any:
        """The rows at these positions as an Arrow table; ascending positions are the fastest."""
        schema = self.kept.schema
        if len(self.batches) == 1:
            taken = self.batches[0].take(pa.array(positions))
            return pa.Table.from_batches([taken], schema)
        order = np.argsort(positions, kind="stable")
        ascending = positions[order]
        cuts = np.searchsorted(ascending, self.starts)
        parts = [
            batch.take(pa.array(ascending[low:high] - start))
            for batch, start, low, high in zip(
                self.batches, self.starts[:-1], cuts[:-1], cuts[1:], strict=True
            )
            if low < high
        ]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pa.Table.from_batches(parts, schema).take(pa.array(back))

    def holding_rows(self) -> Any:
        """All rows that still hold, in order."""
        if not self.dead:
            return pa.Table.from_batches(self.batches, self.kept.schema)
        return self.take(np.flatnonzero(self.live))


_NO_TIMES = np.empty(0, np.int64)


def _microseconds(column: Any) -> "Int64s":
    values = column if pa.types.is_int64(column.type) else column.view(pa.int64())
    filled = values.fill_null(_NEVER) if values.null_count else values
    times: Int64s = filled.to_numpy(zero_copy_only=False)
    return times


def sorted_run(kept: Kept, rows: Any, tombstones: Identities | None = None) -> Run:
    """A run of the rows of an Arrow table in any order; of equal identities the last one counts."""
    identities = Identities.of(rows, kept)
    order = identities.order()
    ordered = identities.at(order)
    last = ordered.distinct()
    if not last.all():
        order, ordered = order[last], ordered.at(last)
    if len(order) != rows.num_rows or (order[1:] < order[:-1]).any():
        rows = rows.take(pa.array(order))
    return Run(kept, rows.combine_chunks().to_batches(), ordered, tombstones)
