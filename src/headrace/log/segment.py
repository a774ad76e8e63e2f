"""One file of a log: raw record batches, and an index that finds any of them."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Self

from headrace.log.checkpoint import KnownSegment
from headrace.log.disk import Disk, write_all
from headrace.log.errors import CorruptFile, CorruptRecords, UnsupportedFormat, Unverified
from headrace.log.handles import MAX_INDEX_MEMORY, MAX_OPEN_SEGMENTS, FileHandle, OpenFiles
from headrace.log.index import RecentBatches, SparseIndex
from headrace.log.index_file import IndexFile, rebuild_index
from headrace.log.slices import LogSlice
from headrace.log.verification import Damage, Extent, Verdict
from headrace.log.walk import headers
from headrace.records import NO_TIMESTAMP, BatchHeader, Readable

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"

MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1
"""How many offsets a segment can span; Kafka's own limit."""

logger = logging.getLogger(__name__)


class OpenSegment(NamedTuple):
    """What it takes to read a segment."""

    handle: FileHandle
    sparse_index: SparseIndex

    @property
    def memory(self) -> int:
        """Bytes that the index occupies."""
        return self.sparse_index.memory


OPEN_SEGMENTS: Final[OpenFiles[OpenSegment]] = OpenFiles(MAX_OPEN_SEGMENTS, MAX_INDEX_MEMORY)
"""The sealed segments that this process keeps open, of all its logs together."""


