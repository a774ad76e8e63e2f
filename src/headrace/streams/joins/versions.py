"""The join of a stream with the past of a table: events meet the row that held at their own time.

Formally: every change of the table is a version of its key that holds from its `valid_from` until
the next one's; of two with the same `valid_from` the change that came later counts. An event at t
finds the version with the greatest `valid_from` that is not after t, and nothing if there is none
or that is a deletion. If t is the event time, the event is answered once the watermark is past
t + wait: then every version is there that was not late, in whichever order all of them came. A late
event is answered at once, by the versions that are there, and so is every event if t is another
column.

A version can count from a later time on than it claims to hold from, because it was not known
before. Then one that claims more is not ended by it: of the versions that count at t, the event
finds the one with the greatest claim.

With `keep`, versions that ended more than that before the watermark are forgotten; of each key the
one that held then stays. An event from before that is counted as `too_old` and finds nothing.

Intuitively: the price on the invoice is that of the day of sale, also if the invoice comes late.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.streams.joins.enriching import EVENTS, TABLE, Enrichment
from headrace.streams.joins.matching import NEVER, Points, following, latest, microseconds
from headrace.streams.joins.progress import (
    KEPT,
    NUMBER,
    PROGRESS,
    Moment,
    advanced,
    remember,
    with_numbers,
)
from headrace.streams.joins.sides import Side, check_time
from headrace.streams.joins.telling import COUNTS, counted
from headrace.streams.plan import DELETED
from headrace.streams.state.operator import Description, Kept, State

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s

_VERSIONS: Final = "versions"
_WAITING: Final = "waiting"
_ENDS: Final = "_join_ends"
"""The column with the time at which a version no longer holds; null while it does."""

_FRESH: Final = "_join_fresh"


class VersionedLookup:
    """Events with the row that a table had for their key at their time.

    Its inputs are `events` and `table`, the changes of the table with their `valid_from` and
    `_deleted`; each keyed by the columns that are equal, in the order of the table's key. Its
    outputs are `main`: the events' columns and the row's, null if there is none; and `counts`,
    with events that are `too_old`, events and changes that have `no_time`, and changes that are
    `retroactive`: events of their time have been answered without them.

    Events that are answered in one batch are told in the order of their times, equal ones in the
    order in which they came.
    """

    def __init__(
        self,
        name: str,
        events: Side,
        table_schema: Any,
        table_key: tuple[str, ...],
        valid_from: str,
        on: Mapping[str, str],
        at: str,
        how: str = "left",
        keep: int | None = None,
        suffix: str = "_right",
        wait: int = 0,
        claim: str | None = None,
    ) -> None:
        """Take the events and the table, each with the column that tells its time.

        `keep` and `wait` are microseconds; a `keep` of None keeps all versions. `claim` is the
        column of since when a version claims to hold, if it can count only later.
        """
        self.name = name
        self._enrichment = Enrichment(events, table_schema, table_key, on, how, suffix)
        self.naming = self._enrichment.naming
        check_time(events.schema, at)
        self._valid_from, self._at, self._keep = valid_from, at, keep
        self._waits, self._wait = events.time == at, wait
        self._claim = claim
        self._versioned = (valid_from,) if claim is None else (valid_from, claim)
        for each in self._versioned:
            check_time(table_schema, each)

    @property
    def behind(self) -> int:
        """How much earlier than the watermark an event can be that waits and is yet to be told."""
        return self._wait

    @cached_property
    def description(self) -> Description:
        """The versions of the table's rows, and the events that wait for theirs."""
        enrichment = self._enrichment
        own = [pa.field(DELETED, pa.bool_()), pa.field(_ENDS, pa.int64())]
        schema = pa.schema([*enrichment.rows, *own])
        tables = {_VERSIONS: Kept(schema, enrichment.key, (self._valid_from,), _ENDS)}
        if self._waits:
            tables[_WAITING] = enrichment.waiting(self._at)
        outputs = {"main": enrichment.result, "counts": COUNTS}
        return Description(self.name, {**tables, PROGRESS: KEPT}, outputs)

    def prepare(self, source: str, events: pl.DataFrame) -> pl.DataFrame:
        """Of a table's changes, keep the last one of every key and time."""
        enrichment = self._enrichment
        if source == TABLE:
            return enrichment.changes(events, *self._versioned)
        if enrichment.how == "inner":
            return enrichment.whole(events, enrichment.events.key)
        return events

    def update(
        self, state: State, events: Mapping[str, pl.DataFrame], watermark: int | None
    ) -> Mapping[str, pl.DataFrame]:
        """Add versions, answer the events whose time has come, and forget old versions."""
        moment = advanced(state, watermark)
        new = with_numbers(events[EVENTS], moment.following)
        remember(state, moment, new.height)
        timeless, retroactive = self._changed(state, events[TABLE], moment)
        asking = self._asking(state, new, moment)
        main, counts = self._answered(state, asking, moment)
        counts["no_time"] += timeless
        counts["retroactive"] = retroactive
        if self._keep is not None:
            state[_VERSIONS].delete(state[_VERSIONS].due(moment.over(self._keep)))
        return {"main": main, "counts": counted(counts, moment)}

    def _changed(self, state: State, changes: pl.DataFrame, moment: Moment) -> tuple[int, int]:
        """Add versions, and end those before them.

        Returns how many have no time, and how many come after events of their time were answered.
        """
        if not changes.height:
            return 0, 0
        enrichment, since = self._enrichment, self._valid_from
        timed = enrichment.changes(changes, *self._versioned).filter(pl.col(since).is_not_null())
        timeless = changes.get_column(since).null_count()
        if not timed.height:
            return timeless, 0
        starts = microseconds(timed.get_column(since))
        answered = moment.answered(self._wait) if self._waits else None
        retroactive = 0 if answered is None else int((starts <= answered).sum())
        # The last version before a change ends with it, so that no earlier one is of interest,
        # unless it is a deletion, which ends at once and may still claim more.
        since_when = int(starts.min()) if self._claim is None else None
        held = state[_VERSIONS].lookup(timed, since=since_when)
        both = pl.concat(
            [
                held.with_columns(pl.lit(value=False).alias(_FRESH)),
                timed.with_columns(
                    pl.col(DELETED).fill_null(value=False),
                    pl.lit(None, pl.Int64).alias(_ENDS),
                    pl.lit(value=True).alias(_FRESH),
                ).select(*held.columns, _FRESH),
            ]
        )
        both = self._counting(state, both)
        times = microseconds(both.get_column(since))
        ends = following(Points.of(both, enrichment.key, times))
        # What is deleted need not be known once what was there before is forgotten.
        ends = np.where(both.get_column(DELETED).to_numpy(), times, ends)
        column = pl.Series(_ENDS, ends)
        column = column.set(column == NEVER, None)
        changed = both.get_column(_FRESH) | column.ne_missing(both.get_column(_ENDS))
        state[_VERSIONS].upsert(both.with_columns(column).filter(changed))
        return timeless, retroactive

    def _counting(self, state: State, versions: pl.DataFrame) -> pl.DataFrame:
        """The versions that are the ones of some time; those that were kept and are not are gone.

        Versions come in the order in which they were told.
        """
        key, since = list(self._enrichment.key), self._valid_from
        if self._claim is not None:
            ordered = versions.sort(since, self._claim, maintain_order=True)
            known = pl.col(self._claim).cum_max().over(key)
            counts = ordered.select(pl.col(self._claim) == known).to_series()
            state[_VERSIONS].delete(ordered.filter(~counts & ~pl.col(_FRESH)))
            versions = ordered.filter(counts)
        return versions.unique([*key, since], keep="last", maintain_order=True)

    def _asking(self, state: State, new: pl.DataFrame, moment: Moment) -> pl.DataFrame:
        """The events that are answered now, in the order in which they are told."""
        if not self._waits:
            return new
        over = moment.over(self._wait)
        at = new.get_column(self._at)
        waits = at.is_not_null()
        if over is not None:
            waits &= pl.Series(microseconds(at) > over)
        waiting = state[_WAITING]
        waiting.upsert(new.filter(waits))
        due = waiting.due(over)
        waiting.delete(due)
        return pl.concat([due, new.filter(~waits).select(due.columns)]).sort(self._at, NUMBER)

    def _answered(
        self, state: State, events: pl.DataFrame, moment: Moment
    ) -> tuple[pl.DataFrame, dict[str, int]]:
        """Events with their versions, and how many could have none."""
        at = events.get_column(self._at)
        unknown = at.is_null().to_numpy()
        times = microseconds(at)
        old = np.zeros(events.height, np.bool_)
        if self._keep is not None and moment.before is not None:
            old = ~unknown & (times < moment.before - self._keep)
        rows, found = self._found(state, events, times, ~unknown & ~old)
        counts = {"too_old": int(old.sum()), "no_time": int(unknown.sum())}
        return self._enrichment.joined(events, rows, found), counts

    def _found(
        self, state: State, events: pl.DataFrame, times: "Int64s", asking: Any
    ) -> "tuple[pl.DataFrame, Int64s]":
        """Versions, and where among them is the one of each event that asks; -1 for none."""
        enrichment = self._enrichment
        positions = np.flatnonzero(asking)
        chosen, times = events[positions], times[positions]
        # A version that ended before the first of these times is not the one of any.
        since = int(times.min()) if len(times) else None
        points = Points.of(chosen, enrichment.events.key, times)
        rows = state[_VERSIONS].lookup(enrichment.keys(chosen, points.distinct()), since=since)
        starts = microseconds(rows.get_column(self._valid_from))
        versions = latest(points, Points.of(rows, enrichment.key, starts))
        deleted = rows.get_column(DELETED).to_numpy()
        there = np.flatnonzero(versions >= 0)
        versions[there[deleted[versions[there]]]] = -1
        found = np.full(events.height, -1, np.int64)
        found[positions[points.positions]] = versions
        return rows, found
