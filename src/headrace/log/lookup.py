"""Finding records by time."""

from collections.abc import Sequence

from headrace.log.handles import FileHandle
from headrace.log.segment import Segment
from headrace.log.walk import headers
from headrace.records import (
    NO_TIMESTAMP,
    BatchHeader,
    RecordError,
    RecordPosition,
    first_at_or_after,
)


def find_by_time(
    segments: Sequence[Segment], timestamp: int, start_offset: int, limit: int
) -> RecordPosition | None:
    """The first record from `start_offset` to before `limit` that is not older than a time.

    Costs two binary searches, a look at the headers between two index entries, and one batch.
    """
    for segment in segments:
        if segment.base_offset >= limit:
            break
        if segment.max_timestamp >= timestamp:
            found = _find_in_segment(segment, timestamp, start_offset, limit)
            if found is not None:
                return found if found.offset < limit else None
    return None


def find_newest(
    segments: Sequence[Segment], start_offset: int, limit: int
) -> RecordPosition | None:
    """The first of the records with the largest timestamp from `start_offset` to before `limit`."""
    newest = max(
        (_max_timestamp_before(segment, limit) for segment in segments), default=NO_TIMESTAMP
    )
    if newest == NO_TIMESTAMP:
        return None
    return find_by_time(segments, newest, start_offset, limit)


def _max_timestamp_before(segment: Segment, limit: int) -> int:
    if limit >= segment.end_offset:
        return segment.max_timestamp
    if limit <= segment.base_offset:
        return NO_TIMESTAMP
    handle, index = segment.opened()
    place = index.at_or_below_offset(limit)
    newest = index.max_timestamp_before(place)
    for _, header in headers(handle, place.position, segment.size):
        if header.next_offset > limit:
            break
        newest = max(newest, header.max_timestamp)
    return newest


def _find_in_segment(
    segment: Segment, timestamp: int, start_offset: int, limit: int
) -> RecordPosition | None:
    handle, index = segment.opened()
    by_time = index.before_time(timestamp)
    by_offset = index.at_or_below_offset(start_offset)
    for position, header in headers(handle, max(by_time, by_offset).position, segment.size):
        if header.base_offset >= limit:
            return None
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            found = _find_in_batch(handle, position, header, timestamp, start_offset)
            if found is not None:
                return found
    return None


def _find_in_batch(
    handle: FileHandle, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> RecordPosition | None:
    batch = handle.read(header.size, position)
    try:
        found = first_at_or_after(batch, timestamp)
    except RecordError:
        # A producer may compress nonsense under a valid checksum; its consumer is to see that.
        found = RecordPosition(header.base_offset, header.max_timestamp)
    if found is not None and found.offset < start_offset:
        return RecordPosition(start_offset, header.max_timestamp)
    return found
