"""How a log comes back: believe the checkpoint where the files agree with it, check the rest.

Segments below the checkpoint's end are taken over without being read. Everything behind it is
scanned batch by batch, since a power loss may have kept any part of it. The first batch that is
torn, damaged or out of place ends the log: what follows it has lost its place.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from headrace.clock import Clock
from headrace.log.checkpoint import Checkpoint, KnownSegment
from headrace.log.disk import Disk
from headrace.log.epochs import LeaderEpochs
from headrace.log.errors import CorruptFile, UnsupportedFormat
from headrace.log.framing import TEMPORARY
from headrace.log.handles import FileHandle
from headrace.log.index import SparseIndex
from headrace.log.index_file import rebuild_index
from headrace.log.lost_markers import without_marker
from headrace.log.manifest import MANIFEST, REWRITTEN, Manifest
from headrace.log.producers import ProducerStates
from headrace.log.recovery_report import Recovery, RecoveryNotes
from headrace.log.segment import INDEX_SUFFIX, LOG_SUFFIX, Segment, base_offset_of, segment_name
from headrace.log.settings import LogSettings
from headrace.log.transactions import Transactions
from headrace.log.verification import Extent
from headrace.log.walk import valid_batches
from headrace.records import (
    NO_TIMESTAMP,
    BatchHeader,
    InvalidBatch,
    MalformedBatch,
    read_marker,
)


@dataclass(frozen=True, slots=True)
class RecoveredLog:
    """The parts of a log that was just opened; the last segment is active."""

    segments: list[Segment]
    start_offset: int
    epochs: LeaderEpochs
    producers: ProducerStates
    transactions: Transactions
    checkpoint: Checkpoint | None
    recovery: Recovery
    swapped: bool
    """Whether a swap of segments was carried out that the checkpoint may not know of."""


def recover(directory: Path, settings: LogSettings, clock: Clock, disk: Disk) -> RecoveredLog:
    """Open what is in a partition's directory, or begin a log there.

    Nothing is written except that a swap of segments is carried out which a crash interrupted, that
    torn ends are cut off and segments that cannot stay are removed; the caller makes the result
    durable. Raises `UnsupportedFormat` if another version wrote it.
    """
    return _Recoverer(directory, settings, clock, disk).run()


class _Recoverer:
    def __init__(self, directory: Path, settings: LogSettings, clock: Clock, disk: Disk) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock
        self._disk = disk
        self._notes = RecoveryNotes()
        self._clean = True
        self._segments: list[Segment] = []
        self._checkpoint: Checkpoint | None = None
        self._epochs = LeaderEpochs()
        self._producers = ProducerStates(clock)
        self._transactions = Transactions()
        self._known_end = 0
        self._manifest: Manifest | None = None
        # The offset that must come next; None if that cannot be told.
        self._expected: int | None = None

    def run(self) -> RecoveredLog:
        self._carry_out_swap()
        bases = self._list_segments()
        self._read_checkpoint()
        checkpoint = self._checkpoint
        start_offset = checkpoint.start_offset if checkpoint else next(iter(bases), 0)
        bases = self._remove_retired(bases, start_offset)
        known = checkpoint.segments if checkpoint else ()
        if self._manifest is not None:
            known = self._manifest.amend(known)
        for row in known:
            if row.base_offset in bases:
                self._take_known(row, growing=row is known[-1])
            elif row.end_offset > start_offset:
                self._miss(row)
        unknown = sorted(set(bases).difference(row.base_offset for row in known))
        for base_offset, following in zip_longest(unknown, unknown[1:]):
            self._take_unknown(base_offset, following)
        self._ensure_end(start_offset)
        end_offset = self._segments[-1].end_offset
        self._producers.truncate(end_offset)
        self._transactions.truncate(end_offset)
        self._forget_lost_markers()
        if not self._clean:
            self._epochs.advance(end_offset)
        return RecoveredLog(
            segments=self._segments,
            start_offset=max(start_offset, self._segments[0].base_offset),
            epochs=self._epochs,
            producers=self._producers,
            transactions=self._transactions,
            checkpoint=checkpoint,
            recovery=self._notes.finish(clean=self._clean),
            swapped=self._manifest is not None,
        )

    def _carry_out_swap(self) -> None:
        """Finish what a manifest announces; files that wait for one in vain are removed."""
        names = self._disk.names(self._directory)
        if MANIFEST not in names:
            return
        try:
            self._manifest = manifest = Manifest.read(self._disk, self._directory)
        except CorruptFile as error:
            self._notes.problem(f"{error}; no segments are swapped")
            self._disk.unlink(self._directory / MANIFEST)
            return
        manifest.carry_out(self._disk, self._directory, names)
        manifest.remove_replaced(self._disk, self._directory)

    def _list_segments(self) -> Sequence[int]:
        names = self._disk.names(self._directory)
        bases = {base for name in names if (base := base_offset_of(name, LOG_SUFFIX)) is not None}
        for name in names:
            index_of = base_offset_of(name, INDEX_SUFFIX)
            stray = index_of is not None and index_of not in bases
            if stray or name.endswith((TEMPORARY, REWRITTEN)):
                self._disk.unlink(self._directory / name)
        return sorted(bases)

    def _read_checkpoint(self) -> None:
        try:
            checkpoint = Checkpoint.read(self._disk, self._directory)
            producers = ProducerStates.decode(checkpoint.producers, self._clock)
            self._transactions = Transactions.decode(checkpoint.transactions)
            self._producers = producers
        except FileNotFoundError:
            return
        except CorruptFile as error:
            self._clean = False
            self._notes.problem(f"{error}; every segment is checked instead")
            return
        self._clean = checkpoint.closed
        self._epochs = LeaderEpochs(checkpoint.epochs)
        self._known_end = checkpoint.end_offset
        self._checkpoint = checkpoint

    def _remove_retired(self, bases: Sequence[int], start_offset: int) -> Sequence[int]:
        """Finish removing segments that lie wholly before the log's start."""
        first = max(bisect_right(bases, start_offset) - 1, 0)
        for base_offset in bases[:first]:
            self._unlink(base_offset)
        return bases[first:]

    def _take_known(self, row: KnownSegment, *, growing: bool) -> None:
        segment = self._new_segment(row.base_offset, row.created_ms)
        file_size = self._disk.size_of(segment.path)
        self._segments.append(segment)
        if file_size < row.size or (file_size > row.size and not growing):
            self._clean = False
            self._notes.problem(
                f"{segment.path} has {file_size} bytes but was saved with {row.size}; what is left "
                "of it is checked, but records that were safe may be missing: check the disk"
            )
            handle = FileHandle.open(self._disk, segment.path)
            index = SparseIndex(row.base_offset)
            self._scan(segment, handle, index, file_size, None if growing else row.end_offset)
            self._expected = None
            return
        segment.end_offset = row.end_offset
        segment.size = segment.synced_size = row.size
        segment.max_timestamp = row.max_timestamp
        if row.size:
            segment.doubt = Extent(row.size, row.end_offset)
        self._expected = row.end_offset
        if growing:
            handle = FileHandle.open(self._disk, segment.path)
            self._scan(segment, handle, self._load_index(segment, handle), file_size)

    def _miss(self, row: KnownSegment) -> None:
        self._clean = False
        self._expected = None
        self._notes.problem(
            f"{self._path(row.base_offset)} is missing, with offsets {row.base_offset} to "
            f"{row.end_offset}; readers will skip them. Restore the file and open the log again"
        )

    def _take_unknown(self, base_offset: int, following: int | None) -> None:
        self._clean = self._clean and self._checkpoint is None
        path = self._path(base_offset)
        file_size = self._disk.size_of(path)
        if self._segments and base_offset < self._known_end:
            self._notes.problem(f"{path} does not belong to this log and is ignored; move it away")
            return
        if self._expected is not None and base_offset != self._expected:
            self._clean = False
            self._notes.cut(file_size, base_offset)
            self._notes.dropped_segments.append(path.name)
            self._notes.problem(
                f"removed {path} with {file_size} bytes: the log ends at offset {self._expected} "
                "now, and it cannot follow there"
            )
            self._unlink(base_offset)
            return
        segment = self._new_segment(base_offset, self._clock.now_ms())
        self._segments.append(segment)
        self._expected = base_offset
        handle = FileHandle.open(self._disk, path)
        # A checkpoint knows every rewritten segment, if only there is one.
        gaps_until = following if self._checkpoint is None else None
        self._scan(segment, handle, SparseIndex(base_offset), file_size, gaps_until)

    def _scan(
        self,
        segment: Segment,
        handle: FileHandle,
        index: SparseIndex,
        file_size: int,
        gaps_until: int | None = None,
    ) -> None:
        """Check the batches behind what is known of a segment; cut where they end.

        A segment that may have been rewritten can have gaps, but none that reaches beyond its end.
        """
        segment.activate(handle, index)
        unknown = file_size - segment.size
        if not unknown:
            return
        self._clean = False
        self._notes.scanned_bytes += unknown
        try:
            gaps = gaps_until is not None
            for position, header in valid_batches(handle, segment.size, file_size, gaps=gaps):
                base_offset = header.base_offset
                follows = base_offset == segment.end_offset or (
                    gaps_until is not None
                    and segment.end_offset < base_offset
                    and header.next_offset <= gaps_until
                )
                if not follows or not self._epoch_fits(header):
                    raise _misplaced(header, position)
                newest = header.max_timestamp if header.record_count else NO_TIMESTAMP
                segment.note(header.size, base_offset, header.next_offset, newest)
                if header.producer_id >= 0 and base_offset >= self._known_end:
                    self._replay(header, handle, position)
        except MalformedBatch as error:
            self._cut(segment, handle, file_size, error.problem)
        self._expected = segment.end_offset

    def _replay(self, header: BatchHeader, handle: FileHandle, position: int) -> None:
        """Learn from a batch what the log remembers of its producer."""
        self._producers.replay(header)
        if header.is_control:
            if not header.record_count:
                # Nothing of the transaction was left when compaction emptied its marker.
                return
            marker = read_marker(handle.read(header.size, position), header)
            self._transactions.replay(header, marker)
        elif header.is_transactional:
            self._transactions.replay(header, None)

    def _forget_lost_markers(self) -> None:
        """Learn from swapped segments which markers are gone that the checkpoint still knows."""
        if self._manifest is None:
            return
        swapped = {each.known.base_offset for each in self._manifest.replacements}
        for segment in self._segments:
            if segment.base_offset in swapped:
                handle, index = segment.opened()
                aborted = self._transactions.aborted_by(segment.base_offset, segment.end_offset)
                self._transactions.forget(without_marker(handle, index, segment.size, aborted))

    def _epoch_fits(self, header: BatchHeader) -> bool:
        """Whether a batch has the epoch that its offset was written in."""
        if self._checkpoint is None:
            return self._epochs.adopt(header.leader_epoch, header.base_offset)
        return header.leader_epoch == self._epochs.at(header.base_offset)

    def _cut(self, segment: Segment, handle: FileHandle, file_size: int, problem: str) -> None:
        lost = file_size - segment.size
        self._notes.cut(lost, segment.end_offset)
        self._notes.problem(
            f"cut {lost} bytes off {segment.path} from offset {segment.end_offset} on: {problem}"
        )
        self._disk.truncate(handle.descriptor, segment.size)
        # Even if all that is left was synced before, the new size was not.
        segment.synced_size = -1

    def _ensure_end(self, start_offset: int) -> None:
        """Leave the last segment, and only that, ready for appends."""
        if self._segments and self._segments[-1].end_offset < start_offset:
            self._notes.problem(
                f"{self._directory} has nothing left from its start at offset {start_offset} on: "
                "records that were safe are missing; check the disk"
            )
            for segment in self._segments:
                segment.release()
                self._unlink(segment.base_offset)
            self._segments.clear()
        for segment in self._segments[:-1]:
            segment.seal()
        if not self._segments:
            # Offsets that were given out once are not given to other records.
            base_offset = max(start_offset, self._known_end)
            segment = self._new_segment(base_offset, self._clock.now_ms())
            segment.create()
            self._segments.append(segment)
        elif self._segments[-1].active is None:
            self._segments[-1].activate(*self._segments[-1].opened())

    def _load_index(self, segment: Segment, handle: FileHandle) -> SparseIndex:
        """The index of what is known of a segment; entries beyond that are forgotten."""
        if not segment.size:
            return SparseIndex(segment.base_offset)
        try:
            index = segment.index_file.load(segment.base_offset)
        except (FileNotFoundError, CorruptFile, UnsupportedFormat) as error:
            self._notes.rebuilt_indexes.append(segment.path.name)
            self._notes.problem(f"index of {segment.path} is made again: {error}")
            return rebuild_index(
                handle, segment.base_offset, segment.size, self._settings.index_interval_bytes
            )
        if index.truncate(segment.size):
            segment.index_file.saved_entries = 0
        return index

    def _new_segment(self, base_offset: int, created_ms: int) -> Segment:
        return Segment(
            self._directory,
            self._disk,
            base_offset,
            created_ms,
            self._settings.index_interval_bytes,
        )

    def _path(self, base_offset: int) -> Path:
        return self._directory / segment_name(base_offset, LOG_SUFFIX)

    def _unlink(self, base_offset: int) -> None:
        self._disk.unlink(self._path(base_offset))
        self._disk.unlink(self._directory / segment_name(base_offset, INDEX_SUFFIX))


def _misplaced(header: BatchHeader, position: int) -> InvalidBatch:
    """Describe a batch whose offset or epoch, which no checksum covers, is not what must follow."""
    return InvalidBatch(
        f"offset {header.base_offset} of leader epoch {header.leader_epoch} cannot follow here",
        position,
        header.base_offset,
    )
