"""The records inside one batch, in plain Python: find one by time, or write a few.

This is for single batches, where loading Arrow would cost more than it saves: a lookup by time in
the broker, a marker, a test. Whole segments go through `headrace.records.arrow`.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headrace.records.codecs import MAX_DECOMPRESSED_BYTES, Codec, compress, decompress
from headrace.records.errors import (
    DecompressionFailed,
    DecompressionLimit,
    InvalidBatch,
    InvalidRecords,
    UnsupportedCodec,
)
from headrace.records.header import (
    CONTROL,
    HEADER_SIZE,
    LAYOUT,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    Readable,
    read_header,
    require_whole,
)
from headrace.records.validate import write_checksum

_MAX_VARINT_BYTES: Final = 10
_MAX_UINT64: Final = (1 << 64) - 1
_MAX_INT64: Final = (1 << 63) - 1
_MIN_INT64: Final = -(1 << 63)
_RECORD_ATTRIBUTES_SIZE: Final = 1
_LONG_VARINT: Final = 0x80
_NULL_LENGTH: Final = 1
"""Minus one, as the format writes it."""


class RecordPosition(NamedTuple):
    """A record's place in the log and in time."""

    offset: int
    timestamp: int


class Record(NamedTuple):
    """One record to be written; without a timestamp it gets the batch's."""

    key: bytes | None = None
    value: bytes | None = None
    timestamp: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


def first_at_or_after(
    buffer: Readable,
    timestamp: int,
    position: int = 0,
    *,
    min_offset: int = 0,
    limit: int = MAX_DECOMPRESSED_BYTES,
) -> RecordPosition | None:
    """Find the first record, in offset order, that is not older than `timestamp`.

    Records before `min_offset` do not count: a log may begin in the middle of a batch. Believes
    the checksum (see `validate_batch`) but nothing else: records that do not fit into the batch
    raise `InvalidBatch`, and compressed ones that expand beyond `limit` bytes raise
    `DecompressionLimit`. Costs a Python step per record up to the one found.
    """
    header = read_header(buffer, position)
    require_whole(header, position, len(buffer))
    if header.has_append_time:
        if header.max_timestamp < timestamp or header.last_offset < min_offset:
            return None
        if header.record_count > header.last_offset_delta:
            return RecordPosition(max(header.base_offset, min_offset), header.max_timestamp)
    for record in _record_positions(buffer, header, position, limit):
        found = header.max_timestamp if header.has_append_time else record.timestamp
        if found >= timestamp and record.offset >= min_offset:
            return record._replace(timestamp=found)
    return None


def keyless_records(
    buffer: Readable, header: BatchHeader, *, limit: int = MAX_DECOMPRESSED_BYTES
) -> list[int]:
    """Which records of a whole batch have no key, by their places in it.

    Costs a Python step per record, and believes the checksum but nothing else: `InvalidBatch` if
    records do not fit, or expand beyond `limit` bytes.
    """
    keyless = []
    cursor = 0
    try:
        records = decompress(header.codec, memoryview(buffer)[HEADER_SIZE:], limit=limit)
        for index in range(header.record_count):
            length = records[cursor]
            if length < _LONG_VARINT and not length & 1:
                cursor, length = cursor + 1, length >> 1
            else:
                length, cursor = _read_varint(records, cursor, len(records))
            end = cursor + length
            if length < 0 or end > len(records):
                raise _Unreadable(f"a record of {length} bytes does not fit")
            cursor += _RECORD_ATTRIBUTES_SIZE
            # Two deltas, which may be anything here; then the length of the key.
            for _ in range(2):
                while records[cursor] >= _LONG_VARINT:
                    cursor += 1
                cursor += 1
            if records[cursor] == _NULL_LENGTH:
                keyless.append(index)
            if cursor >= end:
                raise _Unreadable("a record ends before its key")
            cursor = end
    except (_Unreadable, IndexError, DecompressionFailed, DecompressionLimit) as error:
        raise InvalidBatch(str(error), 0, header.base_offset) from error
    return keyless