class Segment:
    """Batches from `base_offset` up to `end_offset`.

    The last segment of a log is *active*: it grows, its file stays open and the places of its
    latest batches are remembered. Sealed ones are opened when somebody reads them. An index stays
    in memory until it was saved.
    """

    __slots__ = (
        "_intact_index",
        "_next_entry",
        "_recent",
        "active",
        "base_offset",
        "created_ms",
        "damage",
        "directory",
        "disk",
        "doubt",
        "end_offset",
        "index",
        "index_file",
        "index_interval",
        "max_timestamp",
        "size",
        "synced_size",
    )

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        base_offset: int,
        created_ms: int,
        index_interval: int,
    ) -> None:
        self.directory = directory
        self.disk = disk
        self.base_offset = base_offset
        """The offset that the file is named after; its first batch begins there, or later."""
        self.created_ms = created_ms
        """When the segment was begun, by the log's clock."""
        self.index_interval = index_interval
        self.end_offset = base_offset
        """The offset after the last batch's last record."""
        self.size = 0
        """Bytes of all batches."""
        self.max_timestamp = NO_TIMESTAMP
        """The newest timestamp of any record."""
        self.synced_size = 0
        """Bytes known to be on the disk."""
        self.index: SparseIndex | None = None
        """The index while it must be in memory: of the active segment, and until it is saved."""
        self.index_file = IndexFile(disk, directory / segment_name(base_offset, INDEX_SUFFIX))
        """Where the index is saved."""
        self.active: OpenSegment | None = None
        """The open file and the index of the active segment; None if it is sealed."""
        self.doubt: Extent | None = None
        """What was found on the disk and not read since; None if all is known to be intact."""
        self.damage: tuple[Damage, ...] = ()
        """What is known not to be."""
        self._intact_index: SparseIndex | None = None
        self._recent: RecentBatches | None = None
        self._next_entry = 0

    @property
    def path(self) -> Path:
        """The file with the batches."""
        return self.directory / segment_name(self.base_offset, LOG_SUFFIX)

    @property
    def is_dirty(self) -> bool:
        """Whether some bytes may not be on the disk yet."""
        return self.synced_size < self.size

    @classmethod
    def sealed(cls, directory: Path, disk: Disk, known: KnownSegment, index_interval: int) -> Self:
        """A segment of which everything is on the disk, its index too."""
        segment = cls(directory, disk, known.base_offset, known.created_ms, index_interval)
        segment.end_offset = known.end_offset
        segment.size = segment.synced_size = known.size
        segment.max_timestamp = known.max_timestamp
        return segment

    def create(self) -> None:
        """Create the file and become active."""
        handle = FileHandle(self.disk, self.path, self.disk.create(self.path))
        self.activate(handle, SparseIndex(self.base_offset))

    def activate(self, handle: FileHandle, index: SparseIndex) -> None:
        """Become active with a file that may have batches already."""
        self.index = index
        self.active = OpenSegment(handle, index)
        self._recent = RecentBatches()
        self._next_entry = index.positions[-1] + self.index_interval if index else 0

    def seal(self) -> None:
        """Take no more batches; the file is closed once nobody reads it."""
        self.active = None
        self._recent = None

    def opened(self) -> OpenSegment:
        """The open file and the index, both loaded if need be."""
        if self.active is not None:
            return self.active
        found = OPEN_SEGMENTS.get(self)
        if found is None:
            handle = FileHandle.open(self.disk, self.path)
            index = self.index or self._intact_index
            found = OpenSegment(handle, self._load_index(handle) if index is None else index)
            OPEN_SEGMENTS.put(self, found)
        return found

    def verified(self) -> OpenSegment:
        """The open file and the index of a segment that is known to be intact, or where it is not.

        Raises `Unverified` if it must be verified first.
        """
        if self.doubt is not None:
            raise Unverified(self)
        return self.opened()

    def batches(self, place: int) -> Iterator[tuple[int, BatchHeader]]:
        """The places and headers of all intact batches, from one that begins at `place` on."""
        handle, _ = self.verified()
        for damage in self.damage:
            if place < damage.position:
                yield from headers(handle, place, damage.position)
            place = max(place, damage.end)
        yield from headers(handle, place, self.size)

    def settle(self, verdict: Verdict) -> None:
        """Take note of what a verification has shown, of the file or of its first part.

        From then on readers stop before what is damaged, and find what lies behind it.
        """
        if self.doubt == verdict.extent:
            self.doubt = None
        self.damage = verdict.damage
        if verdict.sparse_index is None:
            return
        handle, known = self.opened()
        index = verdict.sparse_index
        index.extend(known.encode(known.count_before(verdict.extent.size), len(known)))
        self._intact_index = index
        self.index_file.saved_entries = 0
        if self.active is not None:
            self.index = index
            self.active = OpenSegment(handle, index)
        else:
            OPEN_SEGMENTS.put(self, OpenSegment(handle, index))

    def release(self) -> None:
        """Let go of everything that is in memory."""
        self.seal()
        self.index = None
        OPEN_SEGMENTS.discard(self)

    def known(self) -> KnownSegment:
        """What a checkpoint has to say about the segment."""
        return KnownSegment(
            self.base_offset, self.end_offset, self.size, self.max_timestamp, self.created_ms
        )

    def write(self, batch: Readable) -> None:
        """Write a batch behind all others; it counts once it is noted."""
        assert self.active is not None
        write_all(self.disk, self.active.handle.descriptor, batch, self.size)

    def cut_back(self) -> None:
        """Remove what a failed write left behind."""
        assert self.active is not None
        self.disk.truncate(self.active.handle.descriptor, self.size)

    def note(self, size: int, offset: int, end_offset: int, timestamp: int) -> None:
        """Take account of one batch that stands in the file behind all others."""
        assert self.index is not None
        assert self._recent is not None
        position = self.size
        if position >= self._next_entry:
            self.index.add(offset, position, self.max_timestamp)
            self._next_entry = position + self.index_interval
        self._recent.add(offset, position)
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.size = position + size
        self.end_offset = end_offset

    def slice(self, offset: int, limit: int, max_bytes: int, at_least_one: bool) -> LogSlice:
        """The whole batches from the one that holds `offset` on, ending by offset `limit`.

        Cuts where an index entry or a remembered batch allows, so it may return a little less than
        `max_bytes` would permit. Touches the file only if neither knows a cut. Raises `Unverified`
        if the batches must be verified first, and `CorruptRecords` if they were, in vain.
        """
        recent = self._recent
        is_recent = recent is not None and recent.reaches(offset)
        if self.doubt is not None and not is_recent:
            raise Unverified(self)
        handle, index = self.opened()
        stop = self.size
        if recent is not None and is_recent:
            start = recent.position_of(offset)
        else:
            if self.damage:
                stop = self._before_damage(offset)
            start = self._locate(offset, handle, index)
        if limit >= self.end_offset:
            end = self.size
        elif recent is not None and recent.reaches(limit):
            end = recent.position_of(limit)
        else:
            end = index.at_or_below_offset(limit).position
        if end - start > max_bytes:
            end = start + max_bytes
            if recent is not None and recent.reaches_position(end):
                end = recent.boundary_below(end)
            else:
                end = index.boundary_below(end)
        end = min(end, stop)
        if end <= start:
            end = self._walk_to_end(handle, start, stop, limit, max_bytes, at_least_one)
        return LogSlice(handle, start, end - start, min(limit, self._offset_from(end, index)))

    def _locate(self, offset: int, handle: FileHandle, index: SparseIndex) -> int:
        """The position of the batch that holds an offset."""
        place = index.at_or_below_offset(offset)
        if place.offset != offset:
            for position, header in headers(handle, place.position, self.size):
                if header.next_offset > offset:
                    return position
        return place.position

    def _offset_from(self, position: int, index: SparseIndex) -> int:
        """The first offset that is known of a batch at a position or behind it."""
        if position >= self.size:
            return self.end_offset
        recent = self._recent
        if recent is not None and recent.reaches_position(position):
            return recent.offset_from(position)
        offset = index.offset_from(position)
        return self.end_offset if offset is None else offset

    def _before_damage(self, offset: int) -> int:
        """Where a reader that begins at an offset must stop; it must not begin in the damage."""
        for damage in self.damage:
            if damage.first_offset <= offset < damage.next_offset:
                raise CorruptRecords(str(damage), damage.next_offset)
            if offset < damage.first_offset:
                return damage.position
        return self.size

    def _walk_to_end(
        self,
        handle: FileHandle,
        start: int,
        stop: int,
        limit: int,
        max_bytes: int,
        at_least_one: bool,
    ) -> int:
        end = start
        for position, header in headers(handle, start, stop):
            following = position + header.size
            fits = following - start <= max_bytes or (at_least_one and end == start)
            if not fits or header.next_offset > limit:
                break
            end = following
        return end

    def _load_index(self, handle: FileHandle) -> SparseIndex:
        try:
            return self.index_file.load(self.base_offset)
        except (FileNotFoundError, CorruptFile, UnsupportedFormat) as error:
            logger.warning("index of %s is made again: %s", self.path, str(error))
        index = rebuild_index(handle, self.base_offset, self.size, self.index_interval)
        try:
            self.index_file.save(index, len(index))
        except OSError as error:
            logger.warning("index of %s cannot be saved: %s", self.path, str(error))
        return index


def segment_name(base_offset: int, suffix: str) -> str:
    """What a segment's file is called; names sort like offsets."""
    return f"{base_offset:020d}{suffix}"


def base_offset_of(name: str, suffix: str) -> int | None:
    """The offset in a file's name; None if it is not one of a segment's."""
    stem = name.removesuffix(suffix)
    return int(stem) if stem != name and len(stem) == 20 and stem.isdecimal() else None
