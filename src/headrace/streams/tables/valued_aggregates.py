"""Aggregates that are read off the values of a group: extremes, distinct counts and lists.

Each notes beside the group what it needs to know to tell its result, so that a change costs itself.
A least or greatest value is noted: a better one that appears takes its place, and only when it
vanishes are all values of the group looked at. A distinct count goes up and down with values that
appear and vanish. Lists and the most frequent values note nothing, and look at all values.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
import pyarrow as pa

from headrace.streams.state.operator import State
from headrace.streams.tables.values import COUNT, Turned, Values
from headrace.streams.windows.aggregates.collecting import (
    CollectList,
    CollectSet,
    CountDistinct,
    TopK,
)
from headrace.streams.windows.aggregates.extremes import Extreme, ExtremeBy
from headrace.streams.windows.aggregates.protocol import Aggregate
from headrace.streams.windows.groups import grouped

_MORE: Final = "_more"


@dataclass(frozen=True)
class Valued(ABC):
    """An aggregate of the values of a group."""

    name: str
    """That of its result."""

    aggregate: Any
    """The one of windows that it is in the place of."""

    values: Values

    @property
    def notes(self) -> Sequence[Any]:
        """The types of the columns that are noted beside the group."""
        return ()

    @property
    def columns(self) -> list[str]:
        """The names of those columns."""
        return [f"{self.name}.{number}" for number in range(len(self.notes))]

    def noted(self, state: State, known: pl.DataFrame, turned: Turned) -> Sequence[pl.Series]:
        """What is to be noted of groups; `known` has what was, nulls if there was nothing.

        In the state the values are those after the batch.
        """
        return ()

    @abstractmethod
    def result(self, state: State, groups: pl.DataFrame) -> pl.Series:
        """What is told of groups, of which `groups` has what is noted."""


class Best(Valued):
    """The least or greatest value, or the one that goes with it."""

    @property
    def notes(self) -> Sequence[Any]:
        """The value, and what it was chosen by."""
        return self.values.types

    def noted(self, state: State, known: pl.DataFrame, turned: Turned) -> Sequence[pl.Series]:
        """The best of what was noted and what has appeared; of all values, if that has vanished."""
        keys, identity = self.values.keys, self.values.identity
        was = known.select(keys + self.columns).rename(
            dict(zip(self.columns, self.values.columns, strict=True))
        )
        lost = was.join(turned.vanished, on=identity, how="semi", nulls_equal=True).select(keys)
        held = pl.concat([was.drop_nulls(self.values.columns), turned.appeared])
        if lost.height:
            held = held.join(lost, on=keys, how="anti", nulls_equal=True, maintain_order="left")
            again = state[self.values.name].lookup(lost).select(identity)
            held = pl.concat([held, again])
        groups = grouped(held, keys)
        arranged = [groups.arranged(held[each]) for each in self.values.columns]
        chosen = [
            column.alias(name)
            for name, column in zip(
                self.columns, self.aggregate.partial(arranged, groups), strict=True
            )
        ]
        found = groups.first(held.select(keys)).hstack(chosen)
        return _for_each(known, found, keys).select(self.columns).get_columns()

    def result(self, state: State, groups: pl.DataFrame) -> pl.Series:
        """The value; null if there is none."""
        return groups[self.columns[0]]


class Distinct(Valued):
    """How many distinct values there are."""

    @property
    def notes(self) -> Sequence[Any]:
        """Their number."""
        return (pa.int64(),)

    def noted(self, state: State, known: pl.DataFrame, turned: Turned) -> Sequence[pl.Series]:
        """Those that were, those that have appeared, but not those that have vanished."""
        keys = self.values.keys
        parts = ((turned.appeared, 1), (turned.vanished, -1))
        more = pl.concat(
            [rows.select(*keys, pl.lit(sign, pl.Int64).alias(_MORE)) for rows, sign in parts]
        )
        more = more.group_by(keys, maintain_order=True).agg(pl.col(_MORE).sum())
        (column,) = self.columns
        return (known[column].fill_null(0) + _for_each(known, more, keys)[_MORE].fill_null(0),)

    def result(self, state: State, groups: pl.DataFrame) -> pl.Series:
        """Their number."""
        return groups[self.columns[0]]


class Collected(Valued):
    """All values, each once or as often as it is there, or the most frequent ones."""

    def result(self, state: State, groups: pl.DataFrame) -> pl.Series:
        """A sorted list; the most frequent values with the greatest count first."""
        keys = self.values.keys
        rows = state[self.values.name].lookup(groups)
        value, count = pl.col(self.values.columns[0]), pl.col(COUNT)
        if isinstance(self.aggregate, TopK):
            rows = rows.sort([count, value], descending=[True, False])
            exact = pl.lit(0, pl.Int64).alias("error")
            told = pl.struct(value.alias("value"), count.alias("count"), exact)
            told = told.head(self.aggregate.count)
        else:
            rows = rows.sort(value)
            repeated = isinstance(self.aggregate, CollectList)
            told = value.repeat_by(count).explode() if repeated else value
        lists = rows.group_by(keys, maintain_order=True).agg(told.alias(self.name))
        found = _for_each(groups, lists, keys)[self.name]
        return found.fill_null(pl.Series([[]], dtype=found.dtype))


VALUED: Final[Mapping[type[Aggregate], Callable[[str, Any, Values], Valued]]] = {
    Extreme: Best,
    ExtremeBy: Best,
    CountDistinct: Distinct,
    CollectSet: Collected,
    CollectList: Collected,
    TopK: Collected,
}
"""By the aggregates of windows, what follows rows that come and go."""


def _for_each(groups: pl.DataFrame, found: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """What was found of each group, in the order of the groups."""
    return groups.select(keys).join(
        found, on=list(keys), how="left", nulls_equal=True, maintain_order="left"
    )
