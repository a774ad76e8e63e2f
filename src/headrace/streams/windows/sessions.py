"""The operator of session windows.

Formally, with L the lateness and w the watermark before a batch: an event at t is late if
t < w - L, but for those that fall into what is still open: t is not before the first event that is
kept of its key, and the session that it is part of has events that are kept, or can still change.
The sessions of the other events are as `Session` defines them; a session speaks first when the
watermark has passed its end, and can change until it has passed that by L.

Intuitively: what is kept are the sessions of each key. New events extend them, begin others, or
bridge two of them, which are then taken back. With a maximum an early event moves all the cuts
behind it, so that sums per event time are kept instead.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.streams.state.operator import Description, Kept, State
from headrace.streams.windows.chains import chained
from headrace.streams.windows.groups import read_only
from headrace.streams.windows.intake import AT, Intake
from headrace.streams.windows.kinds import Session
from headrace.streams.windows.layout import END, FORGET, START, Layout, Moment, advanced
from headrace.streams.windows.speaking import CLOSES, Speaking
from headrace.streams.windows.telling import forget, told
from headrace.streams.windows.timeline import Timeline

_LAST: Final = "_window_last"
"""The column with the time of the last event of a part, whose first one is at `AT`."""

_LEAVE: Final = "_window_leave"
"""The column with the time at which a part is not needed any more."""

_NEW: Final = "_window_new"
_ROW: Final = "_window_row"
_FIRST: Final = "_window_first"
_ALIVE: Final = "_window_alive"
_SESSION: Final = "_window_session"


class SessionWindows:
    """Aggregates per key and stretch of activity."""

    def __init__(self, layout: Layout, kind: Session) -> None:
        self._layout = layout
        self._gap = kind.gap
        self._maximum = kind.maximum
        self._intake = Intake(layout)
        self._speaking = Speaking(layout)

    @cached_property
    def description(self) -> Description:
        """Parts of sessions, the sessions that have something to say, and what was told."""
        layout = self._layout
        at = [pa.field(each, pa.int64()) for each in (AT, _LAST, _LEAVE)]
        schema = pa.schema([*layout.key_fields, *at, *layout.measures.kept])
        own = {"parts": Kept(schema, layout.keys, (AT,), _LEAVE), **self._speaking.tables}
        return Description(layout.name, layout.tables(own), layout.outputs)

    def prepare(self, source: str, events: pl.DataFrame) -> pl.DataFrame:
        """Sum up the events of a task per key and time."""
        return self._intake.prepared(events)

    def update(
        self, state: State, events: Mapping[str, pl.DataFrame], watermark: int | None
    ) -> Mapping[str, pl.DataFrame]:
        """Add a batch to its sessions, and tell what they have to say."""
        moment = advanced(self._layout, state, events, watermark)
        taken = self._intake.take(
            events, moment, lambda rows: (self._in_time(state, rows, moment), None)
        )
        changed, gone = self._added(state, taken.parts)
        speaking = self._speaking.now(state, changed, moment)
        changes = told(self._layout, state, self._results(state, speaking), gone)
        state["parts"].delete(state["parts"].due(moment.now))
        forget(state, moment.now)
        return taken.beside(changes)

    def _in_time(self, state: State, rows: pl.DataFrame, moment: Moment) -> pl.Series:
        """Which events are not late."""
        keys = self._layout.keys
        everything = pl.repeat(True, rows.height, eager=True)
        if moment.before is None or not rows.height:
            return everything
        bound = moment.before - self._layout.policy.lateness
        early = rows[AT] < bound
        if not early.any():
            return everything
        held = state["parts"].lookup(rows.filter(early)).select(*keys, AT, _LAST)
        first = held.group_by(keys, maintain_order=True).agg(pl.col(AT).min().alias(_FIRST))
        asked = (
            rows.select(*keys, AT)
            .with_row_index(_ROW)
            .join(first, on=keys, how="left", nulls_equal=True, maintain_order="left")
        )
        hopeless = early & (asked[_FIRST].is_null() | (asked[AT] < asked[_FIRST]))
        both = pl.concat(
            [
                held.with_columns(pl.lit(None, pl.UInt32).alias(_ROW)),
                asked.filter(~hopeless).select(*keys, AT, pl.col(AT).alias(_LAST), _ROW),
            ]
        )
        sessions = self._sessions(both)
        closes = pl.col(CLOSES).first() + self._layout.policy.lateness
        alive = sessions.with_columns(
            (pl.col(_ROW).is_null().any() | (closes > moment.before)).over(_SESSION).alias(_ALIVE)
        ).filter(pl.col(_ROW).is_not_null() & pl.col(_ALIVE))
        found = np.zeros(rows.height, np.bool_)
        found[alive[_ROW].to_numpy()] = True
        return ~early | (pl.Series(found) & ~hopeless)

    def _sessions(self, parts: pl.DataFrame) -> pl.DataFrame:
        """The parts in the order of their keys and times, with the session that each is in."""
        line = Timeline(parts, self._layout.keys)
        firsts, lasts = line.rows[AT].to_numpy(), line.rows[_LAST].to_numpy()
        keys, firsts, lasts = (read_only(each) for each in (line.numbers, firsts, lasts))
        numbers, starts, reaches = chained(keys, firsts, lasts, self._gap, self._maximum or 0)
        ends = reaches + self._gap
        closes = ends + 1
        if self._maximum is not None:
            ends = np.minimum(ends, starts + self._maximum)
            closes = np.minimum(closes, starts + self._maximum)
        window = {START: starts[numbers], END: ends[numbers], CLOSES: closes[numbers]}
        columns = [pl.Series(name, each) for name, each in {_SESSION: numbers, **window}.items()]
        return line.rows.hstack(columns)

    def _added(self, state: State, parts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Add parts; returns the sessions that have changed, and those that are no more."""
        layout = self._layout
        window = [*layout.keys, START, END]
        if not parts.height:
            nothing = self._sessions(state["parts"].lookup(parts)).select(*window, CLOSES)
            return nothing, nothing
        held = state["parts"].lookup(parts)
        before = self._sessions(held).select(window).unique(window, maintain_order=True)
        columns = [*layout.keys, AT, _LAST, *layout.measures.columns]
        both = pl.concat(
            [
                held.select(columns).with_columns(pl.lit(False).alias(_NEW)),
                parts.with_columns(pl.col(AT).alias(_LAST))
                .select(columns)
                .with_columns(pl.lit(True).alias(_NEW)),
            ]
        )
        after = self._sessions(both)
        fresh = after.join(before, on=window, how="anti", nulls_equal=True)[_SESSION]
        touched = after.filter(pl.col(_NEW))[_SESSION]
        changed = after.filter(
            pl.col(_SESSION).is_in(pl.concat([fresh, touched]).unique().implode())
        )
        sessions = changed.select(*window, CLOSES).unique(window, keep="first", maintain_order=True)
        now = after.select(window)
        gone = before.join(now, on=window, how="anti", nulls_equal=True, maintain_order="left")
        self._store(state, changed)
        if "waiting" in state.tables:
            state["waiting"].delete(gone)
        return sessions, gone

    def _store(self, state: State, changed: pl.DataFrame) -> None:
        """Keep the parts of sessions that have changed; without cuts, one of each session."""
        layout = self._layout
        kept = [*layout.keys, AT]
        if self._maximum is None:
            state["parts"].delete(changed.filter(~pl.col(_NEW)))
            first, last = pl.col(START).alias(AT), (pl.col(END) - self._gap).alias(_LAST)
            changed = changed.with_columns(first, last)
        else:
            changed = changed.with_columns(pl.col(AT).alias(_LAST))
        merged = layout.measures.merged(changed, [*kept, _LAST, CLOSES])
        leave = pl.col(CLOSES) + layout.policy.lateness
        state["parts"].upsert(merged.with_columns(leave.alias(_LEAVE)))

    def _results(self, state: State, windows: pl.DataFrame) -> pl.DataFrame:
        layout = self._layout
        if not windows.height:
            return windows
        window = [*layout.keys, START, END]
        parts = self._sessions(state["parts"].lookup(windows))
        wanted = parts.join(windows.select(window), on=window, how="semi", nulls_equal=True)
        merged = layout.measures.merged(wanted, [*window, CLOSES])
        starts, ends = merged[START].to_numpy(), merged[END].to_numpy()
        results = layout.measures.results(merged, starts, ends)
        forgotten = (merged[CLOSES] + layout.policy.lateness).alias(FORGET)
        return merged.select(window).hstack([forgotten, *results])
