"""The segments of one log, oldest first."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import is_

from headrace.log.durability import Unsaved, Unsynced
from headrace.log.segment import Segment


class SegmentChain:
    """Consecutive segments, of which the last is active.

    Belongs to the log's owner; other threads may look at it while the owner's lock is held.
    """

    __slots__ = ("_bases", "_retired", "_rolled", "active", "segments")

    def __init__(self, segments: list[Segment]) -> None:
        self.segments = segments
        """All of them."""
        self.active = segments[-1]
        """The one that grows."""
        self._bases = [segment.base_offset for segment in segments]
        # Sealed, but not on the disk yet.
        self._rolled = [segment for segment in segments[:-1] if segment.is_dirty]
        # No longer part of the log, but their files are still there.
        self._retired: list[Segment] = []

    @property
    def start_offset(self) -> int:
        """The first offset that there is a segment for."""
        return self._bases[0]

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self.segments)

    @property
    def is_dirty(self) -> bool:
        """Whether some bytes may not be on the disk yet."""
        return self.active.is_dirty or bool(self._rolled)

    def holding(self, offset: int) -> Segment:
        """The segment in which a reader at an offset goes on.

        That is the one that holds the offset, or the next one if a damaged disk took it.
        """
        number = bisect_right(self._bases, offset) - 1
        segment = self.segments[number]
        return segment if offset < segment.end_offset else self.segments[number + 1]

    def count_before(self, offset: int) -> int:
        """How many segments lie wholly before an offset; never the active one."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def add(self, segment: Segment) -> None:
        """Seal the active segment and let another take its place."""
        if self.active.is_dirty:
            self._rolled.append(self.active)
        self.active.seal()
        self.segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def retire(self, count: int) -> None:
        """Take the first segments out of the log."""
        retired = self.segments[:count]
        del self.segments[:count]
        del self._bases[:count]
        self._rolled = [segment for segment in self._rolled if segment not in retired]
        self._retired += retired
        for segment in retired:
            segment.release()

    def place_of(self, segments: Sequence[Segment]) -> int | None:
        """Where these very segments stand in the log, one after the other and all sealed."""
        first = bisect_right(self._bases, segments[0].base_offset) - 1
        found = self.segments[max(first, 0) : max(first, 0) + len(segments)]
        same = len(found) == len(segments) and all(map(is_, found, segments))
        return first if same and segments[-1] is not self.active else None

    def substitute(self, place: int, count: int, segment: Segment) -> None:
        """Let one segment stand where there were `count`, all of them on the disk."""
        replaced = self.segments[place : place + count]
        self.segments[place : place + count] = [segment]
        self._bases[place : place + count] = [segment.base_offset]
        for each in replaced:
            each.release()

    def take_retired(self) -> Sequence[Segment]:
        """Hand over the retired segments, whose files can go."""
        retired, self._retired = self._retired, []
        return retired

    def unsynced(self) -> list[Unsynced]:
        """What a sync has to look at."""
        assert self.active.active is not None
        handle = self.active.active.handle
        return [
            *(Unsynced(segment, segment.size, None) for segment in self._rolled),
            Unsynced(self.active, self.active.size, handle),
        ]

    def unsaved(self) -> list[Unsaved]:
        """The indexes that a checkpoint has to save: those that are in memory."""
        return [
            Unsaved(segment, segment.index, len(segment.index))
            for segment in self.segments
            if segment.index is not None
        ]

    def note_synced(self) -> None:
        """Forget the sealed segments that are on the disk by now."""
        if self._rolled:
            self._rolled = [segment for segment in self._rolled if segment.is_dirty]

    def note_saved(self, saved: Sequence[Unsaved]) -> None:
        """Drop the indexes of sealed segments that are saved; readers load them again."""
        for unsaved in saved:
            if unsaved.segment is not self.active:
                unsaved.segment.index = None

    def release(self) -> None:
        """Let go of all files."""
        for segment in self.segments:
            segment.release()
