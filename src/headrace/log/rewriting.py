"""Putting rewritten files in the place of sealed segments, under readers and across crashes.

Whoever rewrites segments (compaction, excision) takes them from `PartitionLog.sealed_segments`,
writes files beside them, and hands those to `PartitionLog.swap`. Meanwhile the log lives on: should
one of the segments have left it, nothing is swapped. The steps, and who may take them:

    prepare   any thread   the files are checked, and the manifest brought onto the disk
    commit    the owner    renames, and the log reads the new files from now on
    finish    any thread   a checkpoint knows the new files; the old ones and the manifest go

A rewritten file keeps offsets: its last batch, which may be empty, ends where the last replaced
segment ended. So the end of a segment can always be told from its bytes alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from headrace.log.chain import SegmentChain
from headrace.log.checkpoint import KnownSegment
from headrace.log.disk import Disk
from headrace.log.durability import Durability
from headrace.log.errors import (
    RewriteRefused,
    UnsupportedFormat,
    storage_error,
)
from headrace.log.handles import FileHandle
from headrace.log.index_file import IndexFile
from headrace.log.lost_markers import without_marker
from headrace.log.manifest import MANIFEST, REWRITTEN, Manifest, Replacement
from headrace.log.segment import MAX_RELATIVE_OFFSET, Segment
from headrace.log.transactions import AbortedTransaction, Transactions
from headrace.log.walk import headers


@dataclass(frozen=True, slots=True)
class RewrittenSegment:
    """A pair of synced files that is to take the place of consecutive segments."""

    replaces: Sequence[Segment]
    """The segments, as `PartitionLog.sealed_segments` gave them."""

    size: int
    """Bytes of the batches that are left."""

    max_timestamp: int
    """The newest timestamp of the records that are left, or -1."""

    log_file: str
    """The name of the file with the batches; ends in `REWRITTEN`."""

    index_file: str
    """The name of the file with the index; ends in `REWRITTEN`."""

    @property
    def known(self) -> KnownSegment:
        """The segment that there will be."""
        first, last = self.replaces[0], self.replaces[-1]
        return KnownSegment(
            first.base_offset, last.end_offset, self.size, self.max_timestamp, first.created_ms
        )


class SegmentSwap:
    """One swap; `PartitionLog.swap` makes it. `finish` must be called whatever happened before."""

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        chain: SegmentChain,
        durability: Durability,
        transactions: Transactions,
        lock: Lock,
        checkpoint: Callable[[], None],
        is_closed: Callable[[], bool],
        rewritten: Sequence[RewrittenSegment],
    ) -> None:
        self._directory = directory
        self._disk = disk
        self._chain = chain
        self._durability = durability
        self._transactions = transactions
        self._lock = lock
        self._checkpoint = checkpoint
        self._is_closed = is_closed
        self._rewritten = rewritten
        self._manifest = Manifest(
            tuple(
                Replacement(
                    each.known,
                    tuple(segment.base_offset for segment in each.replaces),
                    each.log_file,
                    each.index_file,
                )
                for each in rewritten
            )
        )
        # Keeps replaced files until `finish`: to free a large one takes a file system its time.
        self._replaced: list[FileHandle] = []
        self._lost: set[AbortedTransaction] = set()
        self.committed = False
        """Whether the log reads the new files."""

    def prepare(self) -> None:
        """Check the files and bring the manifest onto the disk; from any thread.

        Raises `RewriteRefused` if the files cannot take the segments' place or another swap of this
        log is under way, `LogClosed`, or `StorageError` if the disk refuses.
        """
        try:
            with self._durability.turn:
                # From here on, nobody has a reason to write one of the segments' own files.
                self._checkpoint()
                self._await_turn()
                for each in self._rewritten:
                    self._check(each)
                    self._replaced += [
                        FileHandle.open(self._disk, segment.path) for segment in each.replaces
                    ]
                self._manifest.write(self._disk, self._directory)
        except OSError as error:
            raise storage_error(error, self._directory, "prepare a swap in") from error

    def commit(self) -> bool:
        """Let the log read the new files; for its owner. False if a segment has left the log.

        Waits for nothing. Raises `StorageFailed` if the disk refuses to rename a file; opening the
        log again carries the swap out.
        """
        places = [self._chain.place_of(each.replaces) for each in self._rewritten]
        if self._is_closed() or None in places or self._durability.failure is not None:
            return False
        names = [name for each in self._rewritten for name in (each.log_file, each.index_file)]
        try:
            self._manifest.carry_out(self._disk, self._directory, names)
        except OSError as error:
            raise self._durability.fail(
                storage_error(error, self._directory, "swap segments in")
            ) from error
        with self._lock:
            for each in self._rewritten:
                place = self._chain.place_of(each.replaces)
                assert place is not None
                interval = each.replaces[0].index_interval
                segment = Segment.sealed(self._directory, self._disk, each.known, interval)
                self._chain.substitute(place, len(each.replaces), segment)
            if self._lost:
                self._transactions.forget(self._lost)
        self.committed = True
        return True

    def finish(self) -> None:
        """Remove what is no longer needed; from any thread, also if the swap did not happen.

        If the log was closed meanwhile, opening it again does that. Raises `StorageError` if the
        disk refuses; the next swap, or opening the log, tries again.
        """
        self._replaced.clear()
        try:
            with self._durability.turn:
                if self._is_closed():
                    return
                if not self.committed:
                    self._forget()
                elif self._durability.swap is self:
                    self._checkpoint()
                    self._settle()
        except OSError as error:
            raise storage_error(error, self._directory, "finish a swap in") from error

    def _await_turn(self) -> None:
        """Be the only swap of this log, finishing one that could not be finished before."""
        other = self._durability.swap
        if isinstance(other, SegmentSwap) and other is not self:
            if not other.committed:
                raise RewriteRefused(
                    f"segments of {self._directory} are being swapped already; try again later"
                )
            other._settle()
        self._durability.swap = self

    def _check(self, rewritten: RewrittenSegment) -> None:
        """Refuse files that are not what they are said to be; costs a look at the last batches."""
        known = rewritten.known
        path = self._directory / rewritten.log_file
        if not (path.name.endswith(REWRITTEN) and rewritten.index_file.endswith(REWRITTEN)):
            raise RewriteRefused(f"{path} must end in {REWRITTEN}, lest it outlive a crash")
        if known.end_offset - known.base_offset > MAX_RELATIVE_OFFSET:
            raise RewriteRefused(f"{path} spans more offsets than a segment can; merge fewer")
        handle = FileHandle.open(self._disk, path)
        try:
            index = IndexFile(self._disk, self._directory / rewritten.index_file).load(
                known.base_offset
            )
        except UnsupportedFormat as error:
            raise RewriteRefused(f"{path} has no index: {error}") from error
        with self._lock:
            aborted = self._transactions.aborted_by(known.base_offset, known.end_offset)
        self._lost |= without_marker(handle, index, known.size, aborted)
        end, end_offset = 0, known.base_offset
        for position, header in headers(handle, index.boundary_below(known.size), known.size):
            end, end_offset = position + header.size, header.next_offset
        if end != known.size or end_offset != known.end_offset:
            raise RewriteRefused(
                f"{path} ends at byte {end} with offset {end_offset} instead of {known.size} with "
                f"{known.end_offset}; rewrite the segments again"
            )

    def _settle(self) -> None:
        """A checkpoint knows the new files: nobody needs the manifest any more."""
        self._manifest.remove_replaced(self._disk, self._directory)
        # Were the manifest to go first, a power loss could bring back what was replaced.
        self._disk.sync_directory(self._directory)
        self._disk.unlink(self._directory / MANIFEST)
        self._durability.swap = None

    def _forget(self) -> None:
        if self._durability.swap is self:
            self._disk.unlink(self._directory / MANIFEST)
            # Were a file that waits to go first, a manifest could come back that misses it.
            self._disk.sync_directory(self._directory)
            self._durability.swap = None
        self._remove_files()

    def _remove_files(self) -> None:
        for each in self._rewritten:
            self._disk.unlink(self._directory / each.log_file)
            self._disk.unlink(self._directory / each.index_file)
