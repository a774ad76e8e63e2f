"""Indexes on the disk: they only save time, so a doubtful one is thrown away and made again.

A file is the shared format of `framing` with runs of entries as its frames, one run for each time
that the log was checkpointed.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

from headrace.log.disk import Disk, write_all
from headrace.log.errors import CorruptFile
from headrace.log.framing import HEADER_SIZE, FileFormat, frame, frames, read_file, write_framed
from headrace.log.handles import FileHandle
from headrace.log.index import LARGEST, ROW_SIZE, SparseIndex
from headrace.log.walk import headers
from headrace.records import NO_TIMESTAMP, MalformedBatch

INDEX_FORMAT: Final = FileFormat(b"HRIX", 1)
"""How an index begins."""


class IndexFile:
    """The file beside a segment that holds its index, once it was saved."""

    __slots__ = ("_disk", "path", "saved_entries")

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self.path = path
        self.saved_entries = 0
        """How many entries the file has; zero also if it must be written afresh."""

    def save(self, index: SparseIndex, count: int) -> None:
        """Bring the file up to the index's first `count` entries, and on the disk."""
        saved = self.saved_entries
        if saved == count:
            return
        # Should this be interrupted, the next attempt writes the whole file.
        self.saved_entries = 0
        if saved == 0:
            write_framed(self._disk, self.path, INDEX_FORMAT, [index.encode(0, count)])
        else:
            self._append(index.encode(saved, count))
        self.saved_entries = count

    def load(self, base_offset: int) -> SparseIndex:
        """Read the whole index.

        Raises `FileNotFoundError`, `CorruptFile` or `UnsupportedFormat` if it cannot be used.
        """
        data = read_file(self._disk, self.path)
        INDEX_FORMAT.check(data, self.path)
        index = SparseIndex(base_offset)
        read = HEADER_SIZE
        for end, rows in frames(data):
            read = end
            if len(rows) % ROW_SIZE:
                raise CorruptFile(f"{self.path} holds a part of an entry")
            index.extend(rows)
        if read != len(data):
            raise CorruptFile(f"{self.path} is damaged after byte {read}")
        if not index.is_ordered():
            raise CorruptFile(f"{self.path} has entries out of order")
        self.saved_entries = len(index)
        return index

    def _append(self, rows: bytes) -> None:
        descriptor = self._disk.open(self.path)
        try:
            write_all(self._disk, descriptor, frame(rows), self._disk.size(descriptor))
            self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)


def rebuild_index(handle: FileHandle, base_offset: int, end: int, interval: int) -> SparseIndex:
    """Make a segment's index from the headers of its batches up to position `end`.

    It ends before a header that cannot be; what verifies the segment makes a better one then.
    """
    index = SparseIndex(base_offset)
    max_timestamp = NO_TIMESTAMP
    next_entry = 0
    next_offset = base_offset
    with suppress(MalformedBatch):
        for position, header in headers(handle, 0, end):
            if not next_offset <= header.base_offset <= base_offset + LARGEST:
                break
            if position >= next_entry:
                index.add(header.base_offset, position, max_timestamp)
                next_entry = position + interval
            if header.record_count:
                max_timestamp = max(max_timestamp, header.max_timestamp)
            next_offset = header.next_offset
    return index
