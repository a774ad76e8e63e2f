"""From a table of batches to columns: a pass for all but the headers, and one for the headers.

Most records have none, so the first pass only measures them, and the second is left out unless
there are some.
"""

from typing import Final, NamedTuple

import numpy as np

from headrace.records.kernels.batches import (
    APPEND_TIMESTAMP,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    CODEC,
    END,
    LAST_OFFSET_DELTA,
    NOT_APPEND_TIME,
    RECORD_COUNT,
    START,
)
from headrace.records.kernels.compiled import Bytes, Int32s, Int64s, compiled, copy_bytes

BROKEN_RECORD: Final = 1
BROKEN_HEADERS: Final = 2
FOREIGN_OFFSET: Final = 3
IMPOSSIBLE_TIMESTAMP: Final = 4
LEFTOVER_BYTES: Final = 5

RECORD_PROBLEMS: Final = {
    BROKEN_RECORD: "a record does not have the layout of format 2",
    BROKEN_HEADERS: "a record's headers do not fill the rest of the record",
    FOREIGN_OFFSET: "a record's offset lies outside the batch",
    IMPOSSIBLE_TIMESTAMP: "a record's timestamp lies outside the range of timestamps",
    LEFTOVER_BYTES: "bytes are left over after its last record",
}
"""What the kernels of this module report; 0 means that all is well."""

# Places in the array of totals.
ROWS: Final = 0
HEADERS: Final = 1
HEADER_NAME_BYTES: Final = 2
HEADER_VALUE_BYTES: Final = 3
TOTALS: Final = 4


class Binaries(NamedTuple):
    """A column of byte strings in Arrow's form, except that a set bit in `nulls` means null."""

    ends: Int32s
    data: Bytes
    nulls: Bytes


_BEYOND: Final = 1 << 62
_LAST_SHIFT: Final = 63


