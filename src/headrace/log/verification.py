"""Is a segment still what was written? Reading all of it tells, and says what is damaged.

The checksum of a batch covers its records. It does not cover the offset, the length and the leader
epoch in front of them, which are therefore compared with what surrounds them. A damaged batch costs
the offsets that it held; where the next intact one begins is found by looking for it.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headrace.log.disk import Disk
from headrace.log.epochs import LeaderEpochs
from headrace.log.errors import StorageFailed
from headrace.log.glance import looks_intact
from headrace.log.handles import FileHandle
from headrace.log.index import SparseIndex
from headrace.log.pace import Pace, at_once
from headrace.log.resync import find_batch
from headrace.log.walk import valid_batches
from headrace.records import NO_TIMESTAMP, BatchHeader, CorruptBatch, MalformedBatch


class Extent(NamedTuple):
    """The part of a segment that begins with it and ends here."""

    size: int
    end_offset: int


class Damage(NamedTuple):
    """Bytes of a segment that are not what was written, and the offsets that are lost with them."""

    path: Path
    position: int
    end: int
    first_offset: int
    next_offset: int
    """The first offset behind the damage that can be read again."""
    problem: str

    def __str__(self) -> str:
        """Name the place, what is lost, and the reason."""
        return (
            f"{self.path} is damaged from byte {self.position} to {self.end}; offsets "
            f"{self.first_offset} to {self.next_offset - 1} cannot be read: {self.problem}"
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What reading a segment has shown."""

    extent: Extent
    damage: tuple[Damage, ...]
    sparse_index: SparseIndex | None
    """Places of intact batches only, one behind every damage among them; None if all is well."""


@dataclass(frozen=True, slots=True)
class Written:
    """What is known of a segment besides its bytes."""

    base_offset: int
    extent: Extent
    epochs: LeaderEpochs
    index_interval: int


def verify(disk: Disk, path: Path, written: Written, pace: Pace = at_once) -> Verdict:
    """Read a segment and compare it with what is known of it.

    Blocks, and touches nothing but the file, so that any thread may do it. A file that cannot be
    read is damaged as a whole.
    """
    size, end_offset = written.extent
    try:
        handle = FileHandle.open(disk, path)
        if looks_intact(handle, written.base_offset, size, end_offset, written.epochs, pace):
            return Verdict(written.extent, (), None)
        check = _Check(handle, written, pace, gapless=False)
        check.run()
        if check.spans == end_offset - written.base_offset and not check.in_sequence:
            # Nothing was ever removed from it, so every batch must follow the one before.
            check = _Check(handle, written, pace, gapless=True)
            check.run()
    except StorageFailed as error:
        whole = Damage(path, 0, size, written.base_offset, end_offset, str(error))
        return Verdict(written.extent, (whole,), SparseIndex(written.base_offset))
    return Verdict(written.extent, tuple(check.damage), check.index if check.damage else None)


def forget_cached(disk: Disk, path: Path) -> None:
    """Have the next reader of a file get it from the disk, as far as the system grants that."""
    with suppress(OSError):
        descriptor = disk.open(path)
        try:
            disk.forget_cached(descriptor)
        finally:
            disk.close(descriptor)


class _Open(NamedTuple):
    """A damage of which the end is not known yet."""

    position: int
    end: int
    first_offset: int
    problem: str


class _Check:
    """One walk through a segment."""

    def __init__(self, handle: FileHandle, written: Written, pace: Pace, *, gapless: bool) -> None:
        self._handle = handle
        self._written = written
        self._pace = pace
        self._gapless = gapless
        self._expected = written.base_offset
        # The batch before, and the offset that was expected of it.
        self._before: tuple[int, int, int] | None = None
        self._open: _Open | None = None
        self._next_entry = 0
        self._max_timestamp = NO_TIMESTAMP
        self.index = SparseIndex(written.base_offset)
        self.damage: list[Damage] = []
        self.spans = 0
        """How many offsets all batches together claim, wherever they claim to be."""
        self.in_sequence = True
        """Whether every batch was where it would be if none had been removed before it."""

    def run(self) -> None:
        """Go from batch to batch, and from damage to whatever follows it."""
        size, end_offset = self._written.extent
        position = 0
        while position < size:
            try:
                for place, header in valid_batches(self._handle, position, size, gaps=True):
                    self._look_at(place, header)
                    self._pace(header.size)
                    position = place + header.size
            except MalformedBatch as error:
                found = find_batch(self._handle, position + 1, size, self._expected + 1, end_offset)
                self._mark(position, found, _reason(error))
                self._pace(found - position)
                position = found
        self._close(end_offset)

    def _look_at(self, position: int, header: BatchHeader) -> None:
        """Compare a batch whose records are intact with what surrounds it."""
        end = position + header.size
        ideal = self._written.base_offset + self.spans
        self.spans += header.last_offset_delta + 1
        self.in_sequence = self.in_sequence and header.base_offset == ideal
        if not self._fits(header):
            if not self._gapless:
                self._suspect_the_one_before(header)
            self._mark(
                position,
                end,
                f"offset {header.base_offset} cannot follow where {self._expected} is expected",
            )
            if self._gapless:
                self._expected += header.last_offset_delta + 1
            return
        epoch = self._written.epochs.at(header.base_offset)
        if header.leader_epoch != epoch:
            self._mark(position, end, f"leader epoch {header.leader_epoch} instead of {epoch}")
            self._expected = header.next_offset
            return
        self._close(header.base_offset)
        self._before = (position, header.base_offset, self._expected)
        self._expected = header.next_offset
        if position >= self._next_entry:
            self.index.add(header.base_offset, position, self._max_timestamp)
            self._next_entry = position + self._written.index_interval
        if header.record_count:
            self._max_timestamp = max(self._max_timestamp, header.max_timestamp)

    def _fits(self, header: BatchHeader) -> bool:
        """Whether a batch can stand where it is, judged by its offset."""
        if self._gapless:
            return header.base_offset == self._expected
        end_offset = self._written.extent.end_offset
        return self._expected <= header.base_offset and header.next_offset <= end_offset

    def _suspect_the_one_before(self, header: BatchHeader) -> None:
        """Where offsets may be missing, it may be the batch before that claims a wrong place."""
        if self._before is None or self._open is not None:
            return
        position, base_offset, expected = self._before
        if expected < base_offset and header.base_offset >= expected:
            self._expected = expected
            self.index.truncate(position)
            self._mark(
                position, position, f"offset {base_offset} contradicts that of the next batch"
            )

    def _mark(self, position: int, end: int, problem: str) -> None:
        if self._open is None:
            self._open = _Open(position, end, self._expected, problem)
        else:
            self._open = self._open._replace(end=end)

    def _close(self, next_offset: int) -> None:
        if self._open is not None:
            position, end, first_offset, problem = self._open
            self.damage.append(
                Damage(self._handle.path, position, end, first_offset, next_offset, problem)
            )
            self._open = None
            # The next intact batch must be found without a walk through the damage.
            self._next_entry = end


def _reason(error: MalformedBatch) -> str:
    """What is wrong with stored bytes; a broken checksum is explained to producers otherwise."""
    return "its checksum does not match" if isinstance(error, CorruptBatch) else error.problem
