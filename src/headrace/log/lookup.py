"""Finding records by time."""

from collections.abc import Sequence

from headrace.log.handles import FileHandle
from headrace.log.segment import Segment
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
    """The first of the records with the largest timestamp from `start_offset` to before `limit`.

    As cheap as `find_by_time`, unless the newest records of the first segment were deleted: then
    the headers of what is left of it are searched. If the newest record was deleted but others of
    its batch were not, they are believed to be as new.
    """
    newest = max(_newest_in_segment(segment, start_offset, limit) for segment in segments)
    if newest == NO_TIMESTAMP:
        return None
    found = find_by_time(segments, newest, start_offset, limit)
    return found or RecordPosition(start_offset, newest)


def _newest_in_segment(segment: Segment, start_offset: int, limit: int) -> int:
    first, end = max(start_offset, segment.base_offset), min(limit, segment.end_offset)
    if first >= end:
        return NO_TIMESTAMP
    if end == segment.end_offset and (
        first == segment.base_offset
        or _newest(segment, segment.base_offset, first) < segment.max_timestamp
    ):
        return segment.max_timestamp
    return _newest(segment, first, end)


def _newest(segment: Segment, first: int, end: int) -> int:
    """The largest timestamp of the batches that have a record from `first` to before `end`."""
    _, index = segment.verified()
    place, newest = index.at_or_below_offset(first), NO_TIMESTAMP
    if first == segment.base_offset:
        place = index.at_or_below_offset(end)
        newest = index.max_timestamp_before(place)
    for _, header in segment.batches(place.position):
        if header.base_offset >= end:
            break
        if header.last_offset >= first and header.record_count:
            newest = max(newest, header.max_timestamp)
    return newest


def _find_in_segment(
    segment: Segment, timestamp: int, start_offset: int, limit: int
) -> RecordPosition | None:
    handle, index = segment.verified()
    by_time = index.before_time(timestamp)
    by_offset = index.at_or_below_offset(start_offset)
    for position, header in segment.batches(max(by_time, by_offset).position):
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
        return first_at_or_after(batch, timestamp, min_offset=start_offset)
    except RecordError:
        # A producer may compress nonsense under a valid checksum; its consumer is to see that.
        return RecordPosition(max(header.base_offset, start_offset), header.max_timestamp)
