"""One round of compaction: from sealed segments to files that can take their place.

Runs in a worker process. It reads the segments and writes beside them; the log itself is changed
by the broker alone, which swaps the files in. Files are finished in the order of the log, and must
be swapped in that order: a tombstone may go only after everything before it that it deletes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.log.compaction_job import CompactionJob, Report, RoundEnd, SourceSegment
from headrace.log.compaction_output import RewrittenOutput
from headrace.log.disk import Disk
from headrace.log.errors import CorruptFile
from headrace.log.giving_way import Effort
from headrace.log.handles import FileHandle
from headrace.log.pace import Pace, Throttle
from headrace.log.segment import LOG_SUFFIX, segment_name
from headrace.records import HEADER_SIZE, MalformedBatch, read_header

if TYPE_CHECKING:
    from headrace.records.compaction import Compactor
    from headrace.records.pieces import Piece

PIECE_BYTES: Final = 4 << 20
"""How much is read at once: little enough to stay close to the processor."""


class Round:
    """One round; `run` it once."""

    def __init__(
        self,
        job: CompactionJob,
        disk: Disk,
        effort: Effort | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._job = job
        self._disk = disk
        self._effort = effort or Effort()
        self._pace = pace or Throttle(job.bytes_per_second)
        self._bytes_read = 0
        self._bytes_kept = 0

    def run(self) -> Iterator[Report]:
        """Compact, yielding each pair of files as soon as it is synced, and at last how it went.

        Raises `CorruptFile` if a batch is damaged, and `StorageError` or `OSError` if the disk
        refuses; files of which nobody was told yet are removed then.
        """
        from headrace.records.compaction import Compactor

        job = self._job
        dirty = [each for each in job.segments if each.end_offset > job.first_dirty]
        compactor = Compactor(
            memory=job.memory,
            first_dirty=job.first_dirty,
            dirty_bytes=sum(each.size for each in dirty),
            now_ms=job.now_ms,
            horizon_ms=job.now_ms + job.delete_retention_ms,
            aborted=[each[:3] for each in job.aborted],
            producers=job.producers,
        )
        self._learn(compactor, dirty)
        yield from self._filter(compactor)
        yield RoundEnd(
            first_dirty=compactor.end,
            keys=compactor.keys,
            records_read=compactor.records_read,
            records_kept=compactor.records_kept,
            keyless=compactor.keyless,
            bytes_read=self._bytes_read,
            bytes_kept=self._bytes_kept,
            bytes_pressed=self._effort.pressed_bytes,
        )

    def _learn(self, compactor: "Compactor", dirty: Sequence[SourceSegment]) -> None:
        """Go through the dirty part for as long as there is memory; that is the round's end."""
        for segment in dirty:
            for position, piece in self._pieces(segment):
                with _located(self._path(segment), position):
                    if not self._effort.do(piece.size, compactor.learn, piece):
                        return
        compactor.end = self._job.segments[-1].end_offset

    def _filter(self, compactor: "Compactor") -> Iterator[Report]:
        output: RewrittenOutput | None = None
        try:
            for segment in self._job.segments:
                if segment.base_offset >= compactor.end:
                    break
                if output is not None and not output.takes(segment):
                    yield from self._finish(output)
                    output = None
                if output is None:
                    output = RewrittenOutput(self._job, self._disk, segment)
                output.begin(segment)
                self._bytes_read += segment.size
                for position, piece in self._pieces(segment):
                    with _located(self._path(segment), position):
                        left = self._effort.do(piece.size, compactor.filter, piece)
                    self._pace(output.write(left))
            if output is not None:
                yield from self._finish(output)
        except GeneratorExit:
            raise
        except BaseException:
            if output is not None:
                output.remove()
            raise

    def _finish(self, output: RewrittenOutput) -> Iterator[Report]:
        yield from output.finish()
        self._bytes_kept += output.size

    def _pieces(self, segment: SourceSegment) -> Iterator[tuple[int, "Piece"]]:
        """Read a segment, some whole batches at a time, each time with their place in the file."""
        from headrace.records.pieces import read_piece

        handle = FileHandle.open(self._disk, self._path(segment))
        position = 0
        offset = segment.base_offset
        wanted = PIECE_BYTES
        while position < segment.size:
            data = handle.read(min(wanted, segment.size - position), position)
            with _located(handle.path, position):
                piece = self._effort.do(0, read_piece, data, offset, segment.end_offset)
            if not piece.size:
                wanted = _size_of_first(data, handle.path, position, segment.size)
                continue
            self._pace(piece.size)
            yield position, piece
            position += piece.size
            offset = piece.end_offset
            wanted = PIECE_BYTES

    def _path(self, segment: SourceSegment) -> Path:
        return self._job.path / segment_name(segment.base_offset, LOG_SUFFIX)


def _size_of_first(data: bytes, path: Path, position: int, end: int) -> int:
    """How many bytes to read for a batch that is larger than a piece."""
    size = read_header(data).size if len(data) >= HEADER_SIZE else end
    if size <= len(data) or position + size > end:
        raise CorruptFile(f"{path} ends within a batch that begins at byte {position}")
    return size


@contextmanager
def _located(path: Path, start: int) -> Iterator[None]:
    """Say in which file a batch is damaged."""
    try:
        yield
    except MalformedBatch as error:
        offset = "" if error.base_offset is None else f" of offset {error.base_offset}"
        raise CorruptFile(
            f"{path} is damaged at byte {start + error.position}, in the batch{offset}: "
            f"{error.problem}; restore the segment from a copy, or delete the records up to there"
        ) from error
