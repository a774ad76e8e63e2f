"""The operator that computes aggregates of groups of a table's rows and keeps them right.

Formally, with G the table `select by, aggregates from T group by by`: it tells the net changes of G
for those of T. A group without rows is gone, even if it is the only one, of all rows. Intuitively:
a row that is deleted is subtracted from what its group adds up to, and one that changes is
subtracted as it was and added as it is.

What is told depends on the rows that there are and on nothing else, for sums of floats, too.
Aggregates that want an order have that of the values: `collect_list` is sorted, and `first` and
`last` are written as `min_by` and `max_by`.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.streams.errors import InvalidFlow
from headrace.streams.plan import CHANGE
from headrace.streams.state.blobs import to_polars
from headrace.streams.state.operator import Description, Kept, State
from headrace.streams.tables.changes import (
    CHANGES,
    difference,
    is_gone,
    outputs,
    require,
    rows_of,
    said,
)
from headrace.streams.tables.net_aggregates import NET, NetCount
from headrace.streams.tables.valued_aggregates import VALUED, Valued
from headrace.streams.tables.values import SIGN, Values
from headrace.streams.windows.aggregates.errors import InvalidAggregate
from headrace.streams.windows.layout import EVERYTHING
from headrace.streams.windows.measures import Call, Measures

_ROWS: Final = "_rows"
"""The count of a group's rows, beside the aggregates that were asked for."""


