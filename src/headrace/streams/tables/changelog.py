"""The operator that makes of upserts and deletions what has changed.

Formally, with T the rows by key before a batch, and T' after its changes were applied in their
order: it tells the net changes from T to T' (`changes`). Intuitively: a topic of rows says what is;
this remembers what was.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import polars as pl

from headrace.streams.plan import DELETED
from headrace.streams.state.operator import Description, Kept, State
from headrace.streams.tables.changes import (
    CHANGES,
    difference,
    last_of_each,
    outputs,
    require,
    rows_of,
    said,
    there,
)


class Changelog:
    """Upserts as changes with the rows that they replace; upserts of what is there tell nothing.

    It keeps the rows of the table. A batch costs what the keys do that it has.
    """

    def __init__(self, name: str, schema: Any, key: Sequence[str]) -> None:
        """Take the operator's name, the table's columns and those that tell its rows apart.

        The input `changes` is keyed by `key`, and has the table's columns and `_deleted`.
        """
        self._name = name
        self._rows = rows_of(schema)
        self._key = tuple(key)
        require(self._key, self._rows, name)

    @cached_property
    def description(self) -> Description:
        """The rows of the table."""
        return Description(self._name, {"rows": Kept(self._rows, self._key)}, outputs(self._rows))

    def prepare(self, source: str, events: pl.DataFrame) -> pl.DataFrame:
        """The last change of each key."""
        return last_of_each(events.select(*self._rows.names, DELETED), self._key)

    def update(
        self, state: State, events: Mapping[str, pl.DataFrame], watermark: int | None
    ) -> Mapping[str, pl.DataFrame]:
        """Apply the changes of a batch, and tell those that are some."""
        upserts = last_of_each(events[CHANGES], self._key)
        if not upserts.height:
            return {}
        table = state["rows"]
        changed = difference(table.lookup(upserts), there(upserts, self._rows.names), self._key)
        table.delete(changed.deleted)
        table.upsert(changed.now)
        return said(changed.told())
