"""A directory of Parquet files as a store: every write adds one file, which is there as a whole.

    directory/orders/shop.orders.1f0c-3-00000000000000000042.parquet
    directory/_headrace/shop.orders.1f0c/3.json

The second is where a lane keeps its epoch and its position. A write is committed when it says so:
by then the rows are in a file that readers do not look at, and its name is noted too. Then it
gets its real name. If there is no time left for that, whoever claims the lane next does it.

Files cannot be changed, so rows are only ever added. Readers have to take files by their columns'
names (`union_by_name`, `mergeSchema`), since later ones may have more.
"""

import fcntl
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet

from headrace.clock import SystemClock
from headrace.views.stores.changes import Chunk
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
        if shape.key:
            raise StoreRefused(
                "Rows in Parquet files cannot be replaced or deleted, so a table cannot be kept "
                "there: write its changes, as in flow.sink(table.upserts(), ...), or use a store "
                "that has keys."
            )
        for each in shape.columns:
            kind_of(each)
        with _explained(self._directory):
            table = self._directory / shape.table
            table.mkdir(parents=True, exist_ok=True)
            last = max((each for each in table.glob("*.parquet")), default=None)
            if last is not None:
                _require_alike(shape, pyarrow.parquet.read_schema(last))

    def position(self, lane: Lane) -> Position | None:
        """See `Session`."""
        with _explained(self._directory), self._locked(lane) as kept:
            return _position(kept)

    def claim(self, lane: Lane) -> Claim:
        """See `Session`."""
        with _explained(self._directory), self._locked(lane) as kept:
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
                with self._locked(claim.lane) as kept:
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
        columns = shape.columns.remove_metadata()
        with pyarrow.parquet.ParquetWriter(path, columns, compression="zstd") as writer:
            for chunk in chunks:
                writer.write_table(chunk.upserts.select(columns.names).cast(columns))
        _sync(path)
        return {"temporary": temporary, "file": f"{shape.table}/{name}"}

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
        path = self._path(lane)
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(kept))
        _sync(beside)
        self._renamed(beside, path)

    @contextmanager
    def _locked(self, lane: Lane) -> Iterator[dict[str, Any]]:
        """What is kept of a lane, while nobody else can change it."""
        path = self._path(lane)
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield json.loads(path.read_text()) if path.exists() else {}
        finally:
            os.close(lock)

    def _path(self, lane: Lane) -> Path:
        return self._directory / POSITIONS / _named(lane.writer) / f"{_named(lane.place)}.json"


def _require_alike(shape: Shape, present: pa.Schema) -> None:
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
