"""A window operator in one bucket, batch by batch, with the table that its changes give."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from headrace.streams.state.blobs import to_polars
from headrace.streams.state.bucket import Bucket, Job, caught_up
from headrace.streams.state.cache import Copies
from headrace.streams.state.operator import Operator
from headrace.streams.state.record import Record
from headrace.streams.state.spilling import Room
from headrace.streams.state.storage import MemoryStorage
from headrace.streams.state.watermarks import CLOCK
from headrace.streams.windows.layout import INPUT

_MEMORY = 1 << 24


class Given:
    """A watermark that a test sets."""

    def observe(self, source: str, events: pl.DataFrame) -> Mapping[str, int]:
        return {}

    def advance(self, memory: str, bounds: Mapping[str, int]) -> tuple[str, int | None]:
        known = [int(memory)] if memory else []
        reached = max([*known, *bounds.values()], default=None)
        return ("" if reached is None else str(reached)), reached


class WindowRun:
    """A bucket with a window operator, and its table as a reader of the changes sees it."""

    def __init__(self, operator: Operator, schema: Any) -> None:
        operator.description.check()
        self.operator = operator
        self.schema = to_polars(schema.empty_table()).schema
        self.storage = MemoryStorage()
        self.copies = Copies(_MEMORY, _MEMORY)
        self.table: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self.changes: list[tuple[Any, ...]] = []
        self.late: list[dict[str, Any]] = []
        self.counts: dict[str, int] = {}

    def restart(self) -> None:
        """Forget what the worker has in memory."""
        self.copies = Copies(_MEMORY, _MEMORY)

    def batch(
        self,
        rows: Sequence[Mapping[str, Any]],
        watermark: int | None = None,
        clock: int | None = None,
        tasks: int = 1,
    ) -> list[tuple[Any, ...]]:
        """Apply a batch whose rows come from some tasks; returns the changes."""
        parts = [
            self.operator.prepare(INPUT, pl.DataFrame(rows[number::tasks], self.schema))
            for number in range(tasks)
        ]
        events = {INPUT: pl.concat(parts)}
        if clock is not None:
            events[CLOCK] = pl.DataFrame({CLOCK: [clock]})
        bounds = {} if watermark is None else {"given": watermark}
        bucket = Bucket(Job("tests", self.operator, Given()), 0, self.storage, self.copies)
        outputs = {
            name: to_polars(each)
            for name, each in bucket.apply("b", events, bounds).outputs.items()
        }
        for row in outputs.get("counts", pl.DataFrame()).iter_rows(named=True):
            self.counts[row["_reason"]] = self.counts.get(row["_reason"], 0) + row["rows"]
        self.late += outputs.get("late", pl.DataFrame()).to_dicts()
        changes = _shown(outputs["main"]) if "main" in outputs else []
        self.apply(changes)
        self.changes += changes
        return changes

    def apply(self, changes: list[tuple[Any, ...]]) -> None:
        """Apply changes to the table; every one must fit what is there."""
        keys = 2 + len(self.operator._layout.by)  # type: ignore[attr-defined]
        for *row, change in changes:
            key, values = tuple(row[:keys]), tuple(row[keys:])
            if change == "insert":
                assert key not in self.table, f"{key} is inserted twice"
                self.table[key] = values
            elif change == "update_after":
                assert key in self.table, f"{key} is updated but was not told"
                self.table[key] = values
            else:
                assert self.table.get(key) == values, f"{key} {change}: {values} was not told"
                if change == "delete":
                    del self.table[key]

    def rows_kept(self) -> int:
        """How many rows of state there are, but for how far time has come."""
        return rows_kept(self.operator, self.storage)


def rows_kept(operator: Operator, storage: MemoryStorage) -> int:
    """How many rows of state a bucket has stored, but for how far time has come."""
    if storage.record is None:
        return 0
    record = Record.from_bytes(storage.record)
    found = 0
    for name, kept in operator.description.tables.items():
        runs = caught_up(kept, record.runs.get(name, ()), {}, storage, Room(_MEMORY))
        found += sum(each.holding for each in runs.values()) if name != "progress" else 0
    return found


def _shown(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """The rows with times as microseconds, since those are what tests count in."""
    times = [pl.col(each).to_physical() for each in ("window_start", "window_end")]
    return [
        tuple(tuple(each) if isinstance(each, list) else each for each in row)
        for row in frame.with_columns(times).iter_rows()
    ]
