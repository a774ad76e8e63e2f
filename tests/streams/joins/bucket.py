"""A join in one bucket, batch by batch, with all that it has told."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from headrace.streams.state.blobs import to_polars
from headrace.streams.state.bucket import Bucket, Job
from headrace.streams.state.cache import Copies
from headrace.streams.state.operator import Operator
from headrace.streams.state.storage import MemoryStorage
from tests.streams.windows.bucket import Given, rows_kept

_MEMORY = 1 << 26

Row = dict[str, Any]


class JoinRun:
    """A bucket with a join, and what a reader of its outputs has seen."""

    def __init__(self, operator: Operator, schemas: Mapping[str, Any]) -> None:
        operator.description.check()
        self.operator = operator
        self.schemas = {
            name: to_polars(each.empty_table()).schema for name, each in schemas.items()
        }
        self.storage = MemoryStorage()
        self.copies = Copies(_MEMORY, _MEMORY)
        self.told: list[Row] = []
        self.late: list[Row] = []
        self.counts: dict[str, int] = {}

    def restart(self) -> None:
        """Forget what the worker has in memory."""
        self.copies = Copies(_MEMORY, _MEMORY)

    def batch(
        self,
        watermark: int | None = None,
        tasks: int = 1,
        **inputs: Sequence[Mapping[str, Any]],
    ) -> list[Row]:
        """Apply a batch whose rows come from some tasks; returns the rows of `main`."""
        parts = {
            name: [pl.DataFrame(rows[task::tasks], self.schemas[name]) for task in range(tasks)]
            for name, rows in ((each, inputs.get(each, ())) for each in self.schemas)
        }
        return self.frames(watermark, **parts).to_dicts()

    def frames(
        self, watermark: int | None = None, **inputs: Sequence[pl.DataFrame]
    ) -> pl.DataFrame:
        """Apply a batch of frames, one for each task; what other outputs tell is noted."""
        events = {
            name: pl.concat([self.operator.prepare(name, each) for each in parts])
            for name, parts in inputs.items()
        }
        bounds = {} if watermark is None else {"given": watermark}
        bucket = Bucket(Job("tests", self.operator, Given()), 0, self.storage, self.copies)
        outputs = {
            name: _shown(to_polars(each))
            for name, each in bucket.apply("b", events, bounds).outputs.items()
        }
        for row in outputs.get("counts", pl.DataFrame()).iter_rows(named=True):
            self.counts[row["_reason"]] = self.counts.get(row["_reason"], 0) + row["rows"]
        self.late += outputs.get("late", pl.DataFrame()).to_dicts()
        main = outputs.get("main", pl.DataFrame())
        self.told += main.to_dicts()
        return main

    def rows_kept(self) -> int:
        """How many rows of state there are, but for how far time has come."""
        return rows_kept(self.operator, self.storage)

    def bytes_kept(self) -> int:
        """How large what is stored is, with what no longer holds."""
        return sum(map(len, self.storage.chunks.values()))


def _shown(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows with times as microseconds, since those are what tests count in."""
    return frame.with_columns(
        pl.col(name).to_physical()
        for name, kind in frame.schema.items()
        if isinstance(kind, pl.Datetime)
    )
