"""The operator of tumbling and hopping windows.

Formally, with L the lateness: a window [s, e) takes the events that arrive while the watermark has
not reached e + L, and speaks first when the watermark has reached e. An event that none of its
windows takes any more is late.

Intuitively: events are summed up per key and pane, a window is the merger of its panes, and a pane
is kept until the last of its windows is over.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.streams.state.operator import Description, Kept, State
from headrace.streams.windows.grids import grid_of
from headrace.streams.windows.intake import AT, Intake, open_places
from headrace.streams.windows.kinds import Aligned
from headrace.streams.windows.layout import END, FORGET, START, Layout, Moment, advanced
from headrace.streams.windows.speaking import CLOSES, Speaking
from headrace.streams.windows.telling import forget, told

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s

_LEAVE = "_window_leave"
"""The column with the time at which a pane is not needed any more."""


class AlignedWindows:
    """Aggregates per key and window between fixed boundaries."""

    def __init__(self, layout: Layout, kind: Aligned) -> None:
        self._layout = layout
        self._grid = grid_of(kind)
        self._intake = Intake(layout, self._grid.panes)
        self._speaking = Speaking(layout)
        self._pane_is_window = kind.tumbling and not layout.policy.remembers

    @cached_property
    def description(self) -> Description:
        """Panes, the windows that have something to say, and what was told."""
        layout = self._layout
        at = [pa.field(AT, pa.int64()), pa.field(_LEAVE, pa.int64())]
        schema = pa.schema([*layout.key_fields, *at, *layout.measures.kept])
        own = {"panes": Kept(schema, layout.keys, (AT,), _LEAVE)}
        if not self._pane_is_window:
            own |= self._speaking.tables
        return Description(layout.name, layout.tables(own), layout.outputs)

    def prepare(self, source: str, events: pl.DataFrame) -> pl.DataFrame:
        """Sum up the events of a task per key and pane."""
        return self._intake.prepared(events)

    def update(
        self, state: State, events: Mapping[str, pl.DataFrame], watermark: int | None
    ) -> Mapping[str, pl.DataFrame]:
        """Add a batch to its panes, and tell what windows have to say."""
        moment = advanced(self._layout, state, events, watermark)
        taken = self._intake.take(events, moment, lambda rows: self._judged(rows, moment))
        self._add(state, taken.parts)
        if self._pane_is_window:
            due = state["panes"].due(moment.now)
            windows = due.rename({AT: START, _LEAVE: END})
            changes = told(self._layout, state, self._results(windows))
            state["panes"].delete(due)
        else:
            touched = self._windows_of(taken.parts.select(*self._layout.keys, AT), moment)
            speaking = self._speaking.now(state, touched, moment)
            changes = told(self._layout, state, self._results(self._merged(state, speaking)))
            state["panes"].delete(state["panes"].due(moment.now))
            forget(state, moment.now)
        return taken.beside(changes)

    def _judged(self, rows: pl.DataFrame, moment: Moment) -> tuple[pl.Series, pl.Series | None]:
        if moment.before is None or self._pane_is_window:
            return open_places(rows[AT], moment, self._last_end), None
        partly = ~open_places(rows[AT], moment, self._first_end)
        return open_places(rows[AT], moment, self._last_end), partly

    def _last_end(self, panes: "Int64s") -> Any:
        """When the last window of each of these panes takes no more events."""
        return self._ends(panes, np.maximum)

    def _first_end(self, panes: "Int64s") -> Any:
        return self._ends(panes, np.minimum)

    def _ends(self, panes: "Int64s", choose: Any) -> Any:
        numbers, _, ends = self._grid.windows(panes)
        begins = np.searchsorted(numbers, np.arange(len(panes)))
        return choose.reduceat(ends, begins) + self._layout.policy.lateness

    def _add(self, state: State, parts: pl.DataFrame) -> None:
        if not parts.height:
            return
        layout = self._layout
        distinct = np.unique(parts[AT].to_numpy())
        leave = self._last_end(distinct)
        identity = [*layout.keys, AT]
        columns = [*identity, *layout.measures.columns]
        # A pane that was stored before lateness became shorter leaves later than it would now.
        since = int(leave[0]) - layout.policy.lateness
        held = state["panes"].lookup(parts, since=since)
        held = held.join(parts.select(identity), on=identity, how="semi", nulls_equal=True)
        if held.height:
            both = pl.concat([held.select(columns), parts.select(columns)])
            parts = layout.measures.merged(both, identity)
        times = leave[np.searchsorted(distinct, parts[AT].to_numpy())]
        state["panes"].upsert(parts.with_columns(pl.Series(_LEAVE, times)))

    def _windows_of(self, panes: pl.DataFrame, moment: Moment) -> pl.DataFrame:
        """The windows of these panes that can still change, each once."""
        pairs = self._pairs(panes[AT])
        if moment.before is not None:
            pairs = pairs.filter(pl.col(END) + self._layout.policy.lateness > moment.before)
        found = panes.join(pairs, on=AT, how="inner", maintain_order="left_right").drop(AT)
        found = found.unique([*self._layout.keys, START], keep="first", maintain_order=True)
        return found.with_columns(pl.col(END).alias(CLOSES))

    def _pairs(self, panes: pl.Series) -> pl.DataFrame:
        """The distinct panes with each of their windows."""
        distinct = np.unique(panes.to_numpy())
        numbers, starts, ends = self._grid.windows(distinct)
        return pl.DataFrame({AT: distinct[numbers], START: starts, END: ends})

    def _merged(self, state: State, windows: pl.DataFrame) -> pl.DataFrame:
        """The windows with the columns that are kept, merged from their panes."""
        keys = self._layout.keys
        if not windows.height:
            return pl.DataFrame()
        since: Any = windows[START].min()
        panes = state["panes"].lookup(windows, since=since)
        pairs = self._pairs(panes[AT])
        wanted = windows.select(*keys, START)
        parts = panes.join(pairs, on=AT, how="inner", maintain_order="left_right").join(
            wanted, on=[*keys, START], how="semi", nulls_equal=True, maintain_order="left"
        )
        return self._layout.measures.merged(parts, [*keys, START, END])

    def _results(self, windows: pl.DataFrame) -> pl.DataFrame:
        layout = self._layout
        if not windows.height:
            return windows
        starts, ends = windows[START].to_numpy(), windows[END].to_numpy()
        results = layout.measures.results(windows, starts, ends)
        forgotten = pl.Series(FORGET, ends + layout.policy.lateness)
        return windows.select(*layout.keys, START, END).hstack([forgotten, *results])
