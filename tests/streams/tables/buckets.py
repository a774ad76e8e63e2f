"""Operators of tables in several buckets, batch by batch, and a reader of what they tell."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from headrace.streams.state.blobs import schema_to_text, to_arrow, to_polars
from headrace.streams.state.bucket import Bucket, Job
from headrace.streams.state.cache import Copies
from headrace.streams.state.operator import Operator
from headrace.streams.state.packing import Packing, bucket_keys, empty_events, events_of
from headrace.streams.state.storage import MemoryStorage
from headrace.streams.tables.changes import CHANGES

_MEMORY = 1 << 26
_MARKS = [("_deleted", pa.bool_()), ("_change", pa.string())]

Row = Mapping[str, Any]


class Buckets:
    """An operator in a few buckets: rows are packed, shared out and unpacked as on Spark."""

    def __init__(
        self,
        operator: Operator,
        inputs: Mapping[str, tuple[Any, tuple[str, ...]]],
        buckets: int = 3,
    ) -> None:
        """Take the operator, and of each input its schema, with marks, and its key."""
        operator.description.check()
        self.operator = operator
        self.inputs = inputs
        self.buckets = buckets
        self.storages = [MemoryStorage() for _ in range(buckets)]
        self.copies = [Copies(_MEMORY, _MEMORY) for _ in range(buckets)]
        self.empty = empty_events(
            {
                name: schema_to_text(self._prepared(name, to_polars(schema.empty_table())).schema)
                for name, (schema, _) in inputs.items()
            }
        )

    def restart(self) -> None:
        """Forget what the workers have in memory."""
        self.copies = [Copies(_MEMORY, _MEMORY) for _ in range(self.buckets)]

    def batch(self, tasks: Mapping[str, Sequence[pl.DataFrame]]) -> list[pl.DataFrame]:
        """Apply a batch whose rows come from some tasks; returns what each bucket tells."""
        packed: dict[int, list[dict[str, Any]]] = {key: [] for key in bucket_keys(self.buckets)}
        for name, frames in tasks.items():
            schema, key = self.inputs[name]
            packing = Packing(name, key, self.buckets, self.operator)
            for task, frame in enumerate(frames):
                for each in packing.pack(task, to_arrow(frame, schema).to_batches()):
                    for row in each.to_pylist():
                        packed[row["bucket"]].append(row)
        told = []
        for number, rows in enumerate(packed.values()):
            rows.sort(key=lambda row: (row["source"], row["task"], row["part"]))
            events = events_of([(row["source"], row["rows"]) for row in rows], self.empty)
            if not rows:
                continue
            bucket = Bucket(
                Job("tests", self.operator), number, self.storages[number], self.copies[number]
            )
            outputs = bucket.apply(number, events, {}).outputs
            if "main" in outputs:
                told.append(to_polars(outputs["main"]))
        return told

    def upserts(self, rows: Sequence[Row], source: str = CHANGES) -> pl.DataFrame:
        """Rows as a frame of an input; what they do not say is null."""
        schema, _ = self.inputs[source]
        return pl.DataFrame(
            [{name: row.get(name) for name in schema.names} for row in rows],
            to_polars(schema.empty_table()).schema,
        )

    def _prepared(self, name: str, events: pl.DataFrame) -> Any:
        prepared = self.operator.prepare(name, events)
        return prepared.to_arrow(compat_level=pl.CompatLevel.oldest())


class Reader:
    """A table as somebody sees it who applies its changes one after the other."""

    def __init__(self, key: Sequence[str]) -> None:
        self.key = tuple(key)
        self.table: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.told: list[dict[str, Any]] = []

    def apply(self, frames: Sequence[pl.DataFrame]) -> list[dict[str, Any]]:
        """Apply changes, each of which has to fit what is there and to change it."""
        changes = [row for frame in frames for row in frame.to_dicts()]
        begun = dict(self.table)
        for change in changes:
            row = dict(change)
            kind = row.pop("_change")
            key = tuple(row[each] for each in self.key)
            if kind == "insert":
                assert key not in self.table, f"{key} is inserted twice"
                self.table[key] = row
            elif kind == "update_after":
                assert key in self.table, f"{key} is updated, but was not told"
                assert self.table[key] != row, f"{key} is updated to what it was"
                self.table[key] = row
            else:
                assert self.table.get(key) == row, f"{key} {kind}: {row} was not told"
                if kind == "delete":
                    del self.table[key]
        self._check_net(changes, begun)
        self.told += changes
        return changes

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What there is, in the order of the keys."""
        return in_order(self.table.values())

    def _check_net(self, changes: list[dict[str, Any]], begun: Mapping[Any, Any]) -> None:
        """Of every key there must be told one change at most."""
        keys = [
            tuple(change[each] for each in self.key)
            for change in changes
            if change["_change"] != "update_before"
        ]
        assert len(keys) == len(set(keys)), "a key is told of twice in one batch"
        same = [key for key in keys if begun.get(key) == self.table.get(key)]
        assert not same, f"{same} are told of, but have not changed"


def marked(schema: Any, mark: str) -> Any:
    """A schema with the column that tells what becomes of rows."""
    return schema.append(pa.field(mark, dict(_MARKS)[mark]))


def in_order(rows: Any) -> list[dict[str, Any]]:
    """Rows in an order that only they decide."""
    return sorted(rows, key=lambda row: [(each is not None, str(each)) for each in row.values()])
