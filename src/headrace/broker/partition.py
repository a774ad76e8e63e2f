"""A partition as the broker serves it: its log, who waits for its data, and what it has carried."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from headrace.log import Append, Flush, LogSettings, LogSlice, PartitionLog, Retired, Segment
from headrace.log.errors import OffsetOutOfRange, Unverified
from headrace.log.slices import EMPTY_SLICE
from headrace.log.transactions import AbortedTransaction
from headrace.records import MARKER_SIZE, BatchHeader, Marker

if TYPE_CHECKING:
    from headrace.broker.archive.partition import PartitionArchive
    from headrace.broker.durability import GroupCommit, Waiter
    from headrace.broker.verification import Verification

T = TypeVar("T")
"""What a look into the log finds."""

Wake = Callable[[int], None]
"""Told how many more bytes can be read; 0 if that has to be found out."""


class Partition:
    """One partition of a topic."""

    __slots__ = (
        "_commits",
        "_unannounced",
        "_verification",
        "_wakes",
        "archive",
        "bytes_in",
        "bytes_out",
        "dirty",
        "index",
        "log",
        "records_in",
        "retired",
        "rewriting",
        "topic",
        "waits_for_sync",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        log: PartitionLog,
        commits: "GroupCommit",
        verification: "Verification",
    ) -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.retired = False
        self.rewriting = asyncio.Lock()
        """Held by whoever replaces sealed segments, or copies them to the archive."""
        self.archive: PartitionArchive | None = None
        """What an archive has of it, if its topic uses one."""
        self.dirty = False
        self.bytes_in = 0
        self.bytes_out = 0
        self.records_in = 0
        self.waits_for_sync = log.settings.flush is Flush.ACK
        """Whether what is appended is acknowledged, and shown to readers, only once synced."""
        self._commits = commits
        self._unannounced = 0
        self._verification = verification
        log.verifies_at_once = False
        self._wakes: set[Wake] = set()

    @property
    def start_offset(self) -> int:
        """The first offset that can be read, here or from the archive."""
        archive = self.archive
        if archive is None or archive.archived.is_empty:
            return self.log.start_offset
        return archive.archived.start_offset

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        append_time: int | None = None,
        waiter: "Waiter | None" = None,
    ) -> Append:
        """Append one valid batch; readers are woken as soon as they may see it.

        The waiter is told once the batch is as safe as the topic's flush policy demands: at once,
        unless the partition waits for syncs.
        """
        log = self.log
        appended = log.append(batch, header, append_time)
        syncs = self.waits_for_sync
        if not appended.duplicate:
            size = len(batch)
            self.bytes_in += size
            self.records_in += header.record_count
            self.dirty = True
            if syncs:
                self._unannounced += size
                self._commits.request(self, waiter)
                return appended
            if self._wakes:
                self._announce(size)
        elif syncs and appended.last_offset >= log.high_watermark:
            self._commits.request(self, waiter)
            return appended
        if waiter is not None:
            waiter(None)
        return appended

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool = True, up_to: int | None = None
    ) -> LogSlice:
        """Like the log's own `read`, but also what only the archive has.

        That may take a while: until then there is nothing to read, and then readers are woken.
        """
        archive = self.archive
        if archive is not None and offset < self.log.end_offset:
            if offset < self.start_offset:
                raise OffsetOutOfRange(offset, self.start_offset, self.log.end_offset)
            if offset < self.log.start_offset:
                if archive.archived.reaches(offset):
                    return archive.read(offset, max_bytes, at_least_one=at_least_one)
                offset = self.log.start_offset
        try:
            return self.log.read(offset, max_bytes, at_least_one=at_least_one, up_to=up_to)
        except Unverified as doubt:
            self._verification.request(self, doubt.segment)
            return EMPTY_SLICE

    async def when_verified(self, look: Callable[[], T]) -> T:
        """The result of a look into the log, which may have to be verified first."""
        while True:
            try:
                return look()
            except Unverified as doubt:
                await self._verification.request(self, doubt.segment)

    def aborted_transactions(self, first: int, end: int) -> list[AbortedTransaction]:
        """Like the log's own, but also those that only the archive knows of."""
        found = self.log.aborted_transactions(first, end)
        if self.archive is not None and first < self.log.start_offset:
            archived = self.archive.archived.aborted_transactions(first, end)
            return sorted({*archived, *found}, key=lambda each: each.last_offset)
        return found

    async def is_intact(self, segment: Segment) -> bool:
        """Whether a segment is what was written, so that a copy of it may be made or kept."""
        if segment.doubt is not None:
            await self._verification.request(self, segment)
        return segment.doubt is None and not segment.damage

    def delete_records(self, before: int) -> int:
        """Let the partition start at `before`, here and in the archive; return its start."""
        if self.archive is not None and before <= self.log.high_watermark:
            self.archive.archived.advance_start(before)
        self.log.delete_records(before)
        self.log.forget_aborted(self.start_offset)
        return self.start_offset

    def enforce_retention(self, now_ms: int) -> Retired:
        """Take out of the log what has outlived the retention, or is safe in the archive."""
        archived_to = None
        if self.archive is not None:
            self.archive.expire(now_ms)
            if not self.archive.archived.is_empty:
                archived_to = self.archive.dispensable_to
        retired = self.log.enforce_retention(archived_to)
        self.log.forget_aborted(self.start_offset)
        return retired

    def append_marker(self, marker: Marker, waiter: "Waiter") -> int:
        """End a producer's transaction and return the marker's offset.

        The waiter is told like that of `append`; readers of committed records see what the
        transaction wrote once `reveal` is called.
        """
        offset = self.log.append_marker(marker).base_offset
        self.bytes_in += MARKER_SIZE
        self.dirty = True
        if self.waits_for_sync:
            self._unannounced += MARKER_SIZE
            self._commits.request(self, waiter)
        else:
            if self._wakes:
                self._announce(MARKER_SIZE)
            waiter(None)
        return offset

    def reveal(self, marker_offset: int) -> None:
        """Show readers of committed records the end of a transaction."""
        if self.log.reveal(marker_offset):
            self._announce(0)

    def reconfigure(self, settings: LogSettings) -> None:
        """Behave differently from now on; readers are woken if that shows them more."""
        before = self.log.high_watermark
        self.log.reconfigure(settings)
        self.waits_for_sync = settings.flush is Flush.ACK
        if self.log.high_watermark > before:
            self._announce_synced()

    def flush(self) -> int:
        """Sync the log; called from the sync threads."""
        self.dirty = False
        return self.log.flush()

    def advance(self, flushed: int) -> None:
        """Take note that the log is durable up to an offset."""
        if self.log.advance(flushed):
            self._announce_synced()

    def look_again(self) -> None:
        """Wake everybody: there may be more to read, or an error to find."""
        self._announce(0)

    def watch(self, wake: Wake) -> None:
        """Be told about every growth of what can be read."""
        self._wakes.add(wake)

    def unwatch(self, wake: Wake) -> None:
        """Be told no longer."""
        self._wakes.discard(wake)

    def retire(self) -> None:
        """The topic is deleted: wake everybody, so that they find out."""
        self.retired = True
        self._announce(0)

    def _announce_synced(self) -> None:
        size, self._unannounced = self._unannounced, 0
        self._announce(size)

    def _announce(self, size: int) -> None:
        for wake in tuple(self._wakes):
            wake(size)
