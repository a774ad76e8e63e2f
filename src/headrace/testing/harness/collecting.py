"""A sink that keeps the contract in a directory, for what a test wants to look at.

    <directory>/<query>/batch                      the last batch that was begun: "ID PARTITIONS"
    <directory>/<query>/<place>/attempt            the number of the last attempt at this place
    <directory>/<query>/<place>/ID-of-PARTITIONS.arrow     the rows of a batch

A file of rows appears by being renamed, which is its commit.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.clock import Clock
from headrace.streams.sinks.contract import (
    Batch,
    Fenced,
    Outcome,
    Overtaken,
    PartitionsChanged,
    Place,
    Written,
)

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """The rows of one place of one batch."""

    batch: int
    place: int
    partitions: int
    path: Path

    @classmethod
    def of(cls, path: Path) -> "Part":
        """What a file's name says."""
        batch, _, partitions = path.stem.partition("-of-")
        return cls(int(batch), int(path.parent.name), int(partitions), path)


@dataclass(frozen=True, slots=True)
class CollectingSink:
    """Writes rows to files, each place of a batch once."""

    directory: Path
    clock: Clock

    def begin(self, batch: Batch) -> None:
        """Note into how many partitions the batch is cut."""
        home = self.directory / batch.query
        home.mkdir(parents=True, exist_ok=True)
        with _alone(home):
            begun = home / "batch"
            if begun.exists():
                before, partitions = map(int, begun.read_text(encoding="utf-8").split())
                if before > batch.id:
                    raise Overtaken(batch.query, batch.id)
                if before == batch.id and partitions != batch.partitions:
                    raise PartitionsChanged(batch.query, batch.id, partitions, batch.partitions)
            _replace(begun, f"{batch.id} {batch.partitions}".encode())

    def write(self, place: Place, rows: "Iterator[pa.RecordBatch]") -> Written:
        """Write the rows of a place; all of them appear at once."""
        home = self.directory / place.query / str(place.partition)
        home.mkdir(parents=True, exist_ok=True)
        with _alone(home):
            attempt = _attempt(home) + 1
            _replace(home / "attempt", str(attempt).encode())
            before = max(map(Part.of, home.glob("*.arrow")), default=None)
        if before is not None and before.batch > place.batch_id:
            return Written(Outcome.OVERTAKEN)
        if before is not None and before.batch == place.batch_id:
            if before.partitions != place.partitions:
                raise PartitionsChanged(
                    place.query, place.batch_id, before.partitions, place.partitions
                )
            return Written(Outcome.REPEATED)
        temporary = home / f"{attempt}.uncommitted"
        written = self._write(temporary, rows)
        with _alone(home):
            if _attempt(home) != attempt:
                raise Fenced(
                    f"Batch {place.batch_id} of {place.query}, partition {place.partition}: a "
                    "later attempt has taken over."
                )
            if written.rows:
                temporary.rename(home / f"{place.batch_id:08}-of-{place.partitions}.arrow")
        return written

    def _write(self, path: Path, rows: "Iterator[pa.RecordBatch]") -> Written:
        import pyarrow as pa

        batches = [each for each in rows if each.num_rows]
        if not batches:
            return Written(Outcome.WRITTEN)
        about = {"written_ms": str(self.clock.now_ms())}
        table = pa.Table.from_batches(batches).replace_schema_metadata(about)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as stream:
            stream.write_table(table)
        return Written(Outcome.WRITTEN, table.num_rows, table.nbytes)


def parts(directory: Path) -> list[Part]:
    """All that was committed, in the order of batches and places."""
    return sorted(map(Part.of, directory.glob("*/*/*.arrow")))


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Keep other attempts out for a moment."""
    with (home / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _attempt(home: Path) -> int:
    noted = home / "attempt"
    return int(noted.read_text(encoding="utf-8")) if noted.exists() else 0


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(content)
    temporary.replace(path)
