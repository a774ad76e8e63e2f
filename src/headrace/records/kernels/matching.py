"""Finding records by their keys or headers, and copying the others, in compiled loops."""

from typing import NamedTuple

import numpy as np

from headrace.records.kernels.batches import CODEC, END, RECORD_COUNT, START
from headrace.records.kernels.compiled import Bytes, Int64s, compiled, copy_bytes
from headrace.records.kernels.records import (
    BROKEN_HEADERS,
    BROKEN_RECORD,
    LEFTOVER_BYTES,
    find_header,
    find_parts,
    read_varint,
)


class Needles(NamedTuple):
    """Byte strings in one buffer, and a hash table of them with open addressing."""

    ends: Int64s
    """Where each string ends; the first begins at 0."""

    data: Bytes
    slots: Int64s
    """A string's number plus one, or 0; the length is a power of two and leaves half empty."""


class HeaderNeedles(NamedTuple):
    """Pairs of a header's name and its value; few, so that they are compared one by one."""

    names: Needles
    values: Needles


@compiled
def _hash(data: Bytes, start: int, length: int) -> np.uint64:
    digest = np.uint64(0xCBF29CE484222325)
    for position in range(start, start + length):
        digest = (digest ^ np.uint64(data[position])) * np.uint64(0x100000001B3)
    return digest ^ (digest >> np.uint64(29))


@compiled
def _is_needle(needles: Needles, number: int, data: Bytes, start: int, length: int) -> bool:
    first = needles.ends[number - 1] if number else 0
    if needles.ends[number] - first != length:
        return False
    for index in range(length):  # noqa: SIM110 - Numba has no generators to give to all()
        if needles.data[first + index] != data[start + index]:
            return False
    return True


@compiled
def fill_slots(needles: Needles) -> None:
    """Enter every string into the hash table, whose slots are all 0."""
    mask = np.uint64(len(needles.slots) - 1)
    start = 0
    for number in range(len(needles.ends)):
        end = needles.ends[number]
        slot = _hash(needles.data, start, end - start) & mask
        while needles.slots[slot]:
            slot = (slot + np.uint64(1)) & mask
        needles.slots[slot] = number + 1
        start = end


@compiled
def _contains(needles: Needles, data: Bytes, start: int, length: int) -> bool:
    mask = np.uint64(len(needles.slots) - 1)
    slot = _hash(data, start, length) & mask
    while needles.slots[slot]:
        if _is_needle(needles, needles.slots[slot] - 1, data, start, length):
            return True
        slot = (slot + np.uint64(1)) & mask
    return False


@compiled
def _match_headers(data: Bytes, position: int, end: int, wanted: HeaderNeedles) -> int:
    """1 if a record has one of the headers, 0 if not, -1 if its headers are broken."""
    count, position = read_varint(data, position, end)
    if count < 0:
        return -1
    matched = 0
    for _ in range(count):
        position, name_start, name_length, value_start, value_length = find_header(
            data, position, end
        )
        if position > end:
            return -1
        for number in range(len(wanted.names.ends)):
            if _is_needle(wanted.names, number, data, name_start, name_length) and _is_needle(
                wanted.values, number, data, value_start, value_length
            ):
                matched = 1
    return matched if position == end else -1


@compiled
def mark_records(
    stored: Bytes,
    expanded: Bytes,
    batches: Int64s,
    keys: Needles,
    headers: HeaderNeedles,
    marks: Bytes,
    counts: Int64s,
) -> tuple[int, int]:
    """Set a record's mark if its key or one of its headers is wanted; count marks per batch.

    Uncompressed batches lie in `stored`, the others in `expanded`. `marks` must be zeroed and have
    room for all records, `counts` for all batches. Returns the index of the offending batch and
    what is wrong with it, as in `RECORD_PROBLEMS`.
    """
    row = 0
    for index in range(len(batches)):
        batch = batches[index]
        data = stored if batch[CODEC] == 0 else expanded
        position = batch[START]
        end = batch[END]
        count = 0
        for _ in range(batch[RECORD_COUNT]):
            position, _, _, key_start, key_length, value_start, value_length = find_parts(
                data, position, end
            )
            if position > end:
                return index, BROKEN_RECORD
            matched = 0
            if len(headers.names.ends):
                matched = _match_headers(
                    data, value_start + max(value_length, 0), position, headers
                )
                if matched < 0:
                    return index, BROKEN_HEADERS
            if matched == 0 and key_length >= 0 and _contains(keys, data, key_start, key_length):
                matched = 1
            marks[row] = matched
            count += matched
            row += 1
        if position != end:
            return index, LEFTOVER_BYTES
        counts[index] = count
    return 0, 0


@compiled
def copy_unmarked(
    data: Bytes, start: int, end: int, marks: Bytes, target: Bytes
) -> tuple[int, int, int]:
    """Copy the records of one batch that have no mark, as they are, one after the other.

    Returns how many bytes and records these were, and the largest timestamp delta among them.
    """
    position = start
    size = 0
    count = 0
    latest = np.iinfo(np.int64).min
    for row in range(len(marks)):
        record_end, timestamp_delta, _, _, _, _, _ = find_parts(data, position, end)
        if not marks[row]:
            copy_bytes(data, position, target, size, record_end - position)
            size += record_end - position
            count += 1
            latest = max(latest, timestamp_delta)
        position = record_end
    return size, count, latest
