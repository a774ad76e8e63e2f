"""What of a log can be compacted, how urgent that is, and how far it has been done.

A log has a clean part, in which no key occurs twice, and behind it a dirty one. The active segment
belongs to neither: it is never compacted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from headrace.log.disk import Disk
from headrace.log.errors import CorruptFile
from headrace.log.framing import FileFormat, read_framed, write_framed
from headrace.log.segment import Segment
from headrace.log.settings import CompactionPolicy
from headrace.log.walk import headers
from headrace.records import MalformedBatch

PROGRESS_FORMAT: Final = FileFormat(b"HRCL", 1)
"""How the file begins that says how far a log is compacted."""

PROGRESS: Final = "compacted"
"""Its name in a partition's directory."""

_OFFSET_SIZE: Final = 8


class ActiveProducer(NamedTuple):
    """A producer whose next batch must continue its last one."""

    producer_id: int
    last_offset: int
    """The offset of its last record, or -1 if only its epoch is known."""
    epoch: int


@dataclass(frozen=True, slots=True)
class Cleanable:
    """The part of a log that a round of compaction may look at."""

    segments: Sequence[Segment]
    """From the log's start up to what must stay as it is."""

    first_dirty: int
    """The offset at which the dirty part begins."""

    clean_bytes: int
    dirty_bytes: int

    overdue: bool
    """Whether a record has waited for longer than the topic allows."""

    @property
    def dirty_ratio(self) -> float:
        """How much of it is dirty, from 0 to 1."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, policy: CompactionPolicy) -> bool:
        """Whether it is time to compact."""
        return self.dirty_bytes > 0 and (self.overdue or self.dirty_ratio > policy.min_dirty_ratio)


def assess(
    segments: Sequence[Segment],
    policy: CompactionPolicy,
    *,
    first_dirty: int,
    stable_end: int,
    now_ms: int,
) -> Cleanable:
    """See what of the sealed segments of a log can be compacted.

    Nothing from `stable_end` on, the last stable offset, and nothing from a segment on that has a
    record younger than the topic's `min.compaction.lag.ms`.
    """
    cleanable: list[Segment] = []
    for segment in segments:
        young = policy.min_lag_ms > 0 and segment.max_timestamp > now_ms - policy.min_lag_ms
        if segment.end_offset > stable_end or (young and segment.end_offset > first_dirty):
            break
        cleanable.append(segment)
    dirty = [segment for segment in cleanable if segment.end_offset > first_dirty]
    dirty_bytes = sum(segment.size for segment in dirty)
    return Cleanable(
        segments=cleanable,
        first_dirty=first_dirty,
        clean_bytes=sum(segment.size for segment in cleanable) - dirty_bytes,
        dirty_bytes=dirty_bytes,
        overdue=bool(dirty) and _is_overdue(dirty[0], policy.max_lag_ms, now_ms),
    )


def _is_overdue(segment: Segment, max_lag_ms: int, now_ms: int) -> bool:
    latest = now_ms - max_lag_ms
    if latest < 0:
        return False
    handle, _ = segment.opened()
    try:
        _, first = next(headers(handle, 0, segment.size))
    except MalformedBatch:
        # Compaction will say what is wrong with it.
        return True
    return segment.created_ms <= latest or 0 <= first.max_timestamp <= latest


def read_progress(disk: Disk, directory: Path) -> int:
    """The offset up to which a log is clean; 0 if that is not known."""
    try:
        (encoded,) = read_framed(disk, directory / PROGRESS, PROGRESS_FORMAT, 1)
    except (FileNotFoundError, CorruptFile):
        return 0
    return int.from_bytes(encoded[:_OFFSET_SIZE], "little")


def write_progress(disk: Disk, directory: Path, first_dirty: int) -> None:
    """Note the offset up to which a log is clean; blocks until that is on the disk."""
    encoded = first_dirty.to_bytes(_OFFSET_SIZE, "little")
    write_framed(disk, directory / PROGRESS, PROGRESS_FORMAT, [encoded])
