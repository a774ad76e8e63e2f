"""The files of one log: how they are opened, synced, verified, rewritten and removed."""

import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Final, Self

from headrace.clock import Clock
from headrace.log.chain import SegmentChain
from headrace.log.disk import SYSTEM_DISK, Disk
from headrace.log.durability import Durability, Moment
from headrace.log.epochs import EpochStart
from headrace.log.errors import (
    LogClosed,
    LogError,
    OffsetOutOfRange,
    StorageError,
    StorageFailed,
    StorageFull,
    storage_error,
)
from headrace.log.manifest import MANIFEST
from headrace.log.pace import Pace, at_once
from headrace.log.recovery import RecoveredLog, recover
from headrace.log.removal import Retired
from headrace.log.retention import count_expired
from headrace.log.rewriting import RewrittenSegment, SegmentSwap
from headrace.log.segment import Segment
from headrace.log.settings import Flush, LogSettings
from headrace.log.verification import Damage, Extent, Verdict, Written, forget_cached, verify

logger = logging.getLogger(__name__)

CHECKPOINT_FIRST: Final = -1
"""In place of the size at which a segment is full: nothing may be appended before a checkpoint.

So it is while the log's epoch is not on the disk yet, and before the first batch that readers may
see unsynced: should a power loss take that batch without a trace, the checkpoint tells that the log
was open, and the epoch is raised.
"""


