"""Excision of segments on the local disk: the worker writes files, the log swaps them in."""

import asyncio
from dataclasses import dataclass

from headrace.broker.excision.places import Rewritten
from headrace.broker.excision.process import ExcisionProcess
from headrace.broker.partition import Partition
from headrace.log import RewrittenSegment, Segment
from headrace.log.excision import ExcisionRefused, FileChange, Findings, SegmentFile


@dataclass(frozen=True, slots=True)
class LocalSegment:
    """A segment of a partition's log."""

    owner: Partition
    segment: Segment
    size: int
    """How much of it there was when the excision began."""

    @property
    def name(self) -> str:
        """Its file, relative to the data directory."""
        return f"{self.segment.directory.name}/{self.segment.path.name}"

    @property
    def partition(self) -> int:
        """The partition it belongs to."""
        return self.owner.index

    @property
    def room_needed(self) -> int:
        """Old and new file are there together until the swap."""
        return self.size

    async def find(self, process: ExcisionProcess) -> Findings | None:
        """What is to go; None if retention has taken the segment.

        Raises `ExcisionRefused` if the segment is damaged: rewritten, it would look right.
        """
        if not await self.owner.is_intact(self.segment):
            raise ExcisionRefused(
                f"{'; '.join(map(str, self.segment.damage)) or self.name}. Restore the file from a "
                "copy, or let retention remove it"
            )
        try:
            return await process.find(self._file)
        except ExcisionRefused:
            if self._is_there:
                raise
            return None

    async def rewrite(self, process: ExcisionProcess) -> Rewritten | None:
        """Replace the segment, under its readers; None if retention has taken it meanwhile."""
        try:
            change = await process.rewrite(self._file)
        except ExcisionRefused:
            if self._is_there:
                raise
            return None
        if not await self._swap(change):
            return None
        return Rewritten(self.name, self.name, self.size, change)

    @property
    def _file(self) -> SegmentFile:
        segment = self.segment
        return SegmentFile(
            str(segment.path), segment.base_offset, self.size, segment.index_interval
        )

    @property
    def _is_there(self) -> bool:
        return not self.owner.retired and self.segment in self.owner.log.segments_from(0)

    async def _swap(self, change: FileChange) -> bool:
        loop = asyncio.get_running_loop()
        swap = self.owner.log.swap(
            [
                RewrittenSegment(
                    [self.segment],
                    change.size,
                    change.max_timestamp,
                    change.log_file,
                    change.index_file,
                )
            ]
        )
        try:
            await loop.run_in_executor(None, swap.prepare)
            return swap.commit()
        finally:
            await loop.run_in_executor(None, swap.finish)


def local_segments(partition: Partition, end_offset: int) -> list[LocalSegment]:
    """The segments with anything before an offset, oldest first, as they are now."""
    return [
        LocalSegment(partition, segment, segment.size)
        for segment in partition.log.segments_from(0)
        if segment.size and segment.base_offset < end_offset
    ]
