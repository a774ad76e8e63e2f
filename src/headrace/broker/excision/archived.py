"""Excision of segments in the archive: bring back, rewrite, put the new object, delete the old one.

What is brought back lies in the partition's directory under a name that recovery removes, so that a
crash leaves nothing of it.
"""

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headrace.broker.archive.archive import BrokerArchive
from headrace.broker.archive.partition import PartitionArchive
from headrace.broker.excision.places import Rewritten
from headrace.broker.excision.process import ExcisionProcess
from headrace.broker.partition import Partition
from headrace.log import SYSTEM_DISK
from headrace.log.archive.cache import copy_object
from headrace.log.archive.manifest import ArchivedSegment
from headrace.log.archive.writer import SegmentFile as ArchiveSource
from headrace.log.excision import ExcisionRefused, Findings, SegmentFile
from headrace.log.handles import FileHandle
from headrace.log.manifest import REWRITTEN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ArchivedObject:
    """A segment that the archive has."""

    owner: Partition
    archive: BrokerArchive
    archived: PartitionArchive
    segment: ArchivedSegment
    directory: Path
    tag: str

    @property
    def name(self) -> str:
        """Its object's key."""
        return self.archived.archived.partition.key(self.segment)

    @property
    def partition(self) -> int:
        """The partition it belongs to."""
        return self.owner.index

    @property
    def size(self) -> int:
        """Bytes of its batches."""
        return self.segment.size

    @property
    def room_needed(self) -> int:
        """The copy that was brought back, and the one without the records."""
        return 2 * self.size

    async def find(self, process: ExcisionProcess) -> Findings | None:
        """What is to go; None if retention has taken the segment."""
        if not self._is_there:
            return None
        async with self._brought_back() as copy:
            return await process.find(copy)

    async def rewrite(self, process: ExcisionProcess) -> Rewritten | None:
        """Replace the object and let go of copies of it; None if retention has taken it."""
        if not self._is_there:
            return None
        segment = self.segment
        async with self._brought_back() as copy:
            change = await process.rewrite(copy)
            path = self.directory / change.log_file
            source = ArchiveSource(
                path,
                SYSTEM_DISK,
                segment.base_offset,
                segment.end_offset,
                change.size,
                change.max_timestamp,
                segment.created_ms,
                segment.aborted,
            )
            try:
                new = await self._blocking(lambda: self.archived.writer.replace(segment, source))
            finally:
                SYSTEM_DISK.unlink(path)
                SYSTEM_DISK.unlink(self.directory / change.index_file)
        await self.archived.forget(segment)
        after = self.archived.archived.partition.key(new)
        return Rewritten(self.name, after, segment.size, change, archived=True)

    @property
    def _is_there(self) -> bool:
        return not self.owner.retired and self.segment in self.archived.archived.segments

    @asynccontextmanager
    async def _brought_back(self) -> "AsyncIterator[SegmentFile]":
        path = self.directory / f"{self.segment.base_offset:020d}.{self.tag}.archived{REWRITTEN}"
        try:
            await self._blocking(lambda: self._download(path))
            interval = self.owner.log.settings.index_interval_bytes
            yield SegmentFile(str(path), self.segment.base_offset, self.segment.size, interval)
        finally:
            SYSTEM_DISK.unlink(path)

    def _download(self, path: Path) -> None:
        handle = FileHandle(SYSTEM_DISK, path, SYSTEM_DISK.create(path))
        copy_object(self.archive.store, self.name, self.segment, handle, self.archive.stopping)

    async def _blocking(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.archive.uploads, work)


async def archived_objects(
    partition: Partition, archive: BrokerArchive | None, directory: Path, tag: str
) -> list[ArchivedObject]:
    """The segments that the archive has of a partition, after removing what nobody may read.

    The caller holds the partition's `rewriting`. Raises `ExcisionRefused` if the archive cannot be
    reached from here, and `ArchiveUnavailable` if it does not answer.
    """
    archived = partition.archive
    if archived is None or archive is None:
        if BrokerArchive.keeps_manifest(directory):
            raise ExcisionRefused(
                f"{partition.topic}-{partition.index} has records in an archive, and this broker "
                "was started without it: set broker.archive and start it again"
            )
        return []
    await tidy(archived, archive)
    return [
        ArchivedObject(partition, archive, archived, segment, directory, tag)
        for segment in archived.archived.segments
    ]


async def tidy(archived: PartitionArchive, archive: BrokerArchive) -> list[str]:
    """Remove what is in the archive but in force no more; the keys of the objects that went."""
    loop = asyncio.get_running_loop()
    removed = await loop.run_in_executor(archive.uploads, archived.writer.reconcile)
    archived.check_end()
    archived.reconciled = True
    if archived.writer.trim_due:
        before = archived.archived.manifest.segments
        await loop.run_in_executor(archive.uploads, archived.writer.trim)
        for gone in set(before).difference(archived.archived.segments):
            await archived.forget(gone)
    return [found.key for found in removed]
