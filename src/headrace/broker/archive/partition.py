"""A partition's records in the archive, as the broker serves them."""

import asyncio
from collections.abc import Callable
from threading import Event

from headrace.broker.archive.reading import ArchiveReader
from headrace.log import LogSlice, PartitionLog, Segment
from headrace.log.archive.archived_log import ArchivedLog
from headrace.log.archive.manifest import ArchivedSegment
from headrace.log.archive.store import ArchiveStore
from headrace.log.archive.writer import ArchiveWriter
from headrace.log.errors import ArchiveDamaged
from headrace.log.lookup import find_by_time
from headrace.log.pace import Pace, at_once
from headrace.log.retention import count_expired
from headrace.log.slices import EMPTY_SLICE
from headrace.records import RecordPosition


class PartitionArchive:
    """What the archive has of one partition, and how readers get at it; the event loop's."""

    __slots__ = ("_log", "_reader", "_wake", "archived", "reconciled", "writer")

    def __init__(
        self,
        log: PartitionLog,
        archived: ArchivedLog,
        store: ArchiveStore,
        reader: ArchiveReader,
        stopping: Event,
        wake: Callable[[], None],
        pace: Pace = at_once,
    ) -> None:
        self._log = log
        self._reader = reader
        self._wake = wake
        self.archived = archived
        self.writer = ArchiveWriter(store, archived, stopping, pace)
        """Makes changes, in another thread."""
        self.reconciled = False
        """Whether this process has compared notes with the archive."""

    @property
    def dispensable_to(self) -> int:
        """Up to which offset the local disk need not keep records.

        None are dispensable before this process has seen the archive: it may have been lost.
        """
        return self.archived.end_offset if self.reconciled else 0

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> LogSlice:
        """Like a log's `read`; empty while the segment is on its way, and wakes readers then.

        Raises `ArchiveUnavailable` if it cannot be brought back.
        """
        segment = self._segment(self.archived.holding(offset), self._wake)
        if segment is None:
            return EMPTY_SLICE
        first = max(offset, segment.base_offset)
        return segment.slice(first, segment.end_offset, max_bytes, at_least_one)

    async def offset_for_time(self, timestamp: int) -> RecordPosition | None:
        """The first record before the local log that is not older than a time; None if all are."""
        limit = min(self._log.start_offset, self.archived.end_offset)
        for archived in self.archived.segments:
            if archived.base_offset >= limit:
                break
            if archived.max_timestamp < timestamp:
                continue
            segment = await self._brought_back(archived)
            found = find_by_time([segment], timestamp, self.archived.start_offset, limit)
            if found is not None:
                return found
        return None

    def max_timestamp(self) -> int:
        """The newest timestamp before the local log; -1 if there is none."""
        limit = self._log.start_offset
        return max(
            (each.max_timestamp for each in self.archived.segments if each.base_offset < limit),
            default=-1,
        )

    def expire(self, now_ms: int) -> None:
        """Let go of segments that have outlived the log's whole retention."""
        archived = self.archived
        segments = archived.segments
        if not segments:
            return
        unarchived = self._log.segments_from(archived.end_offset)
        count = count_expired(
            [*segments, *unarchived], self._log.settings, now_ms, self._log.high_watermark
        )
        if count:
            archived.advance_start(segments[min(count, len(segments)) - 1].end_offset)

    def pending(self) -> list[Segment]:
        """The sealed segments that the archive does not have yet, oldest first.

        Those with undecided transactions are not ready.
        """
        first = 0 if self.archived.is_empty else self.archived.end_offset
        limit = self._log.last_stable_offset
        return [
            segment
            for segment in self._log.sealed_segments()
            if segment.base_offset >= first and segment.end_offset <= limit
        ]

    def check_end(self) -> None:
        """Refuse to go on if the archive reaches beyond the local log.

        That never happens by itself: what is archived was synced before. Somebody removed files,
        or brought back old ones.
        """
        archived, log = self.archived, self._log
        if not archived.is_empty and archived.end_offset > log.end_offset:
            raise ArchiveDamaged(
                f"the archive of {archived.partition} ends at offset {archived.end_offset}, but "
                f"the local log at {log.end_offset}; nothing more is archived. Restore the data "
                "directory from the archive, or delete the topic"
            )

    def forget(self, segment: ArchivedSegment) -> asyncio.Future[None]:
        """Let go of the local copy of a segment whose object was replaced or deleted.

        The result is done when no such copy is left.
        """
        return self._reader.forget(self.archived.partition, segment)

    def _segment(self, archived: ArchivedSegment, wake: Callable[[], None]) -> Segment | None:
        interval = self._log.settings.index_interval_bytes
        return self._reader.segment(self.archived.partition, archived, interval, wake)

    async def _brought_back(self, archived: ArchivedSegment) -> Segment:
        news = asyncio.Event()
        while (segment := self._segment(archived, news.set)) is None:
            await news.wait()
            news.clear()
        return segment