@compiled
def read_varint(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read a zigzag number; returns it and where it ended.

    If it does not end before `end`, the position returned is beyond every end: whatever is read
    from there fails as well, so that several reads need only one check.
    """
    number = np.uint64(0)
    shift = np.uint64(0)
    while position < end and shift <= np.uint64(_LAST_SHIFT):
        byte = data[position]
        position += 1
        number |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            if shift == np.uint64(_LAST_SHIFT) and byte > 1:
                break
            magnitude = int(np.int64(number >> np.uint64(1)))
            sign = int(np.int64(number & np.uint64(1)))
            return magnitude ^ -sign, position
        shift += np.uint64(7)
    return 0, _BEYOND


@compiled
def find_parts(data: Bytes, position: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Find the parts of the record at `position`, none of which reaches beyond the record.

    Returns the record's end (or `_BEYOND` if it is broken), its timestamp and offset deltas, and
    start and length of its key and of its value; a length of -1 means null.
    """
    length, position = read_varint(data, position, end)
    if length < 0 or length > end - position:
        return _BEYOND, 0, 0, 0, 0, 0, 0
    record_end = position + length
    attributes_end = position + 1
    timestamp_delta, position = read_varint(data, attributes_end, record_end)
    offset_delta, position = read_varint(data, position, record_end)
    key_length, key_start = read_varint(data, position, record_end)
    if key_length < -1 or key_length > record_end - key_start:
        return _BEYOND, 0, 0, 0, 0, 0, 0
    value_length, value_start = read_varint(data, key_start + max(key_length, 0), record_end)
    if value_length < -1 or value_length > record_end - value_start:
        return _BEYOND, 0, 0, 0, 0, 0, 0
    return (
        record_end,
        timestamp_delta,
        offset_delta,
        key_start,
        key_length,
        value_start,
        value_length,
    )


@compiled
def find_header(data: Bytes, position: int, end: int) -> tuple[int, int, int, int, int]:
    """Find the parts of the record header at `position`: its end, then its name and its value."""
    name_length, name_start = read_varint(data, position, end)
    if name_length < 0 or name_length > end - name_start:
        return _BEYOND, 0, 0, 0, 0
    value_length, value_start = read_varint(data, name_start + name_length, end)
    if value_length < -1 or value_length > end - value_start:
        return _BEYOND, 0, 0, 0, 0
    return value_start + max(value_length, 0), name_start, name_length, value_start, value_length


@compiled
def _measure_headers(data: Bytes, position: int, end: int, totals: Int64s) -> bool:
    """Add a record's headers to the totals; False unless they end exactly where the record does."""
    count, position = read_varint(data, position, end)
    if count < 0:
        return False
    for _ in range(count):
        position, _, name_length, _, value_length = find_header(data, position, end)
        if position > end:
            return False
        totals[HEADERS] += 1
        totals[HEADER_NAME_BYTES] += name_length
        totals[HEADER_VALUE_BYTES] += max(value_length, 0)
    return bool(position == end)


@compiled
def decode_records(
    stored: Bytes,
    expanded: Bytes,
    batches: Int64s,
    min_offset: int,
    with_keys: bool,
    with_headers: bool,
    offsets: Int64s,
    timestamps: Int64s,
    keys: Binaries,
    values: Binaries,
    totals: Int64s,
) -> tuple[int, int]:
    """Fill the columns from the records of `batches` that are not before `min_offset`.

    Uncompressed batches lie in `stored`, the others in `expanded`. Columns must have room for all
    records, byte columns for as many bytes as all batches have; a bit of the zeroed bitmaps is set
    where a key or value is null. Keys and headers that are not wanted are not looked at. `totals`
    gets the number of rows and the room that their headers need. Returns the index of the offending
    batch and what is wrong with it.
    """
    row = 0
    key_end = 0
    value_end = 0
    for index in range(len(batches)):
        batch = batches[index]
        data = stored if batch[CODEC] == 0 else expanded
        position = batch[START]
        end = batch[END]
        base_offset = batch[BASE_OFFSET]
        last_offset_delta = batch[LAST_OFFSET_DELTA]
        base_timestamp = batch[BASE_TIMESTAMP]
        append_timestamp = batch[APPEND_TIMESTAMP]
        for _ in range(batch[RECORD_COUNT]):
            (
                position,
                timestamp_delta,
                offset_delta,
                key_start,
                key_length,
                value_start,
                value_length,
            ) = find_parts(data, position, end)
            if position > end:
                return index, BROKEN_RECORD
            if offset_delta < 0 or offset_delta > last_offset_delta:
                return index, FOREIGN_OFFSET
            timestamp = base_timestamp + timestamp_delta
            if (base_timestamp ^ timestamp) & (timestamp_delta ^ timestamp) < 0:
                return index, IMPOSSIBLE_TIMESTAMP
            offset = base_offset + offset_delta
            if offset < min_offset:
                continue
            headers_start = value_start + max(value_length, 0)
            has_headers = headers_start != position - 1 or data[headers_start] != 0
            measure = with_headers and has_headers
            if measure and not _measure_headers(data, headers_start, position, totals):
                return index, BROKEN_HEADERS
            offsets[row] = offset
            timestamps[row] = timestamp if append_timestamp == NOT_APPEND_TIME else append_timestamp
            if with_keys:
                keys.ends[row] = key_end
                if key_length < 0:
                    keys.nulls[row >> 3] |= np.uint8(1 << (row & 7))
                else:
                    copy_bytes(data, key_start, keys.data, key_end, key_length)
                    key_end += key_length
            values.ends[row] = value_end
            if value_length < 0:
                values.nulls[row >> 3] |= np.uint8(1 << (row & 7))
            else:
                copy_bytes(data, value_start, values.data, value_end, value_length)
                value_end += value_length
            row += 1
        if position != end:
            return index, LEFTOVER_BYTES
    if with_keys:
        keys.ends[row] = key_end
    values.ends[row] = value_end
    totals[ROWS] = row
    return 0, 0


@compiled
def decode_headers(
    stored: Bytes,
    expanded: Bytes,
    batches: Int64s,
    min_offset: int,
    header_ends: Int32s,
    names: Binaries,
    values: Binaries,
) -> tuple[int, int]:
    """Fill the header columns of the same records.

    `header_ends` must have room for all records, the other columns exactly the room that
    `decode_records` measured.
    """
    row = 0
    header = 0
    name_end = 0
    value_end = 0
    for index in range(len(batches)):
        batch = batches[index]
        data = stored if batch[CODEC] == 0 else expanded
        position = batch[START]
        end = batch[END]
        for _ in range(batch[RECORD_COUNT]):
            record_end, _, offset_delta, _, _, start, length = find_parts(data, position, end)
            if record_end > end:
                return index, BROKEN_RECORD
            position = record_end
            if batch[BASE_OFFSET] + offset_delta < min_offset:
                continue
            header_ends[row] = header
            row += 1
            count, cursor = read_varint(data, start + max(length, 0), record_end)
            for _ in range(count):
                cursor, name_start, name_length, value_start, value_length = find_header(
                    data, cursor, record_end
                )
                # So only if somebody wrote to the buffer after it was measured.
                if (
                    cursor > record_end
                    or header == len(names.ends) - 1
                    or name_length > len(names.data) - name_end
                    or value_length > len(values.data) - value_end
                ):
                    return index, BROKEN_HEADERS
                names.ends[header] = name_end
                copy_bytes(data, name_start, names.data, name_end, name_length)
                name_end += name_length
                values.ends[header] = value_end
                if value_length < 0:
                    values.nulls[header >> 3] |= np.uint8(1 << (header & 7))
                else:
                    copy_bytes(data, value_start, values.data, value_end, value_length)
                    value_end += value_length
                header += 1
    if header != len(names.ends) - 1:
        return len(batches) - 1, BROKEN_HEADERS
    header_ends[row] = header
    names.ends[header] = name_end
    values.ends[header] = value_end
    return 0, 0
