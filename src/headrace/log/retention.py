"""Which segments have outlived their topic's retention."""

from collections.abc import Sequence
from typing import Protocol

from headrace.log.settings import LogSettings
from headrace.records import NO_TIMESTAMP


class Aging(Protocol):
    """A segment, here or in an archive."""

    @property
    def end_offset(self) -> int:
        """The offset after its last record."""
        ...

    @property
    def size(self) -> int:
        """Bytes of all its batches."""
        ...

    @property
    def max_timestamp(self) -> int:
        """The newest timestamp of any record."""
        ...

    @property
    def created_ms(self) -> int:
        """When it was begun."""
        ...


def count_expired(
    segments: Sequence[Aging], settings: LogSettings, now_ms: int, high_watermark: int
) -> int:
    """How many segments, counted from the oldest, may go.

    A segment goes as a whole: by age once its newest record is older than `retention_ms`, by size
    while what remains without it is still at least `retention_bytes`. Nothing goes that readers
    could not have seen yet. The active segment counts like any other if it has records.
    """
    if not settings.delete:
        return 0
    seen = 0
    for segment in segments:
        if segment.end_offset > high_watermark or not segment.size:
            break
        seen += 1
    by_age = _count_by_age(segments, settings.retention_ms, now_ms)
    by_size = _count_by_size(segments, settings.retention_bytes)
    return min(seen, max(by_age, by_size))


def _count_by_age(segments: Sequence[Aging], retention_ms: int, now_ms: int) -> int:
    if retention_ms < 0:
        return 0
    for count, segment in enumerate(segments):
        newest = segment.max_timestamp
        if newest == NO_TIMESTAMP:
            # Records without any time are as old as the segment that came after them.
            following = count + 1
            newest = segments[following].created_ms if following < len(segments) else now_ms
        if now_ms - newest <= retention_ms:
            return count
    return len(segments)


def _count_by_size(segments: Sequence[Aging], retention_bytes: int) -> int:
    if retention_bytes < 0:
        return 0
    remaining = sum(segment.size for segment in segments)
    for count, segment in enumerate(segments):
        remaining -= segment.size
        if remaining < retention_bytes:
            return count
    return len(segments)
