"""Where batches begin in a segment: few enough entries to keep, dense enough to find any batch.

An entry names a batch by its offset and position, and carries the largest timestamp of all batches
*before* it. That one number per entry is the whole time index: it never falls from one entry to the
next, so the first record at or after a time lies behind the last entry whose number is smaller.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import le, lt
from typing import Final, NamedTuple

from headrace.records import NO_TIMESTAMP

_UINT32: Final = "I"
_INT64: Final = "q"
_NUMBERS_PER_ROW: Final = 4
_TIMES_PER_ROW: Final = 2

ROW_SIZE: Final = 16
"""An entry in a file: relative offset (4 bytes), position (4), timestamp (8), little-endian."""

LARGEST: Final = (1 << 32) - 1
"""The largest relative offset, or position, that an entry has room for."""

# Skips the Python-level constructor of a named tuple, which would double the cost of a lookup.
_new = tuple.__new__


class Place(NamedTuple):
    """The beginning of a batch."""

    offset: int
    position: int


class SparseIndex:
    """The entries of one segment, in order; offsets are kept relative to the segment's first.

    Costs 16 bytes an entry. Lookups are binary searches in flat arrays.
    """

    __slots__ = ("base_offset", "offsets", "positions", "timestamps")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.offsets = array(_UINT32)
        self.positions = array(_UINT32)
        self.timestamps = array(_INT64)

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self.timestamps)

    @property
    def memory(self) -> int:
        """Bytes that the entries occupy."""
        return len(self.timestamps) * ROW_SIZE

    def add(self, offset: int, position: int, max_timestamp: int) -> None:
        """Add a batch behind all others; `max_timestamp` is that of the batches before it."""
        self.offsets.append(offset - self.base_offset)
        self.positions.append(position)
        self.timestamps.append(max_timestamp)

    def at_or_below_offset(self, offset: int) -> Place:
        """The last entry that is not beyond an offset; the segment's beginning if there is none."""
        return self._place(bisect_right(self.offsets, offset - self.base_offset) - 1)

    def before_time(self, timestamp: int) -> Place:
        """A place before which every record is older than a time."""
        return self._place(bisect_left(self.timestamps, timestamp) - 1)

    def boundary_below(self, position: int) -> int:
        """The position of the last entry that is not beyond a position; 0 if there is none."""
        index = bisect_right(self.positions, position) - 1
        return self.positions[index] if index >= 0 else 0

    def offset_from(self, position: int) -> int | None:
        """The offset of the first entry at a position or behind it; None if there is none."""
        index = bisect_left(self.positions, position)
        return self.base_offset + self.offsets[index] if index < len(self) else None

    def max_timestamp_before(self, place: Place) -> int:
        """The largest timestamp of the batches before an entry."""
        index = bisect_left(self.positions, place.position)
        return self.timestamps[index] if index < len(self) else NO_TIMESTAMP

    def count_before(self, position: int) -> int:
        """How many entries there are before a position."""
        return bisect_left(self.positions, position)

    def truncate(self, position: int) -> bool:
        """Forget entries at or beyond a position; return whether there were any."""
        count = self.count_before(position)
        forgotten = count < len(self)
        del self.offsets[count:]
        del self.positions[count:]
        del self.timestamps[count:]
        return forgotten

    def encode(self, start: int, end: int) -> bytes:
        """The entries from `start` to `end` as they are stored in a file."""
        count = end - start
        numbers = array(_UINT32, bytes(count * ROW_SIZE))
        numbers[0::_NUMBERS_PER_ROW] = self.offsets[start:end]
        numbers[1::_NUMBERS_PER_ROW] = self.positions[start:end]
        times = self.timestamps[start:end]
        if sys.byteorder == "big":  # pragma: no cover
            numbers.byteswap()
            times.byteswap()
        rows = array(_INT64, numbers.tobytes())
        rows[1::_TIMES_PER_ROW] = times
        return rows.tobytes()

    def extend(self, rows: bytes) -> None:
        """Add entries as they are stored in a file."""
        numbers = array(_UINT32, rows)
        times = array(_INT64, rows)[1::_TIMES_PER_ROW]
        if sys.byteorder == "big":  # pragma: no cover
            numbers.byteswap()
            times.byteswap()
        self.offsets += numbers[0::_NUMBERS_PER_ROW]
        self.positions += numbers[1::_NUMBERS_PER_ROW]
        self.timestamps += times

    def is_ordered(self) -> bool:
        """Whether the entries are as `add` makes them: places rise, and times never fall.

        Costs a look at every entry; for an index that comes from a file.
        """
        return (
            all(map(lt, self.offsets, self.offsets[1:]))
            and all(map(lt, self.positions, self.positions[1:]))
            and all(map(le, self.timestamps, self.timestamps[1:]))
        )

    def _place(self, index: int) -> Place:
        if index < 0:
            return Place(self.base_offset, 0)
        return _new(Place, (self.base_offset + self.offsets[index], self.positions[index]))


class RecentBatches:
    """Every one of the last batches of a log's end, for readers that follow it closely.

    A consumer that has read everything asks for the offset that was the end a moment ago, which is
    hardly ever an entry of the sparse index. Here it is found without touching the file.
    """

    __slots__ = ("offsets", "positions")

    KEPT: Final = 128
    """How many batches are remembered at least; up to twice as many."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.positions: list[int] = []

    def add(self, offset: int, position: int) -> None:
        """Remember one more batch."""
        offsets = self.offsets
        offsets.append(offset)
        self.positions.append(position)
        if len(offsets) > 2 * self.KEPT:
            del offsets[: self.KEPT]
            del self.positions[: self.KEPT]

    def reaches(self, offset: int) -> bool:
        """Whether the batch that holds an offset is among them."""
        return bool(self.offsets) and offset >= self.offsets[0]

    def position_of(self, offset: int) -> int:
        """The position of the batch that holds an offset which is reached."""
        return self.positions[bisect_right(self.offsets, offset) - 1]

    def reaches_position(self, position: int) -> bool:
        """Whether the last batch that is not beyond a position is among them."""
        return bool(self.positions) and position >= self.positions[0]

    def boundary_below(self, position: int) -> int:
        """The position of the last batch that is not beyond a position which is reached."""
        return self.positions[bisect_right(self.positions, position) - 1]

    def offset_from(self, position: int) -> int:
        """The offset of the batch at a position which is reached, and at which one begins."""
        return self.offsets[bisect_left(self.positions, position)]
