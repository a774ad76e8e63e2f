"""Which windows speak in a batch: those that have changed, when their time has come.

Windows that have changed wait in a table, in the order in which they close. With `final` they wait
until the watermark has closed them; with `every` also until the batches' clock says so; with
`updates` they do not wait. A window that changes after it was closed speaks in the same batch.
"""

from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.streams.state.operator import Kept, State
from headrace.streams.windows.layout import END, START, Layout, Moment

CLOSES: Final = "_window_closes"
"""The column that says when the watermark closes a window."""

_ALWAYS: Final = np.iinfo(np.int64).max - 1


class Speaking:
    """The windows that have changed since they spoke last."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    @property
    def tables(self) -> dict[str, Kept]:
        """The table in which they wait; with `updates` only what waited before an edit is there."""
        window = [pa.field(each, pa.int64()) for each in (START, END, CLOSES)]
        schema = pa.schema([*self._layout.key_fields, *window])
        return {"waiting": Kept(schema, self._layout.keys, (START,), CLOSES)}

    def now(self, state: State, changed: pl.DataFrame, moment: Moment) -> pl.DataFrame:
        """The windows that speak now; those that have changed and do not will speak later."""
        table = state["waiting"]
        updates = self._layout.policy.emit == "updates"
        if updates and not len(table):
            return changed
        table.upsert(changed)
        due = table.due(_ALWAYS if updates or moment.speaks else moment.now)
        table.delete(due)
        return due
