"""From bytes to a table of batches: hop from header to header, checking what each one claims."""

from typing import Final

import numpy as np

from headrace.records.codecs import Codec
from headrace.records.header import (
    APPEND_TIME,
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    MAGIC_AT,
)
from headrace.records.kernels.compiled import Bytes, Int64s, compiled

UNKNOWN_CODEC: Final = 1
IMPOSSIBLE_OFFSET: Final = 2
IMPOSSIBLE_COUNT: Final = 3

BATCH_PROBLEMS: Final = {
    UNKNOWN_CODEC: "its compression codec does not exist",
    IMPOSSIBLE_OFFSET: "its offsets lie outside the range of offsets",
    IMPOSSIBLE_COUNT: "its record count does not fit its size",
}
"""What `describe_batches` reports; 0 means that all is well."""

# Columns of the table of batches.
POSITION: Final = 0
START: Final = 1
END: Final = 2
CODEC: Final = 3
BASE_OFFSET: Final = 4
LAST_OFFSET_DELTA: Final = 5
BASE_TIMESTAMP: Final = 6
APPEND_TIMESTAMP: Final = 7
RECORD_COUNT: Final = 8
BATCH_COLUMNS: Final = 9

NOT_APPEND_TIME: Final = int(np.iinfo(np.int64).min)
"""In column `APPEND_TIMESTAMP`: the records have timestamps of their own."""

MIN_RECORD_SIZE: Final = 7
"""A record without key, value and headers: one byte of length and six of everything else."""

_LENGTH_AT: Final = 8
_ATTRIBUTES_LOW_BYTE_AT: Final = 22
_LAST_OFFSET_DELTA_AT: Final = 23
_BASE_TIMESTAMP_AT: Final = 27
_MAX_TIMESTAMP_AT: Final = 35
_RECORD_COUNT_AT: Final = 57
_LAST_CODEC: Final = int(max(Codec))
_MAX_OFFSET: Final = int(np.iinfo(np.int64).max)


@compiled
def int32_at(data: Bytes, position: int) -> int:
    """The signed number in the four bytes at `position`."""
    value = np.uint32(0)
    for index in range(4):
        value = np.uint32(value << np.uint32(8)) | np.uint32(data[position + index])
    return int(np.int32(value))


@compiled
def int64_at(data: Bytes, position: int) -> int:
    """The signed number in the eight bytes at `position`."""
    value = np.uint64(0)
    for index in range(8):
        value = np.uint64(value << np.uint64(8)) | np.uint64(data[position + index])
    return int(np.int64(value))


@compiled
def count_batches(data: Bytes) -> tuple[int, int]:
    """Count the batches that `require_whole` accepts, up to the first that it would refuse.

    Returns how many there are and where the last of them ends.
    """
    position = 0
    count = 0
    while len(data) - position >= HEADER_SIZE:
        length = int32_at(data, position + _LENGTH_AT)
        if (
            data[position + MAGIC_AT] != MAGIC
            or length < HEADER_SIZE - LENGTH_END
            or length > len(data) - position - LENGTH_END
        ):
            break
        position += LENGTH_END + length
        count += 1
    return count, position


@compiled
def last_batch(data: Bytes) -> tuple[int, int]:
    """Where the last of the batches that `count_batches` counts begins and ends; -1 and 0 if none.

    Costs one look at the length of each.
    """
    start = -1
    position = 0
    while len(data) - position >= HEADER_SIZE:
        length = int32_at(data, position + _LENGTH_AT)
        if (
            data[position + MAGIC_AT] != MAGIC
            or length < HEADER_SIZE - LENGTH_END
            or length > len(data) - position - LENGTH_END
        ):
            break
        start = position
        position += LENGTH_END + length
    return start, position


@compiled
def describe_batches(
    data: Bytes, min_offset: int, with_control: bool, batches: Int64s
) -> tuple[int, int, int]:
    """Fill one row of `batches` for each batch that has records to decode.

    `data` must hold whole batches only, and `batches` a row for each, as `count_batches` found
    them. Returns how many rows were filled, the position reached and what is wrong there.
    """
    position = 0
    found = 0
    for _ in range(len(batches)):
        end = position + LENGTH_END + int32_at(data, position + _LENGTH_AT)
        attributes = data[position + _ATTRIBUTES_LOW_BYTE_AT]
        codec = attributes & CODEC_MASK
        base_offset = int64_at(data, position)
        last_offset_delta = int32_at(data, position + _LAST_OFFSET_DELTA_AT)
        record_count = int32_at(data, position + _RECORD_COUNT_AT)
        if codec > _LAST_CODEC:
            return found, position, UNKNOWN_CODEC
        if (
            base_offset < 0
            or last_offset_delta < 0
            or base_offset > _MAX_OFFSET - last_offset_delta
        ):
            return found, position, IMPOSSIBLE_OFFSET
        # Compaction leaves gaps between offsets, and batches without any record.
        if record_count < 0 or record_count > last_offset_delta + 1:
            return found, position, IMPOSSIBLE_COUNT
        if codec == 0 and record_count * MIN_RECORD_SIZE > end - position - HEADER_SIZE:
            return found, position, IMPOSSIBLE_COUNT
        wanted = with_control or attributes & CONTROL == 0
        if wanted and base_offset + last_offset_delta >= min_offset:
            batch = batches[found]
            batch[POSITION] = position
            batch[START] = position + HEADER_SIZE
            batch[END] = end
            batch[CODEC] = codec
            batch[BASE_OFFSET] = base_offset
            batch[LAST_OFFSET_DELTA] = last_offset_delta
            batch[BASE_TIMESTAMP] = int64_at(data, position + _BASE_TIMESTAMP_AT)
            batch[APPEND_TIMESTAMP] = NOT_APPEND_TIME
            if attributes & APPEND_TIME:
                batch[APPEND_TIMESTAMP] = int64_at(data, position + _MAX_TIMESTAMP_AT)
            batch[RECORD_COUNT] = record_count
            found += 1
        position = end
    return found, position, 0