def _record_positions(
    buffer: Readable, header: BatchHeader, position: int, limit: int
) -> Iterator[RecordPosition]:
    stored = memoryview(buffer)[position + HEADER_SIZE : position + header.size]
    try:
        records = decompress(header.codec, stored, limit=limit)
        cursor = 0
        for _ in range(header.record_count):
            length, cursor = _read_varint(records, cursor, len(records))
            end = cursor + length
            if length < 0 or end > len(records):
                raise _Unreadable(f"a record of {length} bytes does not fit")
            delta, cursor = _read_varint(records, cursor + _RECORD_ATTRIBUTES_SIZE, end)
            offset_delta, _ = _read_varint(records, cursor, end)
            if not 0 <= offset_delta <= header.last_offset_delta:
                raise _Unreadable(f"offset delta {offset_delta} lies outside the batch")
            record = RecordPosition(
                header.base_offset + offset_delta, header.base_timestamp + delta
            )
            if not (
                0 <= record.offset <= _MAX_INT64 and _MIN_INT64 <= record.timestamp <= _MAX_INT64
            ):
                raise _Unreadable(f"{record} is out of range")
            yield record
            cursor = end
    except (_Unreadable, DecompressionFailed, UnsupportedCodec) as error:
        raise InvalidBatch(str(error), position, header.base_offset) from error


class _Unreadable(Exception):
    """A record does not have the v2 layout."""


def _read_varint(data: Readable, position: int, end: int) -> tuple[int, int]:
    result = 0
    for index in range(min(end - position, _MAX_VARINT_BYTES)):
        byte = data[position + index]
        result |= (byte & 0x7F) << (7 * index)
        if byte < 0x80 and result <= _MAX_UINT64:
            return (result >> 1) ^ -(result & 1), position + index + 1
    raise _Unreadable("a variable-length number does not end")


def build_batch(
    records: Sequence[Record | tuple[bytes | None, bytes | None]],
    *,
    timestamp: int,
    codec: Codec = Codec.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """Write records, or bare (key, value) pairs, as one batch with a valid checksum.

    Costs several Python steps per record: meant for tests and for the few records that the broker
    writes itself.
    """
    if not records:
        raise InvalidRecords("a batch holds at least one record")
    whole = [Record(*record) for record in records]
    timestamps = [timestamp if each.timestamp is None else each.timestamp for each in whole]
    plain = bytearray()
    for index, record in enumerate(whole):
        _write_record(plain, record, timestamps[index] - timestamps[0], index)
    stored = plain if codec is Codec.NONE else compress(codec, plain)
    attributes = codec | (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    header = BatchHeader(
        base_offset=base_offset,
        length=HEADER_SIZE - LENGTH_END + len(stored),
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(whole) - 1,
        base_timestamp=timestamps[0],
        max_timestamp=max(timestamps),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(whole),
    )
    batch = bytearray(LAYOUT.pack(*header))
    batch += stored
    write_checksum(batch)
    return batch


def _write_record(target: bytearray, record: Record, timestamp_delta: int, index: int) -> None:
    body = bytearray(_RECORD_ATTRIBUTES_SIZE)
    _write_varint(body, timestamp_delta)
    _write_varint(body, index)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    _write_varint(body, len(record.headers))
    for name, value in record.headers:
        _write_bytes(body, name.encode())
        _write_bytes(body, value)
    _write_varint(target, len(body))
    target += body


def _write_bytes(target: bytearray, data: bytes | None) -> None:
    if data is None:
        _write_varint(target, -1)
    else:
        _write_varint(target, len(data))
        target += data


def _write_varint(target: bytearray, number: int) -> None:
    zigzag = (number << 1) ^ (number >> 63)
    while zigzag >= 0x80:
        target.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    target.append(zigzag)
