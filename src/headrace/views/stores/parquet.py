"""A directory of Parquet files as a store: every write adds one file, which is there as a whole.

    directory/orders/shop.orders.1f0c-3-00000000000000000042.parquet
    directory/_headrace/shop.orders.1f0c/3.json

The second is where a lane keeps its epoch and its position. A write is committed when it says so:
by then the rows are in a file that readers do not look at, and its name is noted too. Then it
gets its real name. If there is no time left for that, whoever claims the lane next does it.

Files cannot be changed, so rows are only ever added. Of a table it is its changes that are: a row
for each key that a write changed, with the columns `_deleted`, `_version` and `_row`. The last one
of a key, by `_version` and then `_row`, is how it is now, and `latest` reads just those. Readers
have to take files by their columns' names (`union_by_name`, `mergeSchema`), since later ones may
have more.
"""

import fcntl
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from headrace.clock import SystemClock
from headrace.views.stores.changes import DELETED, ROW, Chunk, last_of_each
from headrace.views.stores.contract import (
    VERSION,
    Claim,
    Lane,
    Position,
    Refuse,
    Shape,
)
from headrace.views.stores.errors import (
    ClaimLost,
    ColumnsRefused,
    StoreRefused,
    StoreUnreachable,
)
from headrace.views.stores.kinds import kind_of

POSITIONS: Final = "_headrace"
"""The directory of positions; names that begin like this are no data to those who read Parquet."""

ROW_VERSION: Final = "_version"
"""The column that tells which change of a key is the later one; those of one write are alike."""

_OF_CHANGES: Final = (
    pa.field(DELETED, pa.bool_()),
    pa.field(ROW_VERSION, pa.int64()),
    pa.field(ROW, pa.int64()),
)
"""The columns that changes have besides those of their table."""

_TABLES: Final = "_tables"
"""Where the writers of tables are noted, beside the directories of positions."""

_GENERATION_BITS: Final = 47
"""Versions are 63 bits: the lower ones are positions, the upper ones number the writers."""


@dataclass(frozen=True, slots=True)
class ParquetStore:
    """A directory, in which every table is one; it is made if it is not there."""

    directory: str

    def session(self) -> "ParquetSession":
        """See `Store`."""
        return ParquetSession(Path(self.directory))


