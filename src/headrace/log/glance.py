"""Whether a segment is intact, as fast as Python can tell: most are, and somebody may be waiting.

One look at every header and one checksum for every batch. Anything out of the ordinary ends it;
`verification` then takes its time to find out what is wrong.
"""

from headrace.log.epochs import LeaderEpochs
from headrace.log.handles import FileHandle
from headrace.log.pace import Pace
from headrace.log.walk import SCAN_BYTES
from headrace.records import HEADER_SIZE
from headrace.records.checksum import crc32c
from headrace.records.header import LAYOUT, LENGTH_END, MAGIC
from headrace.records.validate import CHECKED_FROM

_SHORTEST = HEADER_SIZE - LENGTH_END


def looks_intact(
    handle: FileHandle,
    base_offset: int,
    size: int,
    end_offset: int,
    epochs: LeaderEpochs,
    pace: Pace,
) -> bool:
    """Whether nothing speaks against a segment's first `size` bytes; False says only "look again".

    True promises that every checksum matches, and that offsets and epochs are what they can be.
    """
    unpack = LAYOUT.unpack_from
    expected, spans, position = base_offset, 0, 0
    epoch, epoch_end = epochs.reach(base_offset)
    wanted = SCAN_BYTES
    while position < size:
        chunk = memoryview(handle.read(min(wanted, size - position), position))
        available, at, wanted = len(chunk), 0, SCAN_BYTES
        while at + HEADER_SIZE <= available:
            first, length, leader_epoch, magic, checksum, _, delta, *_ = unpack(chunk, at)
            end = at + LENGTH_END + length
            if end > available and position + end <= size and length >= _SHORTEST:
                wanted = max(SCAN_BYTES, end - at)
                break
            if epoch_end is not None and first >= epoch_end:
                epoch, epoch_end = epochs.reach(first)
            if (
                magic != MAGIC
                or length < _SHORTEST
                or end > available
                or first < expected
                or delta < 0
                or leader_epoch != epoch
                or crc32c(chunk[at + CHECKED_FROM : end]) != checksum
            ):
                return False
            spans += delta + 1
            expected = first + delta + 1
            at = end
        if not at and wanted <= available:
            return False
        pace(at)
        position += at
    # If all offsets are there, but not one after the other, one of them is wrong.
    in_sequence = expected - base_offset == spans
    return expected <= end_offset and (in_sequence or spans < end_offset - base_offset)
