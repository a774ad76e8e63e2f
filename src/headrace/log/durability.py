"""Bringing a log's files onto the disk while its owner goes on appending.

The owner's thread describes a moment of the log; any thread then makes that moment durable. What
is appended meanwhile belongs to the next moment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from headrace.log.checkpoint import Checkpoint, KnownSegment
from headrace.log.disk import Disk
from headrace.log.epochs import EpochStart
from headrace.log.errors import StorageError, StorageFailed, storage_error
from headrace.log.handles import FileHandle
from headrace.log.index import SparseIndex
from headrace.log.producers import ProducerState
from headrace.log.producers import encode as encode_producers
from headrace.log.segment import Segment
from headrace.log.transactions import TransactionsMoment
from headrace.log.transactions import encode as encode_transactions


class Unsynced(NamedTuple):
    """A segment of which the first `size` bytes are to be on the disk."""

    segment: Segment
    size: int
    handle: FileHandle | None
    """The open file of the active segment; a sealed one is opened for the sync."""


class Unsaved(NamedTuple):
    """An index of which the first `entries` entries are to be saved."""

    segment: Segment
    sparse_index: SparseIndex
    entries: int


@dataclass(frozen=True, slots=True)
class Moment:
    """Everything that a checkpoint says, and what has to be written before it may say so."""

    unsynced: Sequence[Unsynced]
    unsaved: Sequence[Unsaved]
    start_offset: int
    segments: Sequence[KnownSegment]
    epochs: Sequence[EpochStart]
    producers: Mapping[int, ProducerState]
    transactions: TransactionsMoment


class Durability:
    """What of a log is on the disk, and the way to get more of it there.

    `turn` must be held by whoever syncs or checkpoints, so that two threads never do it at once.
    """

    __slots__ = (
        "_directory",
        "_disk",
        "_new_names",
        "checkpoint",
        "failure",
        "swap",
        "turn",
    )

    def __init__(self, directory: Path, disk: Disk, checkpoint: Checkpoint | None) -> None:
        self._directory = directory
        self._disk = disk
        # Directories with names in them that may not be on the disk yet. Whoever wrote the
        # checkpoint has synced those that were there by then.
        self._new_names = {directory, directory.parent} if checkpoint is None else set()
        self.turn = Lock()
        self.checkpoint = checkpoint
        """The last one that was written."""
        self.failure: str | None = None
        """Why nothing may be written any more, if so."""
        self.swap: object | None = None
        """The swap of segments whose manifest is on the disk; for whoever holds `turn`."""

    def expect_name(self) -> None:
        """Remember that a file was created."""
        self._new_names.add(self._directory)

    def fail(self, error: StorageError) -> StorageFailed:
        """Refuse all writing from now on."""
        self.failure = f"{error}; nothing more is written here until the log is opened again"
        return StorageFailed(self.failure)

    def sync(self, unsynced: Sequence[Unsynced]) -> None:
        """Return once the segments, and the names of new ones, are on the disk.

        A failure is final: the kernel may have dropped the pages that it could not write, and
        would let the next fsync succeed without them.
        """
        if self.failure is not None:
            raise StorageFailed(self.failure)
        path = self._directory
        try:
            while self._new_names:
                path = self._new_names.pop()
                self._disk.sync_directory(path)
            for segment, size, handle in unsynced:
                if segment.synced_size < size:
                    path = segment.path
                    open_file = handle or FileHandle(self._disk, path, self._disk.open(path))
                    self._disk.sync(open_file.descriptor)
                    segment.synced_size = size
        except OSError as error:
            raise self.fail(storage_error(error, path, "fsync")) from error

    def save(self, moment: Moment, *, closed: bool) -> None:
        """Make a moment durable: its segments, its indexes, and a checkpoint that vouches for them.

        Does nothing if the last checkpoint says the same. If there is no room for the small files,
        the previous checkpoint still holds.
        """
        if self._is_current(moment, closed=closed):
            return
        self.sync(moment.unsynced)
        try:
            for segment, sparse_index, entries in moment.unsaved:
                segment.index_file.save(sparse_index, entries)
        except OSError as error:
            raise storage_error(error, self._directory, "save an index in") from error
        self._write(
            Checkpoint(
                start_offset=moment.start_offset,
                segments=moment.segments,
                epochs=moment.epochs,
                closed=closed,
                producers=encode_producers(moment.producers),
                transactions=encode_transactions(moment.transactions),
            )
        )

    def save_start(self, start_offset: int) -> None:
        """Make a later start of the log durable, up to the end of the last checkpoint."""
        last = self.checkpoint
        assert last is not None
        if last.start_offset < start_offset:
            self._write(replace(last, start_offset=start_offset))

    def is_behind(self, start_offset: int, active: Segment) -> bool:
        """Whether the log has changed since the last checkpoint."""
        last = self.checkpoint
        if last is None:
            return active.end_offset > 0
        return last.start_offset != start_offset or last.segments[-1] != active.known()

    def _is_current(self, moment: Moment, *, closed: bool) -> bool:
        last = self.checkpoint
        return (
            last is not None
            and last.closed == closed
            and last.start_offset == moment.start_offset
            and last.segments == moment.segments
            and last.epochs == moment.epochs
        )

    def _write(self, checkpoint: Checkpoint) -> None:
        try:
            checkpoint.write(self._disk, self._directory)
        except OSError as error:
            raise storage_error(error, self._directory, "write a checkpoint in") from error
        self.checkpoint = checkpoint
