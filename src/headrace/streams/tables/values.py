"""The values that the rows of a group have, and how often: for what cannot be subtracted.

A greatest value that goes leaves the second greatest behind, which has to be known. So the distinct
values of a group are kept, with the number of rows that have them.
"""

from dataclasses import dataclass
from typing import Any, Final

import polars as pl
import pyarrow as pa

from headrace.streams.state.operator import Kept, State
from headrace.streams.tables.finding import found

SIGN: Final = "_sign"
"""The column that is 1 in rows that are added, and -1 in those that are taken away."""

COUNT: Final = "_count"
"""The column that says how many rows have a value."""

_BEFORE: Final = "_before"


@dataclass(frozen=True, slots=True)
class Turned:
    """Values of groups that a batch has brought or taken: the group and the value."""

    appeared: pl.DataFrame
    vanished: pl.DataFrame


@dataclass(frozen=True)
class Values:
    """The distinct values of one or two arguments, by group."""

    name: str
    """That of the table that they are kept in."""

    arguments: tuple[str, ...]
    types: tuple[Any, ...]
    group: tuple[Any, ...]
    """The Arrow fields of the group."""

    @property
    def keys(self) -> list[str]:
        """The columns of the group."""
        return [each.name for each in self.group]

    @property
    def columns(self) -> list[str]:
        """The columns of the value."""
        return [f"_value_{number}" for number in range(len(self.types))]

    @property
    def identity(self) -> list[str]:
        """The columns of the group and of the value."""
        return [*self.keys, *self.columns]

    @property
    def kept(self) -> Kept:
        """Group, value and number of rows."""
        values = map(pa.field, self.columns, self.types)
        schema = pa.schema([*self.group, *values, pa.field(COUNT, pa.int64())])
        return Kept(schema, tuple(self.keys), tuple(self.columns))

    def turn(self, state: State, rows: pl.DataFrame) -> Turned:
        """Count the values of rows that come and go; null is none."""
        named = zip(self.arguments, self.columns, strict=True)
        values = [pl.col(each).alias(name) for each, name in named]
        net = (
            rows.select(*self.keys, *values, SIGN)
            .drop_nulls(self.columns)
            .group_by(self.identity, maintain_order=True)
            .agg(pl.col(SIGN).sum())
            .filter(pl.col(SIGN) != 0)
        )
        table = state[self.name]
        held = found(table, net).rename({COUNT: _BEFORE})
        counts = net.join(
            held, on=self.identity, how="left", nulls_equal=True, maintain_order="left"
        ).with_columns(pl.col(_BEFORE).fill_null(0))
        counts = counts.with_columns((pl.col(_BEFORE) + pl.col(SIGN)).alias(COUNT))
        was, there = pl.col(_BEFORE) > 0, pl.col(COUNT) > 0
        table.delete(counts.filter(~there))
        table.upsert(counts.filter(there))
        return Turned(
            counts.filter(there & ~was).select(self.identity),
            counts.filter(was & ~there).select(self.identity),
        )
