"""The part of a partition's log that is in the archive, as the broker knows it without asking.

A copy of the archive's manifest lies in the partition's directory. It is replaced only after the
archive's own, and a segment leaves the local disk only after both: so whatever this copy names is
in the archive, and a copy that is behind, or lost, is brought up to date from there.
"""

import logging
from bisect import bisect_right
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Final, Self

from headrace.log.archive.manifest import (
    MANIFEST_FORMAT,
    ArchivedPartition,
    ArchivedSegment,
    Manifest,
)
from headrace.log.disk import Disk
from headrace.log.errors import (
    ArchiveDamaged,
    CorruptFile,
    LogClosed,
    OffsetOutOfRange,
    storage_error,
)
from headrace.log.framing import read_framed, write_framed
from headrace.log.transactions import AbortedTransaction

LOCAL_MANIFEST: Final = "archive.manifest"
"""The name of the copy in a partition's directory."""

logger = logging.getLogger(__name__)


class ArchivedLog:
    """Archived segments that come before, and partly are, those on the local disk.

    Belongs to the log's owner; `adopt` may be called from any thread.
    """

    __slots__ = ("_abandoned", "_bases", "_disk", "_lock", "_manifest", "_path", "segments")

    def __init__(self, directory: Path, disk: Disk, manifest: Manifest) -> None:
        self._path = directory / LOCAL_MANIFEST
        self._disk = disk
        # Held while the copy on the disk is replaced.
        self._lock = Lock()
        self._abandoned = False
        self.segments: tuple[ArchivedSegment, ...]
        """Those with anything that may still be read, oldest first."""
        self._believe(manifest)

    @classmethod
    def open(cls, directory: Path, partition: ArchivedPartition, *, disk: Disk) -> Self:
        """What a partition's directory tells of its archive; nothing at all if it has no copy.

        A damaged copy is the same as none: the archive has the original.
        """
        try:
            (encoded,) = read_framed(disk, directory / LOCAL_MANIFEST, MANIFEST_FORMAT, 1)
            manifest = Manifest.decode(encoded)
        except FileNotFoundError:
            manifest = Manifest(partition)
        except (CorruptFile, ArchiveDamaged) as error:
            logger.warning("what is archived of %s is asked of the archive: %s", partition, error)
            manifest = Manifest(partition)
        return cls(directory, disk, replace(manifest, partition=partition))

    @property
    def manifest(self) -> Manifest:
        """Everything that is known."""
        return self._manifest

    @property
    def partition(self) -> ArchivedPartition:
        """Whose log this is."""
        return self._manifest.partition

    @property
    def is_empty(self) -> bool:
        """Whether the archive has nothing that may still be read."""
        return not self.segments

    @property
    def start_offset(self) -> int:
        """The first offset that may be read; without meaning while there is nothing."""
        return self._manifest.start_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last archived record."""
        return self._manifest.end_offset

    @property
    def last_offset(self) -> int:
        """The last archived record's; -1 if there is none."""
        return self.segments[-1].end_offset - 1 if self.segments else -1

    @property
    def size(self) -> int:
        """Bytes of all segments that may still be read."""
        return sum(segment.size for segment in self.segments)

    def holding(self, offset: int) -> ArchivedSegment:
        """The segment in which a reader at an offset goes on; `OffsetOutOfRange` if there is none.

        That is the one that holds the offset, or the next one if records between them expired
        before they could be archived.
        """
        if not self.reaches(offset):
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        number = bisect_right(self._bases, offset) - 1
        segment = self.segments[max(number, 0)]
        return segment if offset < segment.end_offset else self.segments[number + 1]

    def reaches(self, offset: int) -> bool:
        """Whether a reader at an offset goes on in the archive."""
        return not self.is_empty and self.start_offset <= offset < self.end_offset

    def aborted_transactions(self, first: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with anything archived from `first` to before `end`."""
        return [
            transaction
            for segment in self.segments
            if segment.end_offset > first and segment.base_offset < end
            for transaction in segment.aborted
            if transaction.last_offset >= first and transaction.first_offset < end
        ]

    def advance_start(self, start_offset: int) -> None:
        """Let nothing before an offset be read any more, also after a crash.

        Segments that this leaves behind are deleted from the archive by its next change. Raises
        `StorageError` if the local disk refuses.
        """
        with self._lock:
            if start_offset > self.start_offset:
                self._save(replace(self._manifest, start_offset=start_offset))

    def adopt(self, manifest: Manifest) -> None:
        """Believe what the archive's manifest says from now on, also after a crash.

        A start that has meanwhile moved beyond the manifest's stays where it is.
        """
        with self._lock:
            start_offset = max(manifest.start_offset, self.start_offset)
            self._save(replace(manifest, partition=self.partition, start_offset=start_offset))

    def abandon(self) -> None:
        """Forget everything: the archive's part of the log is about to be deleted.

        A change that is under way in another thread fails with `LogClosed`.
        """
        with self._lock:
            self._abandoned = True
            self._disk.unlink(self._path)

    def _save(self, manifest: Manifest) -> None:
        if self._abandoned:
            raise LogClosed(f"{self.partition} is no longer archived")
        try:
            write_framed(self._disk, self._path, MANIFEST_FORMAT, [manifest.encode()])
        except OSError as error:
            raise storage_error(error, self._path, "write") from error
        self._believe(manifest)

    def _believe(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self.segments = manifest.live_segments
        self._bases = [segment.base_offset for segment in self.segments]
