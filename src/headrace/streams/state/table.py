"""A table of an operator's state, as the operator sees it.

Everything is columnar: keys in, rows out. What is written shows at once, and becomes part of the
stored state when the batch is done. Costs follow the keys and rows that are asked for: a lookup is
a binary search in each of a few runs, and what is due is found in an index by time.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.streams.state.blobs import to_arrow, to_polars
from headrace.streams.state.hashing import KEYS, ROWS, hashes
from headrace.streams.state.operator import Kept
from headrace.streams.state.runs import Identities, Run, sorted_run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.records.kernels.compiled import Int64s, UInt64s

_Part: TypeAlias = tuple[Identities, Any]
"""Rows of one run as an Arrow table, and their identities."""


class StateTable:
    """The rows that are kept under one name, for the keys of one bucket."""

    def __init__(self, kept: Kept, runs: "Iterable[Run]" = ()) -> None:
        self.kept = kept
        self.runs = list(runs)
        """What is stored, the oldest first."""
        self._written: list[Run] = []
        self._deleted: list[Identities] = []
        self._empty = to_polars(kept.schema.empty_table())
        self._identity = pa.schema([kept.schema.field(name) for name in kept.identity])
        self._key = pa.schema([kept.schema.field(name) for name in kept.key])

    def __len__(self) -> int:
        """How many rows it has."""
        return sum(each.holding for each in self._all())

    def lookup(
        self, keys: pl.DataFrame, *, since: int | None = None, until: int | None = None
    ) -> pl.DataFrame:
        """All rows of these keys, in an order that only the rows decide.

        `keys` has the table's key columns, perhaps among others, and may repeat itself. With
        `since` or `until`, only rows whose time is not before or not after that.
        """
        asked = to_arrow(keys, self._key)
        wanted = Identities(
            hashes(asked.columns, KEYS, asked.num_rows), hashes(asked.columns, ROWS, asked.num_rows)
        ).sorted_set()
        parts: list[_Part] = []
        for run in self._all():
            positions, numbers = run.of_keys(wanted.keys)
            if since is not None or until is not None:
                within = _within(run, positions, since, until)
                positions, numbers = positions[within], numbers[within]
            if len(positions):
                parts.append(self._verified(run, positions, wanted.rows[numbers]))
        return self._gathered(parts)

    def due(self, until: int | None) -> pl.DataFrame:
        """All rows whose time is not after `until`, in the order of time; none for None."""
        if until is None:
            return self._empty
        assert self.kept.time is not None, "a table without a time column has nothing that is due"
        parts = [_part(run, run.due(until)) for run in self._all()]
        return self._gathered(parts).sort(self.kept.time, maintain_order=True)

    def upsert(self, rows: pl.DataFrame) -> None:
        """Write rows; those with the identity of a row that is there replace it.

        Of several rows with one identity the last one counts.
        """
        if not rows.height:
            return
        run = sorted_run(self.kept, to_arrow(rows, self.kept.schema))
        for earlier in self._all():
            earlier.supersede(run.identities)
        self._written.append(run)

    def delete(self, rows: pl.DataFrame) -> int:
        """Delete rows by their identity, whatever else they say; returns how many were there."""
        if not rows.height:
            return 0
        table = to_arrow(rows, self._identity)
        gone = Identities.of(table, self.kept).sorted_set()
        found = sum(each.supersede(gone) for each in self._all())
        if found and self.runs:
            self._deleted.append(gone)
        return found

    def take_changes(self) -> Run | None:
        """What was written and deleted since this was asked last, as one run; None if nothing."""
        written, deleted = self._written, self._deleted
        if not written and not deleted:
            return None
        self._written, self._deleted = [], []
        tombstones = Identities.joined(deleted).sorted_set()
        if len(written) == 1 and not written[0].dead:
            run = written[0]
            run.tombstones = tombstones
            return run
        rows = [each.holding_rows() for each in written]
        table = pa.concat_tables(rows) if rows else self.kept.schema.empty_table()
        if not table.num_rows and not len(tombstones):
            return None
        return sorted_run(self.kept, table, tombstones)

    def rows(self) -> pl.DataFrame:
        """All rows; for looking at state, not for operators, whose costs would follow its size."""
        return self._gathered([_part(run, np.flatnonzero(run.live)) for run in self._all()])

    def _all(self) -> list[Run]:
        return [*self.runs, *self._written]

    def _verified(self, run: Run, positions: "Int64s", wanted: "UInt64s") -> "_Part":
        """The rows at these positions whose keys have the second hash that was wanted, too."""
        if not self.kept.row:
            # The identity of a row is that of its key.
            return _part(run, positions[run.identities.rows[positions] == wanted])
        identities, rows = _part(run, positions)
        second = hashes([rows.column(name) for name in self.kept.key], ROWS, rows.num_rows)
        if (same := second == wanted).all():
            return identities, rows
        return identities.at(same), rows.filter(pa.array(same))

    def _gathered(self, parts: "list[_Part]") -> pl.DataFrame:
        parts = [each for each in parts if len(each[0])]
        if not parts:
            return self._empty
        identities = Identities.joined([each for each, _ in parts])
        rows = pa.concat_tables([each for _, each in parts]).combine_chunks()
        return to_polars(rows.take(pa.array(identities.order())))


def _part(run: Run, positions: "Int64s") -> "_Part":
    return run.identities.at(positions), run.take(positions)


def _within(run: Run, positions: "Int64s", since: int | None, until: int | None) -> Any:
    times = run.times()[positions]
    within = np.ones(len(positions), np.bool_)
    if since is not None:
        within &= times >= since
    if until is not None:
        within &= times <= until
    return within
