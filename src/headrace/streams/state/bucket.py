"""One bucket through one batch: read what is needed, update, write what has changed.

What is stored are a record and numbered chunks (`record`, `chunks`). The rows that a batch changes
become one new run per table; runs are merged now and then (`merging`). A worker that has seen the
bucket before has its rows decoded already (`cache`), and then nothing but the record is read.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.streams.state.blobs import to_arrow
from headrace.streams.state.budget import Limits, check_budget
from headrace.streams.state.cache import Copies, Copy, Found
from headrace.streams.state.chunks import ChunkWriter, read_run
from headrace.streams.state.errors import InvalidOperator
from headrace.streams.state.evolution import check_fits, shape_of
from headrace.streams.state.merging import merged_parts, merged_tombstones, to_merge
from headrace.streams.state.operator import Kept, Operator, State
from headrace.streams.state.record import Record, StoredRun
from headrace.streams.state.runs import Run
from headrace.streams.state.spilling import Room
from headrace.streams.state.storage import Storage
from headrace.streams.state.table import StateTable
from headrace.streams.state.watermarks import CLOCK, Watermark

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Job:
    """What is done with every bucket: whose it is, what changes it, and within what limits."""

    flow: str
    operator: Operator
    watermark: Watermark | None = None
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Applied:
    """What a batch did to a bucket."""

    outputs: Mapping[str, Any]
    """Arrow tables, those with rows, by the name of the output."""

    found: Found
    """What the worker had of the bucket."""

    version: int
    rows: int
    """How many rows the bucket has now, in all tables."""

    bytes: int
    expired: int
    """Rows that were removed because their time to live was over."""

    rewritten: int
    """Rows that were written again by merging runs."""

    watermark: int | None
    memory: str = ""
    """What the watermark remembers of its sources."""


class Bucket:
    """A bucket while a batch is applied to it."""

    def __init__(self, job: Job, number: int, storage: Storage, copies: Copies) -> None:
        self._job = job
        self._number = number
        self._storage = storage
        self._copies = copies
        self._description = job.operator.description
        self._shape = shape_of(self._description)
        self._rewritten = 0

    def apply(
        self, key: Hashable, events: "Mapping[str, pl.DataFrame]", bounds: Mapping[str, int]
    ) -> Applied:
        """Apply a batch's events; `key` is the bucket's name among the worker's copies.

        Raises StateMismatch if what is stored does not fit the operator, StateTooLarge if it has
        outgrown its budget, InvalidOperator for rows that do not fit their output or table.
        """
        record = self._record()
        copy = self._copies.take(key)
        if copy is not None and copy.shape != self._shape:
            # The worker has outlived an edit: its rows have the columns of the operator before.
            copy = None
        found = Found.NOTHING if copy is None else copy.fits(record)
        if copy is None or found is Found.INVALID:
            copy = Copy()
        runs = self._caught_up(copy, record)
        tables = {
            name: StateTable(kept, runs[name].values())
            for name, kept in self._description.tables.items()
        }
        clock, watermark = self._advanced(record, bounds)
        said = self._job.operator.update(State(tables), _timed(events, bounds), watermark)
        expired = _expire(tables, watermark)
        outputs = self._outputs(said)
        kept_runs, after = self._stored(record, runs, tables, clock, watermark)
        self._copies.put(key, Copy(after.version, after.states[-1], kept_runs, self._shape))
        return Applied(
            outputs,
            found,
            after.version,
            sum(map(_holding, kept_runs.values())),
            after.size,
            expired,
            self._rewritten,
            watermark,
            clock,
        )

    def _record(self) -> Record:
        stored = self._storage.read_record()
        if stored is None:
            return Record(self._shape)
        record = Record.from_bytes(stored)
        if record.shape != self._shape:
            check_fits(record.shape, self._shape, self._job.flow)
        return record

    def _caught_up(self, copy: Copy, record: Record) -> dict[str, dict[StoredRun, Run]]:
        """The decoded runs of what is stored; those that the copy has are not read."""
        storage, room = self._storage, self._copies.room
        return {
            name: caught_up(kept, record.runs.get(name, ()), copy.runs.get(name, {}), storage, room)
            for name, kept in self._description.tables.items()
        }

    def _advanced(self, record: Record, bounds: Mapping[str, int]) -> tuple[str, int | None]:
        if self._job.watermark is None:
            return record.clock, record.watermark
        clock, watermark = self._job.watermark.advance(record.clock, bounds)
        before = record.watermark
        if before is not None and (watermark is None or watermark < before):
            raise InvalidOperator(
                f"Flow {self._job.flow}, operator {self._description.name}: the watermark went "
                f"back from {before} to {watermark}; time that was said to be over would come "
                "again. Let advance() return no less than it did before."
            )
        return clock, watermark

    def _outputs(self, said: "Mapping[str, pl.DataFrame]") -> dict[str, Any]:
        import polars as pl
        import pyarrow as pa

        description = self._description
        if unknown := said.keys() - description.outputs.keys():
            raise InvalidOperator(
                f"Operator {description.name} returned rows for {', '.join(sorted(unknown))}; its "
                f"outputs are {', '.join(description.outputs)}."
            )
        try:
            return {
                name: to_arrow(said[name], schema)
                for name, schema in description.outputs.items()
                if name in said and said[name].height
            }
        except (pl.exceptions.PolarsError, pa.ArrowException) as error:
            raise InvalidOperator(
                f"Operator {description.name} returned rows that do not fit its outputs: {error}"
            ) from error

    def _stored(
        self,
        record: Record,
        runs: dict[str, dict[StoredRun, Run]],
        tables: Mapping[str, StateTable],
        clock: str,
        watermark: int | None,
    ) -> tuple[dict[str, dict[StoredRun, Run]], Record]:
        """Write what has changed, and return the runs and the record as they are stored now."""
        writer = ChunkWriter(self._storage, self._copies.room, record.next_chunk)
        after = {
            name: self._arranged(table, runs[name], table.take_changes(), writer)
            for name, table in tables.items()
        }
        if _size(after) > self._job.limits.bucket:
            after = {
                name: self._merged(tables[name].kept, list(each.items()), 0, writer)
                for name, each in after.items()
            }
            check_budget(
                _size(after),
                self._job.limits,
                f"Flow {self._job.flow}, operator {self._description.name}",
                {
                    name: StateTable(each.kept, after[name].values())
                    for name, each in tables.items()
                },
            )
        same = all(list(after[name]) == list(runs[name]) for name in after)
        if same and (clock, watermark) == (record.clock, record.watermark) and record.version:
            return after, record
        changes = b"".join([clock.encode(), *writer.written])
        record = record.after(
            changes,
            shape=self._shape,
            runs={name: tuple(each) for name, each in after.items()},
            rows={name: _holding(each) for name, each in after.items()},
            next_chunk=writer.next_chunk,
            clock=clock,
            watermark=watermark,
        )
        self._storage.write_record(record.to_bytes())
        return after, record

    def _arranged(
        self,
        table: StateTable,
        runs: dict[StoredRun, Run],
        changes: Run | None,
        writer: ChunkWriter,
    ) -> dict[StoredRun, Run]:
        """A table's runs with its changes as one more, merged and dropped where that is due."""
        kept: list[tuple[StoredRun | None, Run]] = []
        for stored, run in runs.items():
            if run.holding or (len(run.tombstones) and kept):
                kept.append((stored, run))
            else:
                writer.remove(stored)
        if changes is not None and (len(changes) or kept):
            kept.append((None, changes))
        sizes = [len(run) + len(run.tombstones) for _, run in kept]
        first = to_merge(sizes, self._number)
        if changes is not None:
            # What is new has to be written anyhow, by itself or as part of a merged run.
            first = min(first, max(len(kept) - 1, 0))
        return self._merged(table.kept, kept, first, writer)

    def _merged(
        self,
        kept: Kept,
        runs: "list[tuple[StoredRun | None, Run]] | list[tuple[StoredRun, Run]]",
        first: int,
        writer: ChunkWriter,
    ) -> dict[StoredRun, Run]:
        older = {stored: run for stored, run in runs[:first] if stored is not None}
        if first >= len(runs):
            return older
        old = [stored for stored, _ in runs[first:] if stored is not None]
        merged = [run for _, run in runs[first:]]
        rows = sum(len(each) for each in merged)
        size = sum(batch.nbytes for each in merged for batch in each.batches)
        per_part = max(1, self._job.limits.chunk * rows // max(size, 1))
        tombstones = merged_tombstones(merged, oldest=not older)
        stored, run = writer.write(kept, merged_parts(merged, per_part), tombstones)
        for each in old:
            writer.remove(each)
        if old:
            self._rewritten += len(run)
        return {**older, stored: run} if len(run) or len(tombstones) else older


def caught_up(
    kept: Kept,
    stored: tuple[StoredRun, ...],
    known: Mapping[StoredRun, Run],
    storage: Storage,
    room: Room,
) -> dict[StoredRun, Run]:
    """The runs that are stored: those that are known, the others read, and all of them marked."""
    fresh = [each not in known for each in stored]
    runs = [
        read_run(kept, each, storage, room) if new else known[each]
        for each, new in zip(stored, fresh, strict=True)
    ]
    for number, run in enumerate(runs):
        for earlier in range(number):
            if fresh[number] or fresh[earlier]:
                runs[earlier].give_way_to(run)
    return dict(zip(stored, runs, strict=True))


def _timed(
    events: "Mapping[str, pl.DataFrame]", bounds: Mapping[str, int]
) -> "Mapping[str, pl.DataFrame]":
    """The events, and beside them the time of the batch, if that was told."""
    import polars as pl

    if CLOCK not in bounds:
        return events
    return {**events, CLOCK: pl.DataFrame({CLOCK: [bounds[CLOCK]]})}


def _expire(tables: Mapping[str, StateTable], watermark: int | None) -> int:
    if watermark is None:
        return 0
    return sum(
        table.delete(table.due(watermark - table.kept.keep_for))
        for table in tables.values()
        if table.kept.keep_for is not None
    )


def _holding(runs: Mapping[StoredRun, Run]) -> int:
    return sum(run.holding for run in runs.values())


def _size(runs: Mapping[str, Mapping[StoredRun, Run]]) -> int:
    return sum(stored.bytes for each in runs.values() for stored in each)
