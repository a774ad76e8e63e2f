"""The operator of sliding windows.

Formally, with L the lateness and w the watermark before a batch: an event at t with t < w - L is
late. For every time t of the others there is a window (t - size, t], which holds those at u with
t - size < u <= t, speaks first when the watermark has passed t, and takes events until it has
passed t + L.

Intuitively: events are summed up per key and time; each of these sums ends a window, which is the
merger of the sums that lie in it.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from headrace.streams.state.operator import Description, Kept, State
from headrace.streams.windows.intake import AT, Intake, open_places
from headrace.streams.windows.kinds import Sliding
from headrace.streams.windows.layout import END, FORGET, START, Layout, Moment, advanced
from headrace.streams.windows.ranges import merged_stretches
from headrace.streams.windows.speaking import CLOSES, Speaking
from headrace.streams.windows.telling import forget, told
from headrace.streams.windows.timeline import Timeline

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s

_LEAVE = "_window_leave"
"""The column with the time at which a part is not needed any more."""


class SlidingWindows:
    """Aggregates per key over what was less than `size` before each event."""

    def __init__(self, layout: Layout, kind: Sliding) -> None:
        self._layout = layout
        self._size = kind.size
        self._intake = Intake(layout)
        self._speaking = Speaking(layout)

    @cached_property
    def description(self) -> Description:
        """Sums per key and time, the windows that have something to say, and what was told."""
        layout = self._layout
        at = [pa.field(AT, pa.int64()), pa.field(_LEAVE, pa.int64())]
        schema = pa.schema([*layout.key_fields, *at, *layout.measures.kept])
        own = {"parts": Kept(schema, layout.keys, (AT,), _LEAVE), **self._speaking.tables}
        return Description(layout.name, layout.tables(own), layout.outputs)

    def prepare(self, source: str, events: pl.DataFrame) -> pl.DataFrame:
        """Sum up the events of a task per key and time."""
        return self._intake.prepared(events)

    def update(
        self, state: State, events: Mapping[str, pl.DataFrame], watermark: int | None
    ) -> Mapping[str, pl.DataFrame]:
        """Add a batch, and tell what windows have to say."""
        moment = advanced(self._layout, state, events, watermark)
        taken = self._intake.take(
            events, moment, lambda rows: (open_places(rows[AT], moment, self._open_until), None)
        )
        self._add(state, taken.parts)
        touched = self._touched(state, taken.parts, moment)
        speaking = self._speaking.now(state, touched, moment)
        changes = told(self._layout, state, self._results(state, speaking))
        state["parts"].delete(state["parts"].due(moment.now))
        forget(state, moment.now)
        return taken.beside(changes)

    def _open_until(self, times: "Int64s") -> Any:
        return times + 1 + self._layout.policy.lateness

    def _add(self, state: State, parts: pl.DataFrame) -> None:
        layout = self._layout
        if not parts.height:
            return
        identity = [*layout.keys, AT]
        columns = [*identity, *layout.measures.columns]
        held = state["parts"].lookup(parts)
        held = held.join(parts.select(identity), on=identity, how="semi", nulls_equal=True)
        if held.height:
            both = pl.concat([held.select(columns), parts.select(columns)])
            parts = layout.measures.merged(both, identity)
        leave = pl.col(AT) + self._size + layout.policy.lateness
        state["parts"].upsert(parts.with_columns(leave.alias(_LEAVE)))

    def _touched(self, state: State, parts: pl.DataFrame, moment: Moment) -> pl.DataFrame:
        """The windows that the new parts change: their own, and those of later ones near them."""
        keys = self._layout.keys
        if self._layout.policy.remembers and parts.height:
            line = Timeline(state["parts"].lookup(parts), keys)
            begins, ends = line.between(parts, 0, self._size - 1)
            windows = line.covered(begins, ends)
            if moment.before is not None:
                windows = windows.filter(
                    pl.col(AT) + 1 + self._layout.policy.lateness > moment.before
                )
        else:
            windows = parts
        return windows.select(
            *keys,
            (pl.col(AT) - self._size).alias(START),
            pl.col(AT).alias(END),
            (pl.col(AT) + 1).alias(CLOSES),
        )

    def _results(self, state: State, windows: pl.DataFrame) -> pl.DataFrame:
        layout = self._layout
        if not windows.height:
            return windows
        line = Timeline(state["parts"].lookup(windows), layout.keys)
        windows = windows.with_columns(pl.col(END).alias(AT))
        begins, ends = line.between(windows, 1 - self._size, 0)
        merged = merged_stretches(layout.measures, line.rows, begins, ends)
        starts, times = windows[START].to_numpy(), windows[END].to_numpy()
        results = layout.measures.results(merged, starts, times)
        forgotten = pl.Series(FORGET, self._open_until(times))
        return windows.select(*layout.keys, START, END).hstack([forgotten, *results])
