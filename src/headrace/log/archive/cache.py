"""Archived segments on the local disk for as long as somebody reads them and there is room.

The whole of a segment is brought back, checked and indexed, and then read like any other. What is
here is only a copy, so nothing is synced, and it all goes when the broker starts.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from threading import Event
from typing import Final

from headrace.log.archive.manifest import ArchivedPartition, ArchivedSegment
from headrace.log.archive.store import ArchiveStore
from headrace.log.disk import Disk, write_all
from headrace.log.errors import ArchiveDamaged, ArchiveUnavailable, storage_error
from headrace.log.handles import FileHandle
from headrace.log.index_file import rebuild_index
from headrace.log.segment import Segment
from headrace.records.checksum import crc32c

CACHE: Final = "archive.cache"
"""The name of the cache's directory in the data directory."""


class SegmentCache:
    """The archived segments that were read last, up to a number of bytes.

    Belongs to the broker's thread, except `bring_back`.
    """

    def __init__(self, directory: Path, max_bytes: int, disk: Disk) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._disk = disk
        self._segments: OrderedDict[str, Segment] = OrderedDict()
        self._copies = count()
        self._reserved = 0
        self.size = 0
        """Bytes of all segments here, and of those on their way."""

    def clear(self) -> None:
        """Remove what an earlier process left behind; blocks on the disk."""
        remove_tree(self._disk, self._directory)

    def get(self, key: str) -> Segment | None:
        """The segment of a key, which counts as a use; None if it is not here."""
        segment = self._segments.get(key)
        if segment is not None:
            self._segments.move_to_end(key)
        return segment

    def reserve(self, size: int) -> list[Segment] | None:
        """Make room for a segment: those that have to go, or None if there is none now.

        A segment larger than the whole cache is let in alone.
        """
        if self._reserved and self._reserved + size > self._max_bytes:
            return None
        dropped = []
        while self._segments and self.size + size > self._max_bytes:
            dropped.append(self._drop(next(iter(self._segments))))
        self._reserved += size
        self.size += size
        return dropped

    def settle(self, key: str, size: int, segment: Segment | None) -> None:
        """Keep the segment that room was reserved for; None if it did not come."""
        self._reserved -= size
        if segment is None:
            self.size -= size
        else:
            self._segments[key] = segment

    def discard(self, key: str) -> Segment | None:
        """Take a segment out that is no longer in force; its file is the caller's to remove."""
        return self._drop(key) if key in self._segments else None

    def bring_back(
        self,
        store: ArchiveStore,
        partition: ArchivedPartition,
        archived: ArchivedSegment,
        index_interval: int,
        stopping: Event,
    ) -> Segment:
        """Copy a segment here and index it; from any thread, after room was reserved.

        Raises `ArchiveUnavailable` or `ArchiveDamaged` if the archive does not give it back, and
        `StorageError` if the disk does not take it.
        """
        # An earlier copy may still be read, or wait to be removed by another thread.
        copy = f"{archived.revision}-{next(self._copies)}"
        directory = self._directory / f"{partition.topic_id}-{partition.index}-{copy}"
        segment = Segment(
            directory, self._disk, archived.base_offset, archived.created_ms, index_interval
        )
        try:
            self._disk.make_directory(directory)
            handle = FileHandle(self._disk, segment.path, self._disk.create(segment.path))
            copy_object(store, partition.key(archived), archived, handle, stopping)
            index = rebuild_index(handle, archived.base_offset, archived.size, index_interval)
            segment.index_file.save(index, len(index))
        except OSError as error:
            self.remove([segment])
            raise storage_error(error, segment.path, "write") from error
        except BaseException:
            self.remove([segment])
            raise
        segment.end_offset = archived.end_offset
        segment.size = segment.synced_size = archived.size
        segment.max_timestamp = archived.max_timestamp
        return segment

    def remove(self, dropped: Sequence[Segment]) -> None:
        """Remove the files of segments that were dropped; from any thread."""
        for segment in dropped:
            remove_tree(self._disk, segment.directory)

    def _drop(self, key: str) -> Segment:
        segment = self._segments.pop(key)
        self.size -= segment.size
        segment.release()
        return segment


def copy_object(
    store: ArchiveStore, key: str, archived: ArchivedSegment, handle: FileHandle, stopping: Event
) -> None:
    """Write a segment's object into a file, and make sure that it is whole."""
    checksum = position = 0
    try:
        for chunk in store.get(key):
            if stopping.is_set():
                raise ArchiveUnavailable("the broker stops")
            write_all(handle.disk, handle.descriptor, chunk, position)
            checksum = crc32c(chunk, checksum)
            position += len(chunk)
    except FileNotFoundError:
        raise ArchiveDamaged(f"{key} is missing in {store}; run headrace archive verify") from None
    if (position, checksum) != (archived.size, archived.checksum):
        raise ArchiveDamaged(
            f"{key} in {store} is damaged: {position} of {archived.size} bytes, checksum "
            f"{checksum:08x} instead of {archived.checksum:08x}; run headrace archive verify"
        )


def remove_tree(disk: Disk, path: Path) -> None:
    """Remove a file, or a directory with all that is in it, if it is there."""
    try:
        names = disk.names(path)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        disk.unlink(path)
        return
    for name in names:
        remove_tree(disk, path / name)
    disk.remove_directory(path)