class StoredLog:
    """A chain of segments in one directory, and what is remembered of their batches.

    One thread owns it and calls its methods; those that may be called from any thread say so.
    What goes in and comes out is the business of `PartitionLog`.

    `start_offset`, `end_offset`, `high_watermark`, `last_stable_offset` and `leader_epoch` are for
    reading only.
    """

    __slots__ = (
        "_chain",
        "_clock",
        "_closed",
        "_directory",
        "_disk",
        "_durability",
        "_epochs",
        "_lock",
        "_roll_above",
        "_settings",
        "_visible_at_once",
        "end_offset",
        "high_watermark",
        "leader_epoch",
        "producers",
        "recovery",
        "start_offset",
        "transactions",
        "verifies_at_once",
    )

    def __init__(
        self,
        directory: Path,
        settings: LogSettings,
        clock: Clock,
        disk: Disk,
        recovered: RecoveredLog,
        durability: Durability,
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock
        self._disk = disk
        self._durability = durability
        # Guards what an append changes, so that other threads see one moment of it.
        self._lock = Lock()
        self._closed = False
        self._chain = SegmentChain(recovered.segments)
        self._roll_above = settings.segment_bytes
        self._visible_at_once = settings.flush is not Flush.ACK
        if self._visible_at_once:
            self._roll_above = CHECKPOINT_FIRST
        self._epochs = recovered.epochs
        self.producers = recovered.producers
        """What is remembered of idempotent producers."""
        self.transactions = recovered.transactions
        """The transactions that are open or were aborted."""
        self.verifies_at_once = True
        """Whether a reader waits while what it reads first is verified, or gets `Unverified`."""
        self.recovery = recovered.recovery
        """What opening the log took."""
        self.start_offset = recovered.start_offset
        """The first offset that can be read."""
        self.end_offset = self._chain.active.end_offset
        """The offset that the next record gets."""
        self.high_watermark = self.end_offset
        """Readers see what lies before this offset."""
        self.leader_epoch = recovered.epochs.current
        """Is stamped into every batch; raised whenever the log may have lost its end."""

    @classmethod
    def open(
        cls, directory: Path, settings: LogSettings, *, clock: Clock, disk: Disk = SYSTEM_DISK
    ) -> Self:
        """Open the log in a directory, or begin one.

        After a clean shutdown nothing is scanned. Otherwise what the last checkpoint does not vouch
        for is checked, cut where it is torn (`recovery` says what was), and synced before it is
        shown to anybody. Raises `StorageFailed` if the disk does, and `UnsupportedFormat` if
        another version wrote the files.
        """
        try:
            disk.make_directory(directory)
            recovered = recover(directory, settings, clock, disk)
        except OSError as error:
            raise storage_error(error, directory, "open the log in") from error
        durability = Durability(directory, disk, recovered.checkpoint)
        log = cls(directory, settings, clock, disk, recovered, durability)
        if not recovered.recovery.clean or recovered.swapped:
            log._make_recovery_durable()
        return log

    @property
    def settings(self) -> LogSettings:
        """How the log behaves; replaced by `reconfigure`."""
        return self._settings

    @property
    def failure(self) -> str | None:
        """Why the log takes no more batches until it is opened again; None while it does."""
        return self._durability.failure

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self._chain.size

    @property
    def last_stable_offset(self) -> int:
        """Readers of committed records see what lies before this offset.

        It is the first record of the earliest open transaction, or else the high watermark.
        """
        unstable = self.transactions.first_unstable
        if unstable is None or unstable > self.high_watermark:
            return self.high_watermark
        return max(unstable, self.start_offset)

    @property
    def dirty(self) -> bool:
        """Whether `flush` has anything to do."""
        return self._chain.is_dirty

    @property
    def checkpoint_due(self) -> bool:
        """Whether `checkpoint` has anything to do; cheap enough to ask often."""
        return self._durability.is_behind(self.start_offset, self._chain.active)

    @property
    def epoch_starts(self) -> Sequence[EpochStart]:
        """The history of leader epochs."""
        return self._epochs.starts

    def segments_from(self, offset: int) -> Sequence[Segment]:
        """The segments that begin at an offset or after it, with the active one."""
        return [each for each in self._chain.segments if each.base_offset >= offset]

    def reconfigure(self, settings: LogSettings) -> None:
        """Behave differently from now on; a new index interval counts from the next segment on."""
        self._settings = settings
        if self._roll_above != CHECKPOINT_FIRST:
            self._roll_above = settings.segment_bytes
        relaxed = settings.flush is not Flush.ACK
        if relaxed and not self._visible_at_once:
            self._roll_above = CHECKPOINT_FIRST
            self.high_watermark = self.end_offset
        self._visible_at_once = relaxed

    def flush(self) -> int:
        """Return once everything that was appended before the call is on the disk: its end offset.

        May be called from any thread; the owner then calls `advance` with the result. Raises
        `StorageFailed` if the disk does; the log takes no more batches then.
        """
        with self._durability.turn:
            with self._lock:
                if self._closed:
                    raise self._refusal()
                end_offset = self.end_offset
                unsynced = self._chain.unsynced()
            self._durability.sync(unsynced)
            with self._lock:
                self._chain.note_synced()
        return end_offset

    def advance(self, flushed_offset: int) -> bool:
        """Show readers what a `flush` made durable; return whether that is more than before."""
        if flushed_offset <= self.high_watermark:
            return False
        self.high_watermark = min(flushed_offset, self.end_offset)
        return True

    def verify(self, segment: Segment, pace: Pace = at_once) -> Verdict:
        """Read a segment, or what was found of it on the disk, and tell what is damaged.

        May be called from any thread; the owner then calls `settle` with the result.
        """
        if self._closed:
            raise self._refusal()
        extent = segment.doubt or Extent(segment.size, segment.end_offset)
        written = Written(segment.base_offset, extent, self._epochs, segment.index_interval)
        return verify(self._disk, segment.path, written, pace)

    def scrub(self, segment: Segment, pace: Pace) -> Verdict:
        """Like `verify`, but read from the disk what the system has in memory."""
        if self._closed:
            raise self._refusal()
        forget_cached(self._disk, segment.path)
        return self.verify(segment, pace)

    def settle(self, segment: Segment, verdict: Verdict) -> Sequence[Damage]:
        """Take note of what `verify` has shown, and return what is damaged that was not before."""
        if segment not in self._chain.segments:
            return ()
        known = segment.damage
        with self._lock:
            segment.settle(verdict)
        return [damage for damage in segment.damage if damage not in known]

    @property
    def damage(self) -> Sequence[Damage]:
        """All that is known to be damaged, oldest first."""
        return [damage for segment in self._chain.segments for damage in segment.damage]

    def delete_records(self, before: int) -> int:
        """Let the log start at `before`, and return where it starts now.

        Readers before that get `OffsetOutOfRange` from now on, also after a crash. Segments wholly
        before it leave the log; the next `enforce_retention` returns their files. Raises
        `OffsetOutOfRange` if `before` is beyond what readers can see.
        """
        if self._closed:
            raise self._refusal()
        if before > self.high_watermark:
            raise OffsetOutOfRange(before, self.start_offset, self.high_watermark)
        if before > self.start_offset:
            self.start_offset = before
            self._retire(self._chain.count_before(before))
            self._save_start()
        return self.start_offset

    def enforce_retention(self, archived_to: int | None = None) -> Retired:
        """Take segments out of the log that have outlived its retention, by the log's clock.

        Where an archive has everything before `archived_to`, the local retention holds, and
        nothing goes that the archive does not have.
        The caller removes their files when it is convenient; until then, a crash brings them back.
        Producers that were silent for a day are forgotten on the occasion.
        """
        if self._closed:
            raise self._refusal()
        self.producers.expire(self.transactions.open)
        self.transactions.forget_producers(self.producers.active())
        segments = self._chain.segments
        settings, limit = self._settings, self.last_stable_offset
        if archived_to is not None:
            settings, limit = settings.local(), min(limit, archived_to)
        count = count_expired(segments, settings, self._clock.now_ms(), limit)
        if count == len(segments) and not self._try_to_roll():
            count -= 1
        self._retire(count)
        return self.take_retired()

    def take_retired(self) -> Retired:
        """The segments that have left the log already, and whose files are still there."""
        retired = self._chain.take_retired()
        return Retired(
            files=[path for each in retired for path in (each.path, each.index_file.path)],
            segments=len(retired),
            bytes=sum(each.size for each in retired),
            disk=self._disk,
            save_start=self._save_start,
        )

    def sealed_segments(self) -> Sequence[Segment]:
        """The segments that no longer grow, oldest first: what can be rewritten.

        Everything in their files before the high watermark stays as it is until a swap. They are
        for reading; another thread or process may do so by their paths while the files are there.
        """
        return tuple(self._chain.segments[:-1])

    def swap(self, rewritten: Sequence[RewrittenSegment]) -> SegmentSwap:
        """Make ready to put rewritten files in the place of sealed segments; see `rewriting`."""
        return SegmentSwap(
            self._directory,
            self._disk,
            self._chain,
            self._durability,
            self.transactions,
            self._lock,
            checkpoint=lambda: self._checkpoint(closed=False),
            is_closed=lambda: self._closed,
            rewritten=rewritten,
        )

    def roll(self) -> None:
        """Seal the active segment, so that everything written until now can be rewritten.

        Raises `StorageError` if there is no room for another one.
        """
        if self._closed:
            raise self._refusal()
        if self._chain.active.size:
            self._roll()

    def roll_if_due(self) -> None:
        """Seal the active segment if it has become too old, unless nothing may be written."""
        if self._durability.failure is not None or self._closed:
            return
        segment = self._chain.active
        if segment.size and self._clock.now_ms() - segment.created_ms >= self._settings.segment_ms:
            self._roll()

    def checkpoint(self) -> None:
        """Note on the disk how far the log is intact, so that a crash costs little to recover from.

        May be called from any thread. Syncs the log; writes a few small files if anything changed.
        """
        with self._durability.turn:
            self._checkpoint(closed=False)

    def close(self) -> None:
        """Checkpoint, then let go of the files; the next `open` has nothing to scan.

        If the disk refuses, that is logged and the next `open` recovers instead. More than once
        does no harm.
        """
        if self._closed:
            return
        try:
            with self._durability.turn:
                if self.end_offset or self._durability.checkpoint is not None:
                    self._checkpoint(closed=True)
        except StorageError as error:
            logger.error("%s is not closed cleanly: %s", self._directory, str(error))
        self.abandon()

    def abandon(self) -> None:
        """Let go of the files as they are: of a log that failed, or is about to be deleted."""
        with self._durability.turn:
            self._closed = True
            self._chain.release()

    def _refusal(self) -> LogError:
        if self._closed:
            return LogClosed(f"the log in {self._directory} is closed; open it again")
        return StorageFailed(self._durability.failure)

    def _roll(self) -> None:
        """Seal the active segment and begin another."""
        if self._durability.failure is not None:
            raise self._refusal()
        segment = Segment(
            self._directory,
            self._disk,
            self.end_offset,
            self._clock.now_ms(),
            self._settings.index_interval_bytes,
        )
        try:
            segment.create()
        except OSError as error:
            raise storage_error(error, segment.path, "create") from error
        with self._lock:
            self._durability.expect_name()
            self._chain.add(segment)

    def _try_to_roll(self) -> bool:
        try:
            self._roll()
        except StorageError as error:
            logger.warning("%s keeps its last segment: %s", self._directory, str(error))
            return False
        return True

    def _retire(self, count: int) -> None:
        """Take the first segments out of the log."""
        if count:
            with self._lock:
                self._chain.retire(count)
                self.start_offset = max(self.start_offset, self._chain.start_offset)

    def _save_start(self) -> bool:
        """Make the log's start durable, from any thread; False if the log was abandoned.

        A checkpoint must reach as far as the start: it tells what recovery would otherwise learn
        from the segments before it, such as which batches their producers must not repeat.
        """
        # Waiting for the turn also makes sure that nobody is about to sync a retired segment.
        with self._durability.turn:
            last = self._durability.checkpoint
            if self._closed:
                return last is not None and last.start_offset >= self.start_offset
            if last is None or last.end_offset < self.start_offset:
                self._checkpoint(closed=False)
            else:
                self._durability.save_start(self.start_offset)
            return True

    def _make_recovery_durable(self) -> None:
        """Sync what recovery found, and note the new epoch before any batch carries it."""
        try:
            self.checkpoint()
            self._disk.unlink(self._directory / MANIFEST)
        except StorageFull as error:
            # Readers need no room; the first append tries again.
            logger.warning("%s; the log can only be read for now", str(error))
            self._roll_above = CHECKPOINT_FIRST

    def _checkpoint(self, *, closed: bool) -> None:
        with self._lock:
            if self._closed:
                raise self._refusal()
            moment = self._moment()
        self._durability.save(moment, closed=closed)
        with self._lock:
            self._chain.note_synced()
            self._chain.note_saved(moment.unsaved)

    def _moment(self) -> Moment:
        return Moment(
            unsynced=self._chain.unsynced(),
            unsaved=self._chain.unsaved(),
            start_offset=self.start_offset,
            segments=tuple(segment.known() for segment in self._chain.segments),
            epochs=self._epochs.starts,
            producers=self.producers.active(),
            transactions=self.transactions.moment(),
        )