class GroupedTable:
    """Aggregates of the groups of a table's rows, as a table keyed by group.

    It keeps of each group how many rows it has, counts and sums, and the least and greatest values;
    and for `min`, `max`, `min_by`, `max_by`, `count(distinct x)`, `collect_set`, `collect_list` and
    `top_k` the distinct values with how often they are there, once for each expression. A batch
    costs what its rows do; for lists and `top_k`, or if a least or greatest value has gone, what
    the values of its groups do.
    """

    def __init__(
        self, name: str, schema: Any, by: Sequence[str], aggregates: Mapping[str, Call]
    ) -> None:
        """Take the operator's name, the columns of its input, the group, and what is computed.

        The input `changes` has `_change` and is keyed by `by`; without any, by `EVERYTHING`. Raises
        InvalidAggregate for what cannot follow rows that come and go.
        """
        self._name = name
        self._by = tuple(by)
        self._calls = dict(aggregates)
        schema = rows_of(schema)
        require(self._by, schema, name)
        self._check_names()
        fields = [schema.field(each) for each in self._by]
        self._group = tuple(fields or [pa.field(EVERYTHING, pa.int8())])
        self._keys = [each.name for each in self._group]
        net = {_ROWS: Call(NetCount(), (SIGN,))}
        self._valued: dict[str, Valued] = {}
        self._told: list[Any] = []
        for result, call in self._calls.items():
            require(call.arguments, schema, name)
            types = tuple(schema.field(each).type for each in call.arguments)
            kind = type(call.aggregate)
            if kind not in NET and kind not in VALUED:
                raise InvalidAggregate(
                    f"{name}: {result} cannot take back a row that is deleted. Of tables there are "
                    "count, sum, avg, stddev, variance, min, max, min_by, max_by, count(distinct), "
                    "collect_set, collect_list and top_k; in the place of first(x) and last(x) say "
                    "min_by(x, at) and max_by(x, at)."
                )
            timed = (*types, pa.int64()) if call.aggregate.needs_time else types
            call.aggregate.columns(timed)
            self._told.append(pa.field(result, call.aggregate.result_type(timed)))
            if kind in NET:
                made = NET[kind](call.aggregate, types[0] if types else None)
                net[result] = Call(made, (*call.arguments, SIGN))
            else:
                values = Values(_table_of(result, call), call.arguments, types, self._group)
                self._valued[result] = VALUED[kind](result, call.aggregate, values)
        self._measures = Measures(net, schema.append(pa.field(SIGN, pa.int64())), SIGN)

    @cached_property
    def description(self) -> Description:
        """What is known of each group, and the values that its rows have."""
        notes = [
            pa.field(*each)
            for valued in self._valued.values()
            for each in zip(valued.columns, valued.notes, strict=True)
        ]
        groups = pa.schema([*self._group, *self._measures.kept, *notes])
        tables = {"groups": Kept(groups, tuple(self._keys))}
        tables |= {name: each.kept for name, each in self._values.items()}
        told = pa.schema([*self._group[: len(self._by)], *self._told])
        return Description(self._name, tables, outputs(told))

    def prepare(self, source: str, events: pl.DataFrame) -> pl.DataFrame:
        """What the rows of a task add up to in each group, if that is enough; or the rows."""
        if EVERYTHING in self._keys and EVERYTHING not in events.columns:
            events = events.with_columns(pl.lit(0, pl.Int8).alias(EVERYTHING))
        sign = pl.when(is_gone()).then(-1).otherwise(1).cast(pl.Int64).alias(SIGN)
        arguments = [each for call in self._calls.values() for each in call.arguments]
        rows = events.select(*dict.fromkeys((*self._keys, *arguments)), sign)
        return rows if self._valued else self._summed(rows)

    def update(
        self, state: State, events: Mapping[str, pl.DataFrame], watermark: int | None
    ) -> Mapping[str, pl.DataFrame]:
        """Add rows to their groups and take others away; tell which groups that changes."""
        rows = events[CHANGES]
        if not rows.height:
            return {}
        parts = self._summed(rows) if self._valued else rows
        table = state["groups"]
        columns = [*self._keys, *self._measures.columns]
        held = table.lookup(parts)
        was = self._results(state, held)
        now = self._measures.merged(
            pl.concat([held.select(columns), parts.select(columns)]), self._keys
        )
        known = now.select(self._keys).join(
            held, on=self._keys, how="left", nulls_equal=True, maintain_order="left"
        )
        turned = {name: each.turn(state, rows) for name, each in self._values.items()}
        for each in self._valued.values():
            noted = each.noted(state, known, turned[each.values.name])
            now = now.with_columns(
                column.alias(name) for name, column in zip(each.columns, noted, strict=True)
            )
        there = pl.col(f"{_ROWS}.0") > 0
        table.delete(now.filter(~there))
        now = now.filter(there)
        table.upsert(now)
        changes = difference(was, self._results(state, now), self._keys).told()
        return said(changes if self._by else changes.drop(EVERYTHING))

    @cached_property
    def _values(self) -> dict[str, Values]:
        """The values that are kept, by the name of their table."""
        return {each.values.name: each.values for each in self._valued.values()}

    def _summed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """What rows add up to in each group."""
        parts = self._measures.partial(rows, self._keys, rows[SIGN])
        return parts.select(*self._keys, *self._measures.columns)

    def _results(self, state: State, groups: pl.DataFrame) -> pl.DataFrame:
        """What is told of groups, of which `groups` has what is kept."""
        never = np.zeros(groups.height, np.int64)
        names = self._measures.names
        found = dict(zip(names, self._measures.results(groups, never, never), strict=True))
        found |= {name: each.result(state, groups) for name, each in self._valued.items()}
        results = [found[name].alias(name).cast(self._kinds[name]) for name in self._calls]
        return groups.select(self._keys).hstack(results)

    @cached_property
    def _kinds(self) -> pl.Schema:
        return to_polars(pa.schema(self._told).empty_table()).schema

    def _check_names(self) -> None:
        for name, call in self._calls.items():
            if name in (*self._by, CHANGE):
                raise InvalidFlow(
                    f"{self._name}: two columns are named {name}; a result must not be named like "
                    f"what the table is grouped by, nor {CHANGE}."
                )
            if call.added:
                raise InvalidFlow(
                    f"{self._name}: {name} was added to groups that have rows already, which it "
                    "has not seen. Give the flow another name, and the new version runs from the "
                    "beginning beside the old one."
                )


def _table_of(result: str, call: Call) -> str:
    """The name of the table for the values of a call, the same for all calls of one expression.

    The name of the result says what it is of, as `expressions` gives it. That of an argument does
    not: it is a number, which an edit can give to another expression.
    """
    aggregate = repr(call.aggregate).removesuffix("()")
    if result.startswith(f"{aggregate}("):
        return f"values{result.removeprefix(aggregate)}"
    return f"values({', '.join(call.arguments)})"
