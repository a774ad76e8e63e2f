"""The join of a stream with a table as it is: events are enriched from a local copy.

Formally: an event that is in the same batch as some changes of the table, or in a later one than
them, finds the row that they have left under its key. With `wait`, an event at t that finds none
is kept until one comes, and told with that; once the watermark is past t + wait it is told without,
or, by an inner join, counted as `unmatched`.

Intuitively: a copy of the table is fed by its changes, and every event is answered from it, at
once if it can be. What an event finds depends on when it is read, as it does with a query to a
database; `versions` is for answers that do not.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.streams.errors import InvalidFlow
from headrace.streams.joins.enriching import EVENTS, TABLE, Enrichment
from headrace.streams.joins.matching import Points, microseconds, only, without_nulls
from headrace.streams.joins.progress import (
    KEPT,
    NUMBER,
    PROGRESS,
    advanced,
    remember,
    with_numbers,
)
from headrace.streams.joins.sides import Side
from headrace.streams.joins.telling import COUNTS, counted
from headrace.streams.plan import DELETED
from headrace.streams.state.operator import Description, Kept, State

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s

_WAITING: Final = "waiting"


class Lookup:
    """Events with the row of a table that has their key.

    Its inputs are `events` and `table`, the changes of the table with `_deleted`; each keyed by the
    columns that are equal, in the order of the table's key. Its outputs are `main`: the events'
    columns and the row's, null if there is none; and `counts`.

    In a batch the table's changes come first. Then it tells events that have waited for them, in
    the order in which they came; then its own events, in theirs; then those that have waited in
    vain, in the order of time. Events of one key that find a row stay in the order they came in.
    """

    def __init__(
        self,
        name: str,
        events: Side,
        table_schema: Any,
        table_key: tuple[str, ...],
        on: Mapping[str, str],
        how: str = "left",
        wait: int | None = None,
        suffix: str = "_right",
    ) -> None:
        """Take the events, the table, and for how many microseconds an event waits for its row."""
        self.name = name
        self._enrichment = Enrichment(events, table_schema, table_key, on, how, suffix)
        self.naming = self._enrichment.naming
        self._wait = wait
        self._time = events.time or ""
        if wait is not None and events.time is None:
            raise InvalidFlow(
                "lookup: to wait for a row, events need to know when they happened: name the "
                'column where the stream is read, as in flow.stream(..., time="at").'
            )

    @property
    def behind(self) -> int:
        """How much earlier than the watermark an event can be that waits and is yet to be told."""
        return self._wait or 0

    @cached_property
    def description(self) -> Description:
        """The table's rows, and the events that wait for one."""
        enrichment = self._enrichment
        tables = {TABLE: Kept(pa.schema(enrichment.rows), enrichment.key)}
        if self._wait is not None:
            tables[_WAITING] = enrichment.waiting(self._time)
            tables[PROGRESS] = KEPT
        return Description(self.name, tables, {"main": enrichment.result, "counts": COUNTS})

    def prepare(self, source: str, events: pl.DataFrame) -> pl.DataFrame:
        """Of a table's changes, keep the last one of every key."""
        enrichment = self._enrichment
        if source == TABLE:
            return enrichment.changes(events)
        if enrichment.how == "inner" and self._wait is None:
            return enrichment.whole(events, enrichment.events.key)
        return events

    def update(
        self, state: State, events: Mapping[str, pl.DataFrame], watermark: int | None
    ) -> Mapping[str, pl.DataFrame]:
        """Change the copy of the table, and answer events from it."""
        enrichment = self._enrichment
        written = self._changed(state, events[TABLE])
        if self._wait is None:
            asking = events[EVENTS]
            return {"main": enrichment.joined(asking, *self._found(state, asking))}
        moment = advanced(state, watermark)
        new = with_numbers(events[EVENTS], moment.following)
        remember(state, moment, new.height)
        woken = self._woken(state, written)
        asking = pl.concat([woken, new.select(woken.columns)])
        rows, found = self._found(state, asking)
        over = moment.over(self._wait)
        waits = self._waits(asking, found, over)
        state[_WAITING].upsert(asking.filter(waits))
        given_up = self._given_up(state, over)
        asking = pl.concat([asking.filter(~waits), given_up])
        found = np.concatenate([found[~waits], np.full(given_up.height, -1)])
        lost = int((found < 0).sum()) if enrichment.how == "inner" else 0
        counts = counted({"unmatched": lost}, moment)
        return {"main": enrichment.joined(asking, rows, found), "counts": counts}

    def _changed(self, state: State, changes: pl.DataFrame) -> pl.DataFrame:
        """Apply changes of the table; returns the rows that were written."""
        if not changes.height:
            return changes
        changes = self._enrichment.changes(changes)
        deleted = changes.get_column(DELETED).fill_null(value=False)
        state[TABLE].delete(changes.filter(deleted))
        written = changes.filter(~deleted)
        state[TABLE].upsert(written)
        return written

    def _found(self, state: State, events: pl.DataFrame) -> "tuple[pl.DataFrame, Int64s]":
        """Rows of the table, and where among them is that of each event; -1 where it is none."""
        enrichment = self._enrichment
        asking = Points.of(events, enrichment.events.key)
        rows = state[TABLE].lookup(enrichment.keys(events, asking.distinct()))
        found = np.full(events.height, -1, np.int64)
        found[asking.positions] = only(asking, Points.of(rows, enrichment.key))
        return rows, found

    def _woken(self, state: State, written: pl.DataFrame) -> pl.DataFrame:
        """The events that have waited for these rows, in the order in which they came."""
        enrichment = self._enrichment
        pairs = zip(enrichment.key, enrichment.events.key, strict=True)
        keys = pl.DataFrame([written.get_column(name).alias(own) for name, own in pairs])
        woken = state[_WAITING].lookup(keys).sort(NUMBER)
        state[_WAITING].delete(woken)
        return woken

    def _waits(self, asking: pl.DataFrame, found: "Int64s", over: int | None) -> Any:
        """Which events wait for a row: those for which one can come, and in time."""
        known = [*self._enrichment.events.key, self._time]
        whole = without_nulls([asking.get_column(name) for name in known])
        waits = found < 0 if whole is None else (found < 0) & whole
        if over is not None:
            waits &= microseconds(asking.get_column(self._time)) > over
        return waits

    def _given_up(self, state: State, over: int | None) -> pl.DataFrame:
        """The events that have waited in vain, in the order of time."""
        due = state[_WAITING].due(over)
        state[_WAITING].delete(due)
        return due.sort(self._time, NUMBER)
