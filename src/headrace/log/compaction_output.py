"""The files that compaction writes beside the segments they are to replace."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.log.compaction_job import CompactionJob, RewrittenFiles, SourceSegment
from headrace.log.disk import Disk, write_all
from headrace.log.handles import FileHandle
from headrace.log.index import SparseIndex
from headrace.log.index_file import IndexFile
from headrace.log.manifest import REWRITTEN
from headrace.log.segment import INDEX_SUFFIX, LOG_SUFFIX, MAX_RELATIVE_OFFSET, segment_name
from headrace.records import NO_TIMESTAMP, Readable

if TYPE_CHECKING:
    from headrace.records.compaction import LeftBatches


class RewrittenOutput:
    """What is left of one or more consecutive segments, as one segment and its index.

    Takes segments for as long as the result is sure to be no larger than one may be, so that small
    ones are merged. The last batch of the last segment stays, be it as an empty one, because the
    file would otherwise not tell where the segment ended.
    """

    def __init__(self, job: CompactionJob, disk: Disk, first: SourceSegment) -> None:
        self._job = job
        self._disk = disk
        self._base_offset = first.base_offset
        self._interval = first.index_interval
        stem = f"{segment_name(first.base_offset, '')}.{job.tag}"
        self._log_file = stem + LOG_SUFFIX + REWRITTEN
        self._index_file = stem + INDEX_SUFFIX + REWRITTEN
        self._bases: list[int] = []
        self._index = SparseIndex(first.base_offset)
        self._next_entry = 0
        self._max_timestamp = NO_TIMESTAMP
        self._last: bytes | None = None
        self._last_offset = 0
        self._unchanged = True
        self.size = 0
        """Bytes written so far."""
        path = job.path / self._log_file
        self._file = FileHandle(disk, path, disk.create(path))

    def takes(self, segment: SourceSegment) -> bool:
        """Whether the next segment may go into the same file."""
        return (
            self.size + segment.size <= self._job.segment_bytes
            and segment.end_offset - self._base_offset <= MAX_RELATIVE_OFFSET
        )

    def begin(self, segment: SourceSegment) -> None:
        """Go on with this segment."""
        self._bases.append(segment.base_offset)

    def write(self, left: "LeftBatches") -> int:
        """Write what is left of some batches; returns how many bytes that was."""
        from headrace.records.compaction import index_entries

        ends = left.sizes.cumsum() + self.size
        entries, self._next_entry = index_entries(ends, self.size, self._next_entry, self._interval)
        before = left.newest_before(self._max_timestamp)
        for entry in entries:
            position = int(ends[entry] - left.sizes[entry])
            self._index.add(int(left.offsets[entry]), position, int(before[entry]))
        written = sum(self._append(part) for part in left.parts)
        self._max_timestamp = int(before[-1])
        self._last, self._last_offset = left.last, left.last_offset
        self._unchanged = self._unchanged and left.unchanged
        return written

    def finish(self) -> Iterator[RewrittenFiles]:
        """Sync the files and say what they are; nothing if they would only repeat a segment."""
        if self._unchanged and len(self._bases) == 1:
            self.remove()
            return
        if self._last is not None:
            if self.size >= self._next_entry:
                self._index.add(self._last_offset, self.size, self._max_timestamp)
            self._append(self._last)
        self._disk.sync(self._file.descriptor)
        IndexFile(self._disk, self._job.path / self._index_file).save(self._index, len(self._index))
        yield RewrittenFiles(
            bases=self._bases,
            size=self.size,
            max_timestamp=self._max_timestamp,
            log_file=self._log_file,
            index_file=self._index_file,
        )

    def remove(self) -> None:
        """Remove the files."""
        self._disk.unlink(self._job.path / self._log_file)
        self._disk.unlink(self._job.path / self._index_file)

    def _append(self, part: Readable) -> int:
        write_all(self._disk, self._file.descriptor, part, self.size)
        self.size += len(part)
        return len(part)
