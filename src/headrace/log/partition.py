"""The log of one partition: what is appended stays in order, and is found again."""

import logging
from typing import NamedTuple

from headrace.log.errors import (
    InvalidTransactionState,
    OffsetOutOfRange,
    Unverified,
    storage_error,
)
from headrace.log.lookup import find_by_time, find_newest
from headrace.log.segment import MAX_RELATIVE_OFFSET, Segment
from headrace.log.slices import EMPTY_SLICE, LogSlice
from headrace.log.stored import CHECKPOINT_FIRST, StoredLog
from headrace.log.transactions import AbortedTransaction
from headrace.records import (
    NO_TIMESTAMP,
    BatchHeader,
    Marker,
    RecordPosition,
    Writable,
    build_marker,
    read_header,
    stamp,
    stamp_append_time,
)

logger = logging.getLogger(__name__)

# Skips the Python-level constructor of a named tuple; every batch makes one.
_new = tuple.__new__


class Append(NamedTuple):
    """What became of a batch."""

    base_offset: int
    last_offset: int
    timestamp: int
    """The broker's time that was stamped into the batch, or -1."""
    duplicate: bool
    """Whether the batch was there already; the offsets are the original's."""


class PartitionLog(StoredLog):
    """Batches of records in one directory, in the order of their offsets.

    One thread owns the log and calls its methods. `flush` and `checkpoint`, the methods that wait
    for the disk, may be called from any thread, also while the owner appends.

    `start_offset`, `end_offset`, `high_watermark`, `last_stable_offset` and `leader_epoch` are for
    reading only.
    """

    __slots__ = ()

    def append(
        self,
        batch: Writable,
        header: BatchHeader,
        append_time: int | None = None,
        marker: Marker | None = None,
    ) -> Append:
        """Append one batch that `validate_batch` has accepted; `header` is its header.

        Writes offset and epoch (and `append_time`, if given) into `batch` itself. A retry of an
        idempotent producer's batch is recognised and not stored again. `marker` is what a control
        batch says; see `append_marker`.

        Raises `StorageFull` or `StorageFailed` if the batch could not be written, and leaves no
        part of it behind; `OutOfOrderSequence`, `StaleProducerEpoch` or `InvalidTransactionState`
        if it does not continue what its producer wrote before.
        """
        if self._durability.failure is not None or self._closed:
            raise self._refusal()
        idempotent = header.producer_id >= 0
        if idempotent:
            original = self.producers.check(header)
            if original is not None:
                return Append(original.base_offset, original.last_offset, original.timestamp, True)
            if not header.is_transactional and header.producer_id in self.transactions.open:
                raise InvalidTransactionState(
                    f"producer {header.producer_id} has an open transaction here and wrote outside "
                    "of it; commit or abort it first"
                )
        size = len(batch)
        base_offset = self.end_offset
        end_offset = base_offset + header.last_offset_delta + 1
        segment = self._chain.active
        if (
            segment.size + size > self._roll_above
            or end_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        ):
            segment = self._make_room(size, end_offset)
        if append_time is None:
            timestamp = header.max_timestamp
            stamped = NO_TIMESTAMP
        else:
            timestamp = stamped = append_time
            stamp_append_time(batch, append_time)
        stamp(batch, base_offset, self.leader_epoch)
        try:
            segment.write(batch)
        except OSError as error:
            self._undo_write(segment)
            raise storage_error(error, segment.path, "append to") from error
        with self._lock:
            segment.note(size, base_offset, end_offset, timestamp)
            if idempotent:
                self.producers.record(header, base_offset, stamped)
                if marker is not None:
                    self.transactions.end(marker, base_offset)
                elif header.is_transactional:
                    self.transactions.record(header.producer_id, base_offset)
            self.end_offset = end_offset
            if self._visible_at_once:
                self.high_watermark = end_offset
        return _new(Append, (base_offset, end_offset - 1, stamped, False))

    def append_marker(self, marker: Marker) -> Append:
        """End a producer's transaction in this log; older epochs of the producer are fenced.

        What the transaction wrote stays unstable until `reveal` is called with the marker's offset.
        Raises what `append` does, and `StaleProducerEpoch` if the producer has a newer epoch.
        """
        self.producers.check_marker(marker)
        batch = build_marker(marker, self._clock.now_ms())
        return self.append(batch, read_header(batch), marker=marker)

    def reveal(self, marker_offset: int) -> bool:
        """Let a transaction that was ended by a marker become stable.

        Returns whether readers of committed records may see more now.
        """
        return self.transactions.reveal(marker_offset)

    def aborted_transactions(self, first: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with anything from offset `first` to before `end`.

        A record in that range, and before the last stable offset, was aborted exactly if its batch
        is transactional and one of these has its producer id and spans its offset. All other
        records count. Beyond the last stable offset nothing is decided.
        """
        return self.transactions.aborted(first, end)

    def forget_aborted(self, before: int) -> None:
        """Forget aborted transactions that end before an offset, where nobody can read any more.

        That is not always the start of the log: an archive may go back further.
        """
        with self._lock:
            self.transactions.prune(before)

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        at_least_one: bool = True,
        up_to: int | None = None,
    ) -> LogSlice:
        """Whole batches from the one that holds `offset` on, at most `max_bytes` of them.

        `at_least_one` lets the first batch exceed that. Ends by `up_to`, or else by the high
        watermark, and never goes beyond one segment; is empty if there is nothing yet. Raises
        `OffsetOutOfRange` if the log no longer has `offset`, or does not have it yet. No bytes are
        read here beyond the headers of a few batches, and hardly ever those.
        """
        if self._closed:
            raise self._refusal()
        limit = self.high_watermark if up_to is None else min(up_to, self.end_offset)
        if offset < self.start_offset or offset > self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        if offset >= limit:
            return EMPTY_SLICE
        segment = self._chain.active
        if offset < segment.base_offset:
            segment = self._chain.holding(offset)
        try:
            return segment.slice(offset, limit, max_bytes, at_least_one)
        except Unverified:
            self._verify_at_once(segment)
        return segment.slice(offset, limit, max_bytes, at_least_one)

    def offset_for_time(self, timestamp: int) -> RecordPosition | None:
        """The first visible record that is not older than `timestamp`; None if all are."""
        if self._closed:
            raise self._refusal()
        while True:
            try:
                return find_by_time(
                    self._chain.segments, timestamp, self.start_offset, self.high_watermark
                )
            except Unverified as doubt:
                self._verify_at_once(doubt.segment)

    def max_timestamp(self) -> RecordPosition | None:
        """The first of the visible records with the largest timestamp; None if none has any."""
        if self._closed:
            raise self._refusal()
        while True:
            try:
                return find_newest(self._chain.segments, self.start_offset, self.high_watermark)
            except Unverified as doubt:
                self._verify_at_once(doubt.segment)

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """The last epoch up to the one given, and the offset where it ended; -1, -1 if unknown."""
        return self._epochs.end_of(leader_epoch, self.end_offset)

    def _verify_at_once(self, segment: Segment) -> None:
        if not self.verifies_at_once:
            raise Unverified(segment)
        for damage in self.settle(segment, self.verify(segment)):
            logger.error("%s", damage)

    def _make_room(self, size: int, end_offset: int) -> Segment:
        """Whatever has to happen before a batch can go into the active segment."""
        if self._roll_above == CHECKPOINT_FIRST:
            with self._durability.turn:
                self._checkpoint(closed=False)
            self._roll_above = self._settings.segment_bytes
        segment = self._chain.active
        if segment.size and (
            segment.size + size > self._roll_above
            or end_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        ):
            self._roll()
        return self._chain.active

    def _undo_write(self, segment: Segment) -> None:
        try:
            segment.cut_back()
        except OSError as error:
            self._durability.fail(storage_error(error, segment.path, "cut a failed write off"))
