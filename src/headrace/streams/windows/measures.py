"""All aggregates of a window side by side: their columns in one frame, one row per group.

An aggregate that was added to windows with state has not seen the events that came before. What is
kept for it then says of each row whether it has seen all of them. Merged with a row of which it has
not, the result is not known, and null: a part of the truth would look like the whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.streams.state.blobs import to_polars
from headrace.streams.windows.aggregates.errors import InvalidAggregate
from headrace.streams.windows.aggregates.protocol import Aggregate, Windows
from headrace.streams.windows.groups import Groups, grouped

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s

ROWS: Final = "_window_rows"
"""The column that tells how many events a partial aggregate is made of."""


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate of some columns of the input."""

    aggregate: Aggregate
    arguments: tuple[str, ...] = ()
    added: bool = False
    """Whether there is state of windows that were without it."""


class Measures:
    """The aggregates of a window, by the names of their results."""

    def __init__(self, calls: Mapping[str, Call], schema: Any, time: str) -> None:
        """Take the calls and the input's schema; InvalidAggregate for what does not fit it."""
        self._calls = dict(calls)
        self._time = time
        self._types = {name: self._argument_types(name, schema) for name in calls}

    @cached_property
    def kept(self) -> Sequence[Any]:
        """The Arrow fields of the columns that are kept."""
        return [
            field
            for name, call in self._calls.items()
            for field in (
                *((pa.field(_known(name), pa.bool_()),) if call.added else ()),
                *(
                    pa.field(f"{name}.{number}", kind)
                    for number, kind in enumerate(call.aggregate.columns(self._types[name]))
                ),
            )
        ]

    @cached_property
    def told(self) -> Sequence[Any]:
        """The Arrow fields of the results."""
        return [
            pa.field(name, call.aggregate.result_type(self._types[name]))
            for name, call in self._calls.items()
        ]

    @property
    def names(self) -> list[str]:
        """The names of the results."""
        return list(self._calls)

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are kept."""
        return [each.name for each in self.kept]

    def partial(self, events: pl.DataFrame, by: Sequence[str], times: pl.Series) -> pl.DataFrame:
        """One row per group of events: the group, how many they are, and the columns to keep."""
        groups = grouped(events, by)
        found = [pl.Series(ROWS, groups.sizes, pl.Int64)]
        arranged: dict[str, pl.Series] = {}
        for name, call in self._calls.items():
            for each in call.arguments:
                if each not in arranged:
                    arranged[each] = groups.arranged(events[each])
            arguments = [arranged[each] for each in call.arguments]
            if call.aggregate.needs_time:
                arguments.append(groups.arranged(times))
            if call.added:
                found.append(pl.repeat(True, len(groups), eager=True).alias(_known(name)))
            found += self._conformed(name, call.aggregate.partial(arguments, groups))
        return groups.first(events.select(by)).hstack(found)

    def merged(self, parts: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """One row per group of partial aggregates: the group, and the columns to keep."""
        groups = grouped(parts, by)
        keys = groups.first(parts.select(by))
        if len(groups) == parts.height:
            return keys.hstack(groups.first(parts.select(self.columns)))
        return keys.hstack(self.combined(parts, groups))

    def combined(self, parts: pl.DataFrame, groups: Groups) -> list[pl.Series]:
        """The columns to keep of groups of partial aggregates."""
        found: list[pl.Series] = []
        for name, call in self._calls.items():
            columns = [groups.arranged(parts[each]) for each in self._kept_of(name)]
            if call.added:
                known = _truth(groups.arranged(parts[_known(name)]))
                whole = np.logical_and.reduceat(known, groups.starts) if len(groups) else known
                found.append(pl.Series(_known(name), whole))
                if not whole.all():
                    found += self._merged_where(whole, name, columns, groups)
                    continue
            found += self._conformed(name, call.aggregate.merge(columns, groups))
        return found

    def results(self, parts: pl.DataFrame, starts: "Int64s", ends: "Int64s") -> list[pl.Series]:
        """What is told of each row of kept columns."""
        windows = Windows(starts, ends)
        kinds = self._told_kinds
        return [
            self._result(name, parts, windows).alias(name).cast(kinds[name]) for name in self._calls
        ]

    def _result(self, name: str, parts: pl.DataFrame, windows: Windows) -> pl.Series:
        call = self._calls[name]
        columns = [parts[each] for each in self._kept_of(name)]
        if not call.added or (known := _truth(parts[_known(name)])).all():
            return call.aggregate.result(columns, windows)
        seen = Windows(windows.starts[known], windows.ends[known])
        found = call.aggregate.result([each.filter(pl.Series(known)) for each in columns], seen)
        return _spread(found, known)

    def _merged_where(
        self, whole: Any, name: str, columns: Sequence[pl.Series], groups: Groups
    ) -> list[pl.Series]:
        """Merge the groups of which everything is known; the others have nothing."""
        mask = whole[groups.numbers]
        chosen, _ = groups.within(mask)
        columns = [each.filter(pl.Series(mask)) for each in columns]
        if len(chosen):
            columns = list(self._calls[name].aggregate.merge(columns, chosen))
        return [_spread(each, whole) for each in self._conformed(name, columns)]

    def _argument_types(self, name: str, schema: Any) -> tuple[Any, ...]:
        call = self._calls[name]
        missing = [each for each in call.arguments if each not in schema.names]
        if missing:
            raise InvalidAggregate(f"{name} is of {missing[0]}, which the input does not have.")
        types = tuple(schema.field(each).type for each in call.arguments)
        return (*types, pa.int64()) if call.aggregate.needs_time else types

    def _kept_of(self, name: str) -> list[str]:
        count = len(self._calls[name].aggregate.columns(self._types[name]))
        return [f"{name}.{number}" for number in range(count)]

    @cached_property
    def _kinds(self) -> pl.Schema:
        return to_polars(pa.schema(self.kept).empty_table()).schema

    @cached_property
    def _told_kinds(self) -> pl.Schema:
        return to_polars(pa.schema(self.told).empty_table()).schema

    def _conformed(self, name: str, columns: Sequence[pl.Series]) -> list[pl.Series]:
        return [
            column.alias(kept).cast(self._kinds[kept])
            for kept, column in zip(self._kept_of(name), columns, strict=True)
        ]


def _known(name: str) -> str:
    """The column that says of which rows an added aggregate has seen all events."""
    return f"{name}.known"


def _truth(known: pl.Series) -> Any:
    # What was stored before the aggregate was there has nulls.
    return known.fill_null(False).to_numpy()


def _spread(values: pl.Series, places: Any) -> pl.Series:
    """The values at the places that are true, in their order, and nulls at the others."""
    numbers = pl.Series(np.cumsum(places) - 1, dtype=pl.Int64)
    return values.gather(
        numbers.zip_with(
            pl.Series(places), pl.repeat(None, len(numbers), dtype=pl.Int64, eager=True)
        )
    )
