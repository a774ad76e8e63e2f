"""The operator that keeps the best rows of each group of a table.

Formally: the rows of T of which fewer than n rows of the same group are better. Rows are compared
by columns, each with its least or greatest values first, and where these are equal by the key, the
least first; so there is always one answer. Null is less than every value, and NaN greater.

Intuitively: of each group the best rows are at hand, up to twice as many as are told, and the rest
lies apart. A row that is better than the worst at hand joins them, and the worst goes to the rest
if there are too many; if one of them is deleted, the next moves up. Only when fewer than n are left
at hand is the rest looked at, which takes more than n deletions.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.streams.errors import InvalidFlow
from headrace.streams.plan import CHANGE
from headrace.streams.state.operator import Description, Kept, State
from headrace.streams.tables.changes import (
    CHANGES,
    Difference,
    difference,
    outputs,
    require,
    rows_of,
    said,
    was_and_is,
)
from headrace.streams.windows.layout import EVERYTHING

_PLACE: Final = "_place"
"""The column with the place of a row in its group; that of the best one is 0."""

_BEFORE: Final = "_place_before"
"""The column with the place that a row had, if it was at hand and has not changed."""

_NEW: Final = "_new"
_MORE: Final = "_more"
_NOWHERE: Final = pl.lit(None, pl.Int64).alias(_BEFORE)
_How: TypeAlias = Literal["semi", "anti"]


class TopN:
    """The best n rows of each group of a table, as a table with the same columns and key.

    It keeps all rows of the table. A batch costs what its rows and up to 2 n rows of each of their
    groups do; where fewer than n of these are left, what the group does.
    """

    def __init__(
        self,
        name: str,
        schema: Any,
        key: Sequence[str],
        by: Sequence[str],
        order_by: Sequence[str],
        n: int,
        descending: bool | Sequence[bool] = True,
    ) -> None:
        """Take the operator's name, the table and its key, the group, and what is better.

        The input `changes` has `_change` and is keyed by `by`; without any, by `EVERYTHING`.
        `descending` says whether the greatest values come first, of all columns or of each.
        """
        self._name = name
        self._rows = rows_of(schema)
        self._key = tuple(key)
        self._by = tuple(by)
        self._count = n
        require((*self._key, *self._by, *order_by), self._rows, name)
        largest = [descending] * len(order_by) if isinstance(descending, bool) else [*descending]
        self._check(order_by, largest)
        fields = [self._rows.field(each) for each in self._by]
        self._group = fields or [pa.field(EVERYTHING, pa.int8())]
        self._keys = [each.name for each in self._group]
        self._identity = list(dict.fromkeys((*self._keys, *self._key)))
        self._columns = list(dict.fromkeys((*self._keys, *self._rows.names)))
        self._order = [*order_by, *(each for each in self._key if each not in order_by)]
        self._largest = [*largest, *[False] * (len(self._order) - len(largest))]

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell the rows of the result apart: those of the table."""
        return self._key

    @property
    def scattered(self) -> bool:
        """Whether a row can move between buckets, so that its changes have to be settled."""
        return not set(self._by) <= set(self._key)

    @cached_property
    def description(self) -> Description:
        """The rows at hand, the rest of them, and which groups have a rest."""
        rows = pa.schema([*(() if self._by else self._group), *self._rows])
        group = tuple(self._keys)
        kept = Kept(rows, group, tuple(self._identity[len(group) :]))
        more = Kept(pa.schema([*self._group, pa.field(_MORE, pa.bool_())]), group)
        tables = {"best": kept, "rest": kept, "groups": more}
        return Description(self._name, tables, outputs(self._rows))

    def prepare(self, source: str, events: pl.DataFrame) -> pl.DataFrame:
        """The changes as they are."""
        if not self._by and EVERYTHING not in events.columns:
            events = events.with_columns(pl.lit(0, pl.Int8).alias(EVERYTHING))
        return events.select(*self._columns, CHANGE)

    def update(
        self, state: State, events: Mapping[str, pl.DataFrame], watermark: int | None
    ) -> Mapping[str, pl.DataFrame]:
        """Apply the changes of a batch, and tell what they change among the best."""
        changes = events[CHANGES]
        if not changes.height:
            return {}
        changed = difference(*was_and_is(changes, self._columns), self._identity)
        groups = changes.select(self._keys).unique(maintain_order=True)
        stored = self._ranked(state["best"].lookup(groups).select(self._columns))
        gone = self._rows_of(stored, changed.was, how="semi")
        ranked = self._at_hand(state, changed, stored, groups)
        place, n = pl.col(_PLACE), self._count
        over = ranked.filter(place >= 2 * n)
        state["best"].delete(pl.concat([each.select(self._identity) for each in (gone, over)]))
        state["best"].upsert(ranked.filter((place < 2 * n) & pl.col(_BEFORE).is_null()))
        # What was told, and is among the best as it was, need not be compared.
        told = (pl.col(_BEFORE) < n).fill_null(False)
        names = self._rows.names
        was = [gone.filter(place < n), ranked.filter(told & (place >= n))]
        now = ranked.filter(~told & (place < n))
        lost = pl.concat([each.select(names) for each in was])
        return said(difference(lost, now.select(names), self._key).told())

    def _at_hand(
        self, state: State, changed: Difference, stored: pl.DataFrame, groups: pl.DataFrame
    ) -> pl.DataFrame:
        """The rows at hand after the batch with their places, and those that are in excess.

        Those that were at hand, and are as they were, have the places that they had. What is not at
        hand any more goes to the rest; where too few are left, the best of the rest join them.
        """
        rest, flags = state["rest"], state["groups"]
        resting = flags.lookup(groups).select(self._keys)
        better, worse = self._parted(changed.now, stored, resting)
        kept = self._rows_of(stored, changed.was, how="anti").rename({_PLACE: _BEFORE})
        ranked = self._ranked(pl.concat([kept, better.with_columns(_NOWHERE)]))
        over = ranked.filter(pl.col(_PLACE) >= 2 * self._count).select(self._columns)
        rest.delete(changed.was)
        rest.upsert(pl.concat([worse, over]))
        flags.upsert(over.select(*self._keys, pl.lit(True).alias(_MORE)))
        enough = ranked.filter(pl.col(_PLACE) == self._count - 1)
        short = self._of_groups(resting, enough, how="anti")
        if not short.height:
            return ranked
        waiting = rest.lookup(short).select(self._columns).with_columns(_NOWHERE)
        held = self._of_groups(ranked, short, how="semi").drop(_PLACE)
        filled = self._ranked(pl.concat([held, waiting]))
        left = filled.filter(pl.col(_PLACE) == 2 * self._count)
        flags.delete(self._of_groups(short, left, how="anti"))
        filled = filled.filter(pl.col(_PLACE) < 2 * self._count)
        rest.delete(filled)
        return pl.concat([self._of_groups(ranked, short, how="anti"), filled])

    def _parted(
        self, rows: pl.DataFrame, stored: pl.DataFrame, resting: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """New rows that are better than some row at hand, and those that belong to the rest.

        Where there is no rest, all rows are at hand.
        """
        if not resting.height:
            return rows, rows.clear()
        # Of each group the worst row at hand is enough to compare with.
        last = (pl.col(_PLACE) == pl.col(_PLACE).max()).over(self._keys)
        worst = self._of_groups(stored.filter(last), resting, how="semi")
        new = self._of_groups(rows, resting, how="semi")
        ranked = self._ranked(
            pl.concat(
                [
                    new.with_columns(pl.lit(True).alias(_NEW)),
                    worst.drop(_PLACE).with_columns(pl.lit(False).alias(_NEW)),
                ]
            )
        )
        bound = pl.when(~pl.col(_NEW)).then(_PLACE).max().over(self._keys)
        is_better = (pl.col(_PLACE) < bound).fill_null(False)
        judged = ranked.with_columns(is_better.alias(_MORE)).filter(_NEW)
        better, worse = (
            judged.filter(each).select(self._columns) for each in (pl.col(_MORE), ~pl.col(_MORE))
        )
        return pl.concat([self._of_groups(rows, resting, how="anti"), better]), worse

    def _ranked(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows in their order, with their places in their groups."""
        ordered = rows.sort(
            [*self._keys, *self._order],
            descending=[*[False] * len(self._keys), *self._largest],
            nulls_last=[*[False] * len(self._keys), *self._largest],
            maintain_order=True,
        )
        # The rows of a group are together now: a place is counted from where its group begins.
        begins = pl.zeros(rows.height, pl.Boolean, eager=True)
        for each in self._keys:
            begins |= ordered[each].ne_missing(ordered[each].shift(1))
        at = np.arange(rows.height)
        places = at - np.maximum.accumulate(np.where(begins.to_numpy(), at, 0))
        return ordered.with_columns(pl.Series(_PLACE, places, pl.Int64))

    def _rows_of(self, rows: pl.DataFrame, chosen: pl.DataFrame, *, how: _How) -> pl.DataFrame:
        return rows.join(
            chosen, on=self._identity, how=how, nulls_equal=True, maintain_order="left"
        )

    def _of_groups(self, rows: pl.DataFrame, groups: pl.DataFrame, *, how: _How) -> pl.DataFrame:
        return rows.join(groups, on=self._keys, how=how, nulls_equal=True, maintain_order="left")

    def _check(self, order_by: Sequence[str], largest: Sequence[bool]) -> None:
        if not order_by or len(largest) != len(order_by):
            raise InvalidFlow(
                f"{self._name}: rows are better by {len(order_by)} columns, and of "
                f"{len(largest)} it is said whether their greatest values come first; name at "
                "least one column, and say it once or of each."
            )
        for each in order_by:
            if pa.types.is_nested(kind := self._rows.field(each).type):
                raise InvalidFlow(
                    f"{self._name}: {each} is {kind}, of which none is greater than another; order "
                    "by one of its parts."
                )
        if self._count < 1:
            raise InvalidFlow(f"{self._name}: the best {self._count} rows are none; say 1 or more.")
