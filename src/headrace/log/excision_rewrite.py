"""Excision of one segment: find the records that are to go, and write a file without them.

Runs in a process of its own: NumPy, Numba and Arrow are imported here when they are needed, and a
broker never needs them.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.log.disk import Disk, write_all
from headrace.log.errors import storage_error
from headrace.log.excision import ExcisionRefused, FileChange, Findings, OffsetRange, SegmentFile
from headrace.log.handles import FileHandle
from headrace.log.index import SparseIndex
from headrace.log.index_file import IndexFile
from headrace.log.manifest import REWRITTEN
from headrace.log.segment import INDEX_SUFFIX, LOG_SUFFIX
from headrace.records import (
    NO_TIMESTAMP,
    RecordError,
    TruncatedBatch,
    iterate_headers,
    read_header,
)
from headrace.records.header import require_whole

if TYPE_CHECKING:
    from headrace.records.matching import Criteria

PIECE_BYTES: Final = 8 << 20
"""How much of a file is in memory at a time, unless a single batch is larger."""

Progress = Callable[[int], None]
"""Told how many more bytes are done."""

Seen = Callable[[Any], None]
"""Told, as Arrow tables, of the records that were found."""


def find_records(
    disk: Disk, segment: SegmentFile, criteria: "Criteria", progress: Progress, seen: Seen
) -> Findings:
    """Look at every record of a segment, and change nothing.

    Raises `ExcisionRefused` if a batch cannot be read.
    """
    from headrace.records.matching import find

    tally = _Tally(seen)
    handle = FileHandle.open(disk, Path(segment.path))
    for position, piece in pieces(handle, segment):
        with _explained(segment, position):
            found = find(piece, criteria)
        tally.add(found.records, found.rows)
        progress(len(piece))
    return tally.findings()


def rewrite_segment(
    disk: Disk,
    segment: SegmentFile,
    criteria: "Criteria",
    tag: str,
    progress: Progress,
    seen: Seen,
) -> FileChange:
    """Write a segment anew beside itself, without the records that are to go, and its index.

    The files are on the disk when this returns; `tag` makes their names unique. If it fails,
    nothing is left of them. Raises `ExcisionRefused` if a batch cannot be read, and `StorageError`
    if the disk refuses.
    """
    from headrace.records.excising import excise

    path = Path(segment.path)
    stem = f"{path.name.removesuffix(LOG_SUFFIX)}.{tag}"
    log_path = path.with_name(stem + LOG_SUFFIX + REWRITTEN)
    index_path = path.with_name(stem + INDEX_SUFFIX + REWRITTEN)
    before = hashlib.sha256()
    tally = _Tally(seen)
    handle = FileHandle.open(disk, path)
    try:
        writer = _SegmentWriter(disk, log_path, segment)
        for position, piece in pieces(handle, segment):
            before.update(piece)
            with _explained(segment, position):
                excised = excise(piece, criteria, at_end=position + len(piece) == segment.size)
            tally.add(excised.records, excised.found)
            writer.write(excised.rest)
            progress(len(piece))
        writer.save(index_path)
    except BaseException as error:
        disk.unlink(log_path)
        disk.unlink(index_path)
        if isinstance(error, OSError):
            raise storage_error(error, path, "rewrite") from error
        raise
    return FileChange(
        log_path.name,
        index_path.name,
        writer.size,
        writer.newest,
        before.hexdigest(),
        writer.digest.hexdigest(),
        tally.findings(),
    )


def pieces(
    handle: FileHandle, segment: SegmentFile, *, partial_tail: bool = False
) -> Iterator[tuple[int, bytes]]:
    """Whole batches of a segment, about `PIECE_BYTES` at a time, and where they begin.

    `partial_tail` allows for a last batch that is still being written. Raises `ExcisionRefused` if
    batches cannot be told apart.
    """
    position = 0
    while position < segment.size:
        with _explained(segment, position):
            piece = handle.read(min(PIECE_BYTES, segment.size - position), position)
            end = _end_of_whole(piece)
            if not end:
                try:
                    size = read_header(piece).size
                    piece = handle.read(min(size, segment.size - position), position)
                    require_whole(read_header(piece), 0, len(piece))
                except TruncatedBatch:
                    if partial_tail:
                        return
                    raise
                end = len(piece)
        yield position, piece[:end]
        position += end


def _end_of_whole(piece: bytes) -> int:
    """Where the last batch ends that is all there."""
    end = 0
    try:
        for position, header in iterate_headers(piece):
            end = position + header.size
    except TruncatedBatch:
        pass
    return end


@contextmanager
def _explained(segment: SegmentFile, position: int) -> Iterator[None]:
    try:
        yield
    except RecordError as error:
        raise ExcisionRefused(
            f"{segment.path} cannot be read from byte {position} on, so nobody can tell what it "
            f"holds: {error}. Restore the file from a copy, or let retention remove it"
        ) from error


class _Tally:
    """Counts what was found in a segment, piece by piece."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._looked_at = self._records = self._bytes = 0
        self._offsets: list[OffsetRange] = []

    def add(self, looked_at: int, rows: Any) -> None:
        from headrace.records.matching import content_size

        self._looked_at += looked_at
        if not rows.num_rows:
            return
        self._records += rows.num_rows
        self._bytes += content_size(rows)
        for offset in rows["offset"].to_pylist():
            if self._offsets and self._offsets[-1].last == offset - 1:
                self._offsets[-1] = OffsetRange(self._offsets[-1].first, offset)
            else:
                self._offsets.append(OffsetRange(offset, offset))
        self._seen(rows)

    def findings(self) -> Findings:
        return Findings(self._looked_at, self._records, self._bytes, self._offsets)


class _SegmentWriter:
    """A segment and its index in the making."""

    def __init__(self, disk: Disk, path: Path, segment: SegmentFile) -> None:
        self._disk = disk
        self._handle = FileHandle(disk, path, disk.create(path))
        self._index = SparseIndex(segment.base_offset)
        self._interval = segment.index_interval
        self._next_entry = 0
        self.size = 0
        self.newest = NO_TIMESTAMP
        self.digest = hashlib.sha256()

    def write(self, batches: bytes) -> None:
        for position, header in iterate_headers(batches):
            place = self.size + position
            if place >= self._next_entry:
                self._index.add(header.base_offset, place, self.newest)
                self._next_entry = place + self._interval
            if header.record_count:
                self.newest = max(self.newest, header.max_timestamp)
        write_all(self._disk, self._handle.descriptor, batches, self.size)
        self.digest.update(batches)
        self.size += len(batches)

    def save(self, index_path: Path) -> None:
        """Return once everything is on the disk."""
        self._disk.sync(self._handle.descriptor)
        IndexFile(self._disk, index_path).save(self._index, len(self._index))
