"""What a batch must satisfy before it may be appended, and what a broker writes into it.

Everything is judged from the header and the checksum; the records stay opaque.
"""

import struct
from typing import Final, TypeAlias

from headrace.records.checksum import crc32c
from headrace.records.codecs import Codec
from headrace.records.errors import CorruptBatch, InvalidBatch
from headrace.records.header import (
    APPEND_TIME,
    CODEC_MASK,
    LENGTH_END,
    BatchHeader,
    Readable,
    require_whole,
)

Writable: TypeAlias = bytearray | memoryview
"""Bytes to change in place."""

NO_TIMESTAMP: Final = -1
"""The timestamp of records that have none."""

CHECKED_FROM: Final = 21
"""Where the part of a batch begins that its checksum covers."""

_LEADER_EPOCH_AT: Final = 12
_CHECKSUM_AT: Final = 17
_ATTRIBUTES_LOW_BYTE_AT: Final = 22
_MAX_TIMESTAMP_AT: Final = 35
_LAST_CODEC: Final = max(Codec)

_int64 = struct.Struct(">q")
_int32 = struct.Struct(">i")
_uint32 = struct.Struct(">I")


def validate_batch(
    buffer: Readable, header: BatchHeader, position: int = 0, *, gaps: bool = False
) -> None:
    """Refuse the batch at `position` unless it is whole, intact and consistent.

    Promises: message format 2, all bytes present, a matching CRC-32C, offsets without gaps (unless
    `gaps` allows what rewriting leaves: fewer records than offsets, or none), a known codec, and a
    complete producer id, epoch and sequence if there is any. Costs one pass over the bytes and
    copies none. Whether control batches are welcome is the caller's business.
    """
    require_whole(header, position, len(buffer))
    verify_checksum(buffer, header, position)
    problem = _inconsistency(header, gaps=gaps)
    if problem is not None:
        raise InvalidBatch(problem, position, header.base_offset)


def verify_checksum(buffer: Readable, header: BatchHeader, position: int = 0) -> None:
    """Raise `CorruptBatch` unless the checksum of the whole batch at `position` matches."""
    end = position + LENGTH_END + header.length
    checksum = crc32c(memoryview(buffer)[position + CHECKED_FROM : end])
    if checksum != header.crc:
        raise CorruptBatch(
            f"CRC-32C is {checksum:#010x} but the header says {header.crc:#010x}: "
            "the bytes changed on their way here, send them again",
            position,
            header.base_offset,
        )


def _inconsistency(header: BatchHeader, *, gaps: bool) -> str | None:
    count = header.record_count
    last = header.last_offset_delta
    if last < 0 or (last != count - 1 and not (gaps and 0 <= count <= last)):
        return f"{count} records do not fit a last offset delta of {header.last_offset_delta}"
    if header.attributes & CODEC_MASK > _LAST_CODEC:
        return f"compression codec {header.codec} does not exist"
    if header.max_timestamp < NO_TIMESTAMP:
        return f"max timestamp {header.max_timestamp} is negative"
    if header.producer_id < 0:
        if header.producer_id != -1:
            return f"producer id {header.producer_id} is negative"
        if header.is_transactional:
            return "a transactional batch needs a producer id"
    elif header.producer_epoch < 0 or (header.base_sequence < 0 and not header.is_control):
        return (
            f"producer {header.producer_id} needs an epoch and a sequence, "
            f"not {header.producer_epoch} and {header.base_sequence}"
        )
    return None


def stamp(buffer: Writable, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """Write the offset and leader epoch that a batch gets on append; its checksum still holds."""
    _int64.pack_into(buffer, position, base_offset)
    _int32.pack_into(buffer, position + _LEADER_EPOCH_AT, leader_epoch)


def stamp_append_time(buffer: Writable, timestamp_ms: int, position: int = 0) -> None:
    """Give every record of a whole batch the broker's time, and the batch a new checksum."""
    buffer[position + _ATTRIBUTES_LOW_BYTE_AT] |= APPEND_TIME
    _int64.pack_into(buffer, position + _MAX_TIMESTAMP_AT, timestamp_ms)
    write_checksum(buffer, position)


def write_checksum(buffer: Writable, position: int = 0) -> None:
    """Compute the checksum of the whole batch at `position` and write it into its header."""
    (length,) = _int32.unpack_from(buffer, position + LENGTH_END - _int32.size)
    end = position + LENGTH_END + length
    checksum = crc32c(memoryview(buffer)[position + CHECKED_FROM : end])
    _uint32.pack_into(buffer, position + _CHECKSUM_AT, checksum)
