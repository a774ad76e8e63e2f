"""Rows that belong together, as aggregates see them: sorted by group, each group a stretch.

The groups are found by the same 128-bit hashes that identify rows of state, so that no column is
compared value by value. Within a group rows keep their order, and the order of the groups is that
of their hashes: both are the same whenever the same rows come again.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from headrace.streams.state.hashing import KEYS, ROWS, hashes, order_of

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s, UInt64s


class Groups:
    """Which rows belong together.

    Every group has at least one row. Aggregates are given columns whose rows are in the groups'
    order already: group g has the rows from `starts[g]` up to the start of the next one.
    """

    def __init__(self, order: "Int64s | None", starts: "Int64s", rows: int) -> None:
        """Take the order that puts rows into groups, None if they are; and where each begins."""
        self.order = order
        self.starts: Int64s = read_only(starts)
        self.rows = rows

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def sizes(self) -> "Int64s":
        """How many rows each group has."""
        sizes: Int64s = np.diff(self.starts, append=self.rows)
        return sizes

    @cached_property
    def numbers(self) -> "Int64s":
        """The number of the group of each row."""
        return np.repeat(np.arange(len(self.starts)), self.sizes)

    @cached_property
    def ends(self) -> "Int64s":
        """One past the last row of each group."""
        ends: Int64s = read_only(self.starts + self.sizes)
        return ends

    def arranged(self, column: pl.Series) -> pl.Series:
        """A column of the rows as they came, in the order of the groups."""
        return column if self.order is None else column.gather(self.order)

    def first(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The first row of every group, of rows as they came."""
        rows = self.starts if self.order is None else self.order[self.starts]
        return frame[rows]

    def within(self, mask: Any) -> "tuple[Groups, Int64s]":
        """The groups that some rows, in the groups' order, form, and which groups have any."""
        chosen = np.add.reduceat(mask, self.starts, dtype=np.int64) if len(self) else self.starts
        present = np.flatnonzero(chosen)
        ends = np.cumsum(chosen[present])
        return Groups(None, ends - chosen[present], int(ends[-1]) if len(ends) else 0), present

    def combined(self, columns: Sequence[pl.Series], *expressions: pl.Expr) -> list[pl.Series]:
        """Polars aggregations over the groups; the columns, in their order, are named 0, 1, ..."""
        number = pl.Series("group", self.numbers).set_sorted()
        frame = pl.DataFrame([number, *(each.alias(str(at)) for at, each in enumerate(columns))])
        found = frame.group_by("group", maintain_order=True).agg(
            *(each.alias(f"_{at}") for at, each in enumerate(expressions))
        )
        return found.get_columns()[1:]


def grouped(frame: pl.DataFrame, columns: Sequence[str]) -> Groups:
    """The groups of rows that have the same values in these columns; nulls are the same."""
    rows = frame.height
    if not rows:
        return Groups(None, np.empty(0, np.int64), 0)
    arrays = frame.select(columns).to_arrow(compat_level=pl.CompatLevel.oldest()).columns
    first = hashes(arrays, KEYS, rows)
    second = hashes(arrays, ROWS, rows)
    order = order_of(first, second)
    begins = _changes(first[order]) | _changes(second[order])
    return Groups(order, np.flatnonzero(begins), rows)


def read_only(values: Any) -> Any:
    """The array as one that is only read: kernels are compiled anew for one that is not."""
    view = values.view()
    view.flags.writeable = False
    return view


def _changes(values: "UInt64s") -> Any:
    """Which values differ from the one before; the first one does."""
    changes = np.ones(len(values), np.bool_)
    changes[1:] = values[1:] != values[:-1]
    return changes
