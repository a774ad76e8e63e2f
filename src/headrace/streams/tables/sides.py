"""One side of a join of tables: its changes, its rows by join value, and how many there are."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import polars as pl
import pyarrow as pa

from headrace.streams.errors import InvalidFlow
from headrace.streams.plan import CHANGE, DELETED
from headrace.streams.state.operator import Kept, State
from headrace.streams.tables.changes import (
    Difference,
    difference,
    last_of_each,
    require,
    rows_of,
    there,
    was_and_is,
)
from headrace.streams.tables.finding import found

_COUNT: Final = "_count"


@dataclass(frozen=True)
class TableSide:
    """A table that is joined, as it is described."""

    schema: Any
    """Its Arrow schema."""

    key: tuple[str, ...]
    """The columns that tell its rows apart."""

    on: tuple[str, ...]
    """The columns that have to equal those of the other side; the input is keyed by them."""

    changelog: bool = False
    """Whether the input says what rows were (`_change`), and not only what they are (`_deleted`).
    It has to, if the join is on columns that are not of the key: those can change."""

    @cached_property
    def rows(self) -> Any:
        """The schema of its rows, without marks."""
        return rows_of(self.schema)

    @property
    def single(self) -> bool:
        """Whether there is at most one row for a join value."""
        return set(self.key) <= set(self.on)

    def check(self, operator: str) -> None:
        """Refuse a side that makes no sense, with InvalidFlow."""
        require((*self.key, *self.on), self.rows, operator)
        loose = [each for each in self.on if each not in self.key]
        if loose and not self.changelog:
            raise InvalidFlow(
                f"{operator}: a table is joined on {loose[0]}, which is not of its key "
                f"({', '.join(self.key)}) and so can change; the join has to be told what it was. "
                "Put a Changelog in front of it."
            )


def join_columns(count: int) -> list[str]:
    """The names of so many join columns, the same for both sides, while rows are joined."""
    return [f"_join_{number}" for number in range(count)]


class Side:
    """A side while it is joined."""

    def __init__(
        self, name: str, side: TableSide, names: Mapping[str, str], *, alone: bool, counted: bool
    ) -> None:
        """Take the side, and what those of its columns that the result has are called there.

        `alone` says whether its rows are told without a partner, `counted` whether those of the
        other side are, so that it must be known when the last row of a join value has gone.
        """
        self._name = name
        self._side = side
        self._columns: list[str] = side.rows.names
        self._names = names
        self._alone = alone
        self._counted = counted and not side.single
        self._join = join_columns(len(side.on))
        self._to_join = dict(zip(side.on, self._join, strict=True))
        self._to_on = dict(zip(self._join, side.on, strict=True))
        self._identity = (*side.on, *(each for each in side.key if each not in side.on))

    @property
    def tables(self) -> dict[str, Kept]:
        """The rows by join value; and how many there are, if that is needed and not just one."""
        on = self._side.on
        rows = Kept(self._side.rows, on, self._identity[len(on) :])
        if not self._counted:
            return {self._name: rows}
        fields = [self._side.rows.field(each) for each in on]
        counts = pa.schema([*fields, pa.field(_COUNT, pa.int64())])
        return {self._name: rows, f"{self._name}_counts": Kept(counts, on)}

    def prepared(self, events: pl.DataFrame) -> pl.DataFrame:
        """The changes that can mean something to the result."""
        side = self._side
        chosen = events.select(*self._columns, CHANGE if side.changelog else DELETED)
        if not self._alone:
            # Null equals nothing.
            chosen = chosen.drop_nulls(list(side.on))
        return chosen if side.changelog else last_of_each(chosen, side.key)

    def changed(self, state: State, events: pl.DataFrame) -> Difference:
        """What the batch changes on this side; nothing is written yet."""
        if not events.height:
            nothing = events.select(self._columns)
            return Difference(nothing, nothing, nothing, nothing)
        if self._side.changelog:
            was, now = was_and_is(events, self._columns)
            return difference(was, now, self._identity)
        upserts = last_of_each(events, self._side.key)
        now = there(upserts, self._columns)
        return difference(found(state[self._name], upserts), now, self._identity)

    def values(self, changed: Difference) -> pl.DataFrame:
        """The join values that changes are of, each once."""
        both = pl.concat([each.select(self._joined) for each in (changed.was, changed.now)])
        return both.drop_nulls().unique(maintain_order=True)

    def others(self, state: State, values: pl.DataFrame, changed: Difference) -> pl.DataFrame:
        """The rows of these join values that the batch does not change."""
        rows = state[self._name].lookup(values.rename(self._to_on))
        if not rows.height:
            return rows
        identity = list(self._identity)
        touched = pl.concat([each.select(identity) for each in (changed.was, changed.now)])
        return rows.join(touched, on=identity, how="anti", nulls_equal=True, maintain_order="left")

    def turned(self, state: State, changed: Difference) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The join values that had no row and have some now, and those of which it is reverse."""
        parts = ((changed.was, -1), (changed.now, 1))
        more = pl.concat(
            [
                rows.select(*self._joined, pl.lit(sign, pl.Int64).alias(_COUNT))
                for rows, sign in parts
            ]
        ).drop_nulls()
        more = more.group_by(self._join, maintain_order=True).agg(pl.col(_COUNT).sum())
        more = more.filter(pl.col(_COUNT) != 0)
        if not self._counted:
            before = pl.when(pl.col(_COUNT) < 0).then(1).otherwise(0)
            counts = more.with_columns(before=before, after=pl.col(_COUNT) + before)
        else:
            counts = self._recounted(state, more)
        filled = counts.filter((pl.col("before") == 0) & (pl.col("after") > 0))
        emptied = counts.filter((pl.col("before") > 0) & (pl.col("after") == 0))
        return filled.select(self._join), emptied.select(self._join)

    def write(self, state: State, changed: Difference) -> None:
        """Write what has changed."""
        rows = changed.now
        if self._side.changelog:
            # Rows with null as join value are never looked for again.
            rows = rows.drop_nulls(list(self._side.on))
        state[self._name].delete(changed.deleted)
        state[self._name].upsert(rows)

    def named(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows as they are joined: under the names of the result, with their join values."""
        return rows.select(
            *(pl.col(each).alias(name) for each, name in self._names.items()),
            *self._joined,
        )

    @property
    def _joined(self) -> list[pl.Expr]:
        """The join columns under the names that both sides have them by."""
        return [pl.col(each).alias(name) for each, name in self._to_join.items()]

    def _recounted(self, state: State, more: pl.DataFrame) -> pl.DataFrame:
        """How many rows there were and are for these join values; what is now is written."""
        table = state[f"{self._name}_counts"]
        held = table.lookup(more.rename(self._to_on)).rename(self._to_join)
        counts = more.join(
            held.rename({_COUNT: "before"}), on=self._join, how="left", maintain_order="left"
        ).with_columns(pl.col("before").fill_null(0))
        counts = counts.with_columns(after=pl.col("before") + pl.col(_COUNT))
        written = counts.rename(self._to_on)
        table.delete(written.filter(pl.col("after") == 0))
        table.upsert(
            written.filter(pl.col("after") > 0).with_columns(pl.col("after").alias(_COUNT))
        )
        return counts
