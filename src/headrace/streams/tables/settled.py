"""The operator that puts the changes of a table in an order in which they can be applied.

Intuitively: a row that moves from one bucket to another is deleted in the one and inserted in the
other, and who comes first nobody knows. Together they are an update. Nothing is kept for that,
since a batch has both.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import polars as pl

from headrace.streams.plan import CHANGE
from headrace.streams.state.operator import Description, State
from headrace.streams.tables.changes import (
    CHANGES,
    difference,
    outputs,
    require,
    rows_of,
    said,
    was_and_is,
)


class Settled:
    """Net changes of a table from several buckets, as one insertion, update or deletion per key.

    What was changed back and forth between buckets, or only in columns that a projection has left
    out, is not told. It keeps nothing.
    """

    def __init__(self, name: str, schema: Any, key: Sequence[str]) -> None:
        """Take the operator's name, the table's columns and those that tell its rows apart.

        The input `changes` is keyed by `key`, and has the table's columns and `_change`.
        """
        self._name = name
        self._rows = rows_of(schema)
        self._key = tuple(key)
        require(self._key, self._rows, name)

    @cached_property
    def description(self) -> Description:
        """Nothing that is kept."""
        return Description(self._name, {}, outputs(self._rows))

    def prepare(self, source: str, events: pl.DataFrame) -> pl.DataFrame:
        """The changes as they are."""
        return events.select(*self._rows.names, CHANGE)

    def update(
        self, state: State, events: Mapping[str, pl.DataFrame], watermark: int | None
    ) -> Mapping[str, pl.DataFrame]:
        """Tell what the changes of a batch are together."""
        was, now = was_and_is(events[CHANGES], self._rows.names)
        return said(difference(was, now, self._key).told())
