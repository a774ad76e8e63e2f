"""Tables that change, and the operators that follow them, one behind the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from headrace.streams.tables.changelog import Changelog
from headrace.streams.tables.changes import CHANGES
from headrace.streams.tables.joined import TableJoin
from headrace.streams.tables.settled import Settled
from headrace.streams.tables.sides import TableSide
from tests.streams.tables.buckets import Buckets, Row, marked


@dataclass
class Source:
    """A table that is written to, by upserts and deletions."""

    schema: Any
    key: tuple[str, ...]
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)

    def write(self, rows: Sequence[Row]) -> None:
        """Upsert rows, or delete them, in their order."""
        for row in rows:
            key = tuple(row[each] for each in self.key)
            if row.get("_deleted"):
                self.rows.pop(key, None)
            else:
                self.rows[key] = {each: row.get(each) for each in self.schema.names}


class ChangelogChain:
    """Upserts as changes."""

    def __init__(self, schema: Any, key: tuple[str, ...], buckets: int = 3) -> None:
        self.schema = marked(schema, "_deleted")
        operator = Changelog("changelog", self.schema, key)
        self.run = Buckets(operator, {CHANGES: (self.schema, key)}, buckets)

    def batch(self, rows: Sequence[Row]) -> list[pl.DataFrame]:
        """The changes that upserts make, of each bucket."""
        return self.run.batch({CHANGES: [self.run.upserts(rows)]})

    def restart(self) -> None:
        """Forget what the workers have in memory."""
        self.run.restart()


class JoinChain:
    """A join of two tables, with what is in front of it and behind it."""

    def __init__(self, left: TableSide, right: TableSide, how: str, buckets: int = 3) -> None:
        self.sides = {"left": left, "right": right}
        self.logs = {
            name: ChangelogChain(side.schema, side.key, buckets)
            for name, side in self.sides.items()
            if side.changelog
        }
        self.operator = TableJoin("join", left, right, how)
        inputs = {
            name: (marked(side.schema, "_change" if side.changelog else "_deleted"), side.on)
            for name, side in self.sides.items()
        }
        self.run = Buckets(self.operator, inputs, buckets)
        self.settled: Buckets | None = None
        if self.operator.scattered:
            rows = self.operator.description.outputs["main"]
            settled = Settled("settled", rows, self.operator.key)
            self.settled = Buckets(settled, {CHANGES: (rows, self.operator.key)}, buckets)

    def batch(self, changes: Mapping[str, Sequence[Row]]) -> list[pl.DataFrame]:
        """The changes that upserts of both sides make, in an order in which they can be applied."""
        told = self.joined(changes)
        return told if self.settled is None else self.settled.batch({CHANGES: told})

    def joined(self, changes: Mapping[str, Sequence[Row]]) -> list[pl.DataFrame]:
        """The changes that the join tells, of each bucket, the last bucket first."""
        tasks = {
            name: self.logs[name].batch(rows)[::-1]
            if name in self.logs
            else [self.run.upserts(rows, name)]
            for name, rows in changes.items()
        }
        return self.run.batch(tasks)[::-1]

    def restart(self) -> None:
        """Forget what the workers have in memory."""
        self.run.restart()
        for each in self.logs.values():
            each.restart()
