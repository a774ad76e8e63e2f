"""From columns to records: decide where batches begin, then write them.

These kernels read Arrow's own memory, which is as it should be, and write exactly the bytes that
`plan_batches` counted.
"""

from typing import NamedTuple

import numpy as np

from headrace.records.header import HEADER_SIZE
from headrace.records.kernels.compiled import Bytes, Int64s, compiled, copy_bytes


class Strings(NamedTuple):
    """Byte strings somewhere in `data`; a length of -1 means null."""

    starts: Int64s
    lengths: Int64s
    data: Bytes


class HeaderLists(NamedTuple):
    """For each record, which of the names and values are its headers."""

    starts: Int64s
    counts: Int64s
    names: Strings
    values: Strings


@compiled
def varint_size(number: int) -> int:
    """How many bytes a zigzag number takes."""
    zigzag = np.uint64((number << 1) ^ (number >> 63))
    size = 1
    while zigzag >= np.uint64(0x80):
        zigzag >>= np.uint64(7)
        size += 1
    return size


@compiled
def write_varint(target: Bytes, position: int, number: int) -> int:
    """Write a zigzag number, and return where it ends."""
    zigzag = np.uint64((number << 1) ^ (number >> 63))
    while zigzag >= np.uint64(0x80):
        target[position] = np.uint8(zigzag & np.uint64(0x7F)) | np.uint8(0x80)
        zigzag >>= np.uint64(7)
        position += 1
    target[position] = np.uint8(zigzag)
    return position + 1


@compiled
def _string_size(length: int) -> int:
    return varint_size(length) + max(length, 0)


@compiled
def _write_string(target: Bytes, position: int, strings: Strings, index: int) -> int:
    length = strings.lengths[index]
    position = write_varint(target, position, length)
    if length > 0:
        copy_bytes(strings.data, strings.starts[index], target, position, length)
        position += length
    return position


@compiled
def measure_records(keys: Strings, values: Strings, headers: HeaderLists, sizes: Int64s) -> bool:
    """Fill `sizes` with the bytes of each record that do not depend on its place in a batch.

    False if a header has no name, which the format has no way to say.
    """
    named = True
    for row in range(len(sizes)):
        count = headers.counts[row]
        attributes_size = 1
        size = attributes_size + varint_size(count)
        size += _string_size(keys.lengths[row]) + _string_size(values.lengths[row])
        for header in range(headers.starts[row], headers.starts[row] + count):
            name_length = headers.names.lengths[header]
            named = named and name_length >= 0
            size += _string_size(name_length)
            size += _string_size(headers.values.lengths[header])
        sizes[row] = size
    return named


@compiled
def plan_batches(
    sizes: Int64s,
    timestamps: Int64s,
    max_records: int,
    max_bytes: int,
    firsts: Int64s,
    ends: Int64s,
) -> int:
    """Decide which record begins each batch and where in the output the batch ends.

    A batch is closed before the record that would make it exceed a limit, so that it exceeds
    `max_bytes` only if its single record does. Returns the number of batches.
    """
    batch = -1
    first = 0
    position = 0
    batch_start = 0
    for row in range(len(sizes)):
        size = sizes[row] + varint_size(timestamps[row] - timestamps[first])
        size += varint_size(row - first)
        size += varint_size(size)
        full = row - first == max_records or position + size - batch_start > max_bytes
        if batch < 0 or (full and row > first):
            if batch >= 0:
                ends[batch] = position
            batch += 1
            first = row
            firsts[batch] = row
            batch_start = position
            position += HEADER_SIZE
            size = sizes[row] + varint_size(0) + varint_size(0)
            size += varint_size(size)
        position += size
    if batch >= 0:
        ends[batch] = position
    return batch + 1


@compiled
def write_records(
    keys: Strings,
    values: Strings,
    headers: HeaderLists,
    timestamps: Int64s,
    sizes: Int64s,
    firsts: Int64s,
    target: Bytes,
) -> None:
    """Write the records of all planned batches, leaving a gap for the header of each batch."""
    position = 0
    for batch in range(len(firsts)):
        position += HEADER_SIZE
        first = firsts[batch]
        following = firsts[batch + 1] if batch + 1 < len(firsts) else len(sizes)
        for row in range(first, following):
            timestamp_delta = timestamps[row] - timestamps[first]
            offset_delta = row - first
            size = sizes[row] + varint_size(timestamp_delta) + varint_size(offset_delta)
            position = write_varint(target, position, size)
            attributes = 0
            target[position] = attributes
            position = write_varint(target, position + 1, timestamp_delta)
            position = write_varint(target, position, offset_delta)
            position = _write_string(target, position, keys, row)
            position = _write_string(target, position, values, row)
            count = headers.counts[row]
            position = write_varint(target, position, count)
            for header in range(headers.starts[row], headers.starts[row] + count):
                position = _write_string(target, position, headers.names, header)
                position = _write_string(target, position, headers.values, header)