class ParquetSession:
    """Writes files into a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def prepare(self, shape: Shape) -> None:
        """See `Session`."""
        for each in shape.columns:
            kind_of(each)
        if shape.key and ROW_VERSION in shape.columns.names:
            raise ColumnsRefused(
                f"The column {ROW_VERSION} of {shape.table} has the name of one that changes have "
                "in files; select it under another one."
            )
        with _explained(self._directory):
            table = self._directory / shape.table
            table.mkdir(parents=True, exist_ok=True)
            last = max((each for each in table.glob("*.parquet")), default=None)
            if last is not None:
                _require_alike(shape, pyarrow.parquet.read_schema(last))

    def position(self, lane: Lane) -> Position | None:
        """See `Session`."""
        with _explained(self._directory), _locked(self._path(lane)) as kept:
            return _position(kept)

    def claim(self, lane: Lane) -> Claim:
        """See `Session`."""
        with _explained(self._directory), _locked(self._path(lane)) as kept:
            self._finish(kept)
            epoch = int(kept.get("epoch", 0)) + 1
            self._keep(lane, epoch, _position(kept))
            return Claim(lane, epoch, _position(kept))

    def apply(
        self,
        claim: Claim,
        position: Position,
        shape: Shape | None,
        chunks: Iterable[Chunk],
        refuse: Refuse,
    ) -> None:
        """See `Session`; a file takes every row."""
        with _explained(self._directory):
            file = {} if shape is None else self._written(claim.lane, position, shape, chunks)
            try:
                with _locked(self._path(claim.lane)) as kept:
                    if kept.get("epoch") != claim.epoch:
                        raise ClaimLost(claim.lane.writer, claim.lane.place)
                    self._keep(claim.lane, claim.epoch, position, file)
                    self._finish(file)
            finally:
                if file:
                    (self._directory / file["temporary"]).unlink(missing_ok=True)

    def alive(self) -> bool:
        """See `Session`."""
        return True

    def close(self) -> None:
        """See `Session`."""

    def _written(
        self, lane: Lane, position: Position, shape: Shape, chunks: Iterable[Chunk]
    ) -> dict[str, str]:
        """Write a file that nobody looks at yet; its name, and the one that it is to have."""
        name = f"{_named(lane.writer)}-{_named(lane.place)}-{position.number:020}.parquet"
        # Hidden from readers by its first character, and from other attempts by its last ones.
        temporary = f"{shape.table}/_{name}.{uuid.uuid4().hex}"
        path = self._directory / temporary
        columns = _columns(shape)
        version = 0
        if shape.key:
            version = self._generation(shape.table, lane.writer) << _GENERATION_BITS
            version += position.number
        with pyarrow.parquet.ParquetWriter(path, columns, compression="zstd") as writer:
            for chunk in chunks:
                rows = _changes(chunk, version) if shape.key else chunk.upserts
                writer.write_table(rows.select(columns.names).cast(columns))
        _sync(path)
        return {"temporary": temporary, "file": f"{shape.table}/{name}"}

    def _generation(self, table: str, writer: str) -> int:
        """The number of a writer among those of a table; a new one has the next.

        Its positions begin at 0 again, and what it writes must count as later all the same.
        """
        path = self._directory / POSITIONS / _TABLES / f"{_named(table)}.json"
        with _locked(path) as kept:
            writers: list[str] = kept.get("writers", [])
            if writer not in writers:
                writers.append(writer)
                self._replace(path, {"version": VERSION, "writers": writers})
            return writers.index(writer)

    def _finish(self, kept: dict[str, Any]) -> None:
        """Give a file that is committed its name, if it does not have it yet."""
        if "temporary" not in kept:
            return
        temporary = self._directory / kept["temporary"]
        if temporary.exists():
            self._renamed(temporary, self._directory / kept["file"])

    def _renamed(self, temporary: Path, path: Path) -> None:
        temporary.rename(path)
        _sync(path.parent)

    def _keep(
        self,
        lane: Lane,
        epoch: int,
        position: Position | None,
        file: dict[str, str] | None = None,
    ) -> None:
        kept = {
            "version": VERSION,
            "epoch": epoch,
            "position": None if position is None else position.number,
            "note": "" if position is None else position.note,
            "changed": SystemClock().now_ms(),
            **(file or {}),
        }
        self._replace(self._path(lane), kept)

    def _replace(self, path: Path, kept: dict[str, Any]) -> None:
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(kept))
        _sync(beside)
        self._renamed(beside, path)

    def _path(self, lane: Lane) -> Path:
        return self._directory / POSITIONS / _named(lane.writer) / f"{_named(lane.place)}.json"


def latest(directory: str | Path, key: Sequence[str]) -> pa.Table:
    """The rows that a table has now, of the directory with its changes.

    All changes are read, so this takes as long and as much memory as there are of them.
    """
    files = sorted(Path(directory).glob("[!_]*.parquet"))
    if not files:
        return pa.table({})
    changes = pa.concat_tables(
        [pyarrow.parquet.read_table(each) for each in files], promote_options="default"
    ).sort_by([(ROW_VERSION, "ascending"), (ROW, "ascending")])
    places = pa.array(range(changes.num_rows), pa.int64())
    changes = changes.drop_columns(ROW).append_column(ROW, places)
    rows = last_of_each(changes, key)
    kept = rows.filter(pc.invert(rows.column(DELETED)))
    return kept.drop_columns([each.name for each in _OF_CHANGES])


def _columns(shape: Shape) -> pa.Schema:
    """The columns of a file; those that are not of the key are null where a row was deleted."""
    columns = shape.columns.remove_metadata()
    if not shape.key:
        return columns
    nullable = [each.with_nullable(each.name not in shape.key) for each in columns]
    return pa.schema([*nullable, *_OF_CHANGES])


def _changes(chunk: Chunk, version: int) -> pa.Table:
    """Rows and deletions as changes, each with its version."""
    parts = [
        part.append_column(DELETED, pa.repeat(deleted, part.num_rows)).append_column(
            ROW_VERSION, pa.repeat(pa.scalar(version, pa.int64()), part.num_rows)
        )
        for part, deleted in ((chunk.upserts, False), (chunk.deletes, True))
    ]
    return pa.concat_tables(parts, promote_options="default")


@contextmanager
def _locked(path: Path) -> Iterator[dict[str, Any]]:
    """What is kept in a file, while nobody else can change it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield json.loads(path.read_text()) if path.exists() else {}
    finally:
        os.close(lock)


def _require_alike(shape: Shape, present: pa.Schema) -> None:
    if shape.key and ROW_VERSION not in present.names:
        raise ColumnsRefused(
            f"{shape.table} has files with rows of a stream, among which the changes of a table "
            "would not be found; write to another table."
        )
    if ROW_VERSION in present.names and not shape.key:
        raise ColumnsRefused(
            f"{shape.table} has files with the changes of a table, and rows of a stream would lack "
            f"its columns {', '.join(each.name for each in _OF_CHANGES)}; write to another table."
        )
    for field in shape.columns:
        index = present.get_field_index(field.name)
        if index >= 0 and present.field(index).type != field.type:
            raise ColumnsRefused(
                f"The column {field.name} of {shape.table} is {present.field(index).type} in files "
                f"that are there, and would be {field.type}; cast it in what you write, or write "
                "to another table."
            )


def _position(kept: dict[str, Any]) -> Position | None:
    number = kept.get("position")
    return None if number is None else Position(int(number), kept["note"])


def _named(text: str) -> str:
    """A text as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._@=-]", "_", text)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _explained(directory: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise StoreRefused(f"{directory} cannot be written: {error}") from None
    except OSError as error:
        raise StoreUnreachable(f"{directory} cannot be written now: {error}") from None
