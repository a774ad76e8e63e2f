"""From stored batches to the batches that are left of them.

Offsets, timestamps, headers and order of the records that stay are not touched; a batch keeps its
first and last offset however few records it has left. What stays together is copied together.
"""

from typing import Final

import numpy as np

from headrace.records.header import APPEND_TIME, CODEC_MASK, DELETE_HORIZON, HEADER_SIZE, LENGTH_END
from headrace.records.kernels.compiled import Bytes, Int64s, compiled, copy_bytes
from headrace.records.kernels.records import BROKEN_RECORD, LEFTOVER_BYTES, find_parts, read_varint
from headrace.records.kernels.stored import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    CODEC,
    DATA_END,
    DATA_START,
    DISCARDED,
    END,
    IS_CONTROL,
    LAST_OFFSET,
    LONELY_MARKER,
    MAX_TIMESTAMP,
    POSITION,
    RECORD_COUNT,
    RETAINED,
)
from headrace.records.kernels.writing import varint_size, write_varint
from headrace.records.validate import NO_TIMESTAMP

MAX_GROWTH: Final = 16
"""How many bytes longer a record may become when its batch gets another base timestamp."""

# Columns of the table of batches that are left.
START: Final = 0
STOP: Final = 1
KIND: Final = 2
OFFSET: Final = 3
NEXT_OFFSET: Final = 4
NEWEST: Final = 5
LEFT_COLUMNS: Final = 6

# Kinds of batches that are left.
AS_IT_WAS: Final = 0
REBUILT: Final = 1
TO_COMPRESS: Final = 2

# Places in the array of totals.
RECORDS_READ: Final = 0
RECORDS_KEPT: Final = 1
TOTALS: Final = 2

_LENGTH_AT: Final = 8
_ATTRIBUTES_LOW_BYTE_AT: Final = 22
_BASE_TIMESTAMP_AT: Final = 27
_MAX_TIMESTAMP_AT: Final = 35
_RECORD_COUNT_AT: Final = 57
_INT32_SIZE: Final = 4
_INT64_SIZE: Final = 8


@compiled
def _write_number(target: Bytes, position: int, number: int, size: int) -> None:
    for index in range(size):
        target[position + index] = np.uint8(number >> (8 * (size - 1 - index)) & 0xFF)


@compiled
def _write_header(
    stored: Bytes,
    batch: Int64s,
    target: Bytes,
    start: int,
    end: int,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
) -> None:
    copy_bytes(stored, batch[POSITION], target, start, HEADER_SIZE)
    _write_number(target, start + _LENGTH_AT, end - start - LENGTH_END, _INT32_SIZE)
    target[start + _ATTRIBUTES_LOW_BYTE_AT] = attributes
    _write_number(target, start + _BASE_TIMESTAMP_AT, base_timestamp, _INT64_SIZE)
    _write_number(target, start + _MAX_TIMESTAMP_AT, max_timestamp, _INT64_SIZE)
    _write_number(target, start + _RECORD_COUNT_AT, count, _INT32_SIZE)


@compiled
def write_empty(stored: Bytes, batch: Int64s, target: Bytes, start: int) -> int:
    """Write what is left of a batch without its records, and return where it ends."""
    end = start + HEADER_SIZE
    attributes = batch[ATTRIBUTES] & ~(CODEC_MASK | DELETE_HORIZON)
    newest = batch[MAX_TIMESTAMP]
    _write_header(stored, batch, target, start, end, attributes, newest, newest, 0)
    return end


@compiled
def _keeps(superseded: Bytes, number: int, is_control: bool) -> bool:
    return is_control or superseded[number >> 3] >> (number & 7) & 1 == 0


@compiled
def _copy_kept(
    data: Bytes,
    batch: Int64s,
    superseded: Bytes,
    number: int,
    now_ms: int,
    target: Bytes,
    at: int,
) -> tuple[int, int, int, bool, int]:
    """Copy the records that stay, as they are, to `target[at:]`.

    Returns where they end there, how many they are, their newest timestamp, whether a tombstone is
    among them, and what is wrong with the batch.
    """
    is_control = batch[IS_CONTROL] != 0
    base_timestamp = batch[BASE_TIMESTAMP]
    # In a batch that has a horizon, it stands in the place of the base timestamp.
    expired = batch[ATTRIBUTES] & DELETE_HORIZON != 0 and base_timestamp <= now_ms
    position = batch[DATA_START]
    end = batch[DATA_END]
    run = position
    kept = 0
    newest = NO_TIMESTAMP
    has_tombstone = False
    for row in range(batch[RECORD_COUNT]):
        start = position
        stays = _keeps(superseded, number + row, is_control)
        if stays:
            position, timestamp_delta, _, _, _, _, value_length = find_parts(data, start, end)
            if position > end:
                return at, 0, 0, False, BROKEN_RECORD
            is_tombstone = value_length < 0 and not is_control
            if is_tombstone and expired:
                stays = False
            else:
                has_tombstone |= is_tombstone
                kept += 1
                newest = max(newest, base_timestamp + timestamp_delta)
        else:
            length, position = read_varint(data, start, end)
            if length < 0 or length > end - position:
                return at, 0, 0, False, BROKEN_RECORD
            position += length
        if not stays:
            copy_bytes(data, run, target, at, start - run)
            at += start - run
            run = position
    if position != end:
        return at, 0, 0, False, LEFTOVER_BYTES
    copy_bytes(data, run, target, at, end - run)
    at += end - run
    if batch[ATTRIBUTES] & APPEND_TIME:
        newest = batch[MAX_TIMESTAMP]
    return at, kept, newest, has_tombstone, 0


@compiled
def _move_base(source: Bytes, start: int, end: int, shift: int, target: Bytes, at: int) -> int:
    """Write records anew whose batch's base timestamp moves by `shift`; returns where they end."""
    while start < end:
        length, body = read_varint(source, start, end)
        record_end = body + length
        timestamp_delta, rest = read_varint(source, body + 1, record_end)
        moved = timestamp_delta - shift
        attributes_size = 1
        length = attributes_size + varint_size(moved) + record_end - rest
        at = write_varint(target, at, length)
        target[at] = source[body]
        at = write_varint(target, at + attributes_size, moved)
        copy_bytes(source, rest, target, at, record_end - rest)
        at += record_end - rest
        start = record_end
    return at


@compiled
def keep_records(
    stored: Bytes,
    expanded: Bytes,
    batches: Int64s,
    superseded: Bytes,
    number: int,
    round_end: int,
    now_ms: int,
    horizon_ms: int,
    aside: Bytes,
    target: Bytes,
    left: Int64s,
    totals: Int64s,
) -> tuple[int, int, int]:
    """Write what is left of each batch behind each other to `target`, with a row in `left`.

    Records are numbered from `number` on; a bit in `superseded` says that one goes. Batches from
    `round_end` on stay as they are. A batch that keeps a tombstone, or a marker of a transaction of
    which nothing is left, for the first time gets the delete horizon. Batches of kind `TO_COMPRESS`
    hold their records uncompressed, and none but those of kind `AS_IT_WAS` a valid checksum.
    `target` must have room for all batches, expanded, and `MAX_GROWTH` for each record; `aside` for
    the largest of them. Returns how many rows there are, the index of an offending batch and what
    is wrong with it.
    """
    rows = 0
    at = 0
    for index in range(len(batches)):
        batch = batches[index]
        count = batch[RECORD_COUNT]
        data = stored if batch[CODEC] == 0 else expanded
        start = at
        kind = AS_IT_WAS
        kept = count
        newest = batch[MAX_TIMESTAMP]
        body = start + HEADER_SIZE
        if batch[BASE_OFFSET] < round_end:
            totals[RECORDS_READ] += count
            kept = 0
            end = body
            has_tombstone = False
            if not batch[DISCARDED]:
                end, kept, newest, has_tombstone, problem = _copy_kept(
                    data, batch, superseded, number, now_ms, target, body
                )
                if problem:
                    return rows, index, problem
            totals[RECORDS_KEPT] += kept
            sets_horizon = (
                kept > 0
                and (has_tombstone or batch[LONELY_MARKER] != 0)
                and batch[ATTRIBUTES] & DELETE_HORIZON == 0
            )
            if kept == 0 and not batch[RETAINED]:
                number += count
                continue
            if kept == 0 and count > 0:
                kind = REBUILT
                at = write_empty(stored, batch, target, start)
            elif kept < count or sets_horizon:
                kind = REBUILT if batch[CODEC] == 0 else TO_COMPRESS
                attributes = batch[ATTRIBUTES]
                base_timestamp = batch[BASE_TIMESTAMP]
                if sets_horizon:
                    copy_bytes(target, body, aside, 0, end - body)
                    end = _move_base(
                        aside, 0, end - body, horizon_ms - base_timestamp, target, body
                    )
                    attributes |= DELETE_HORIZON
                    base_timestamp = horizon_ms
                _write_header(
                    stored, batch, target, start, end, attributes, base_timestamp, newest, kept
                )
                at = end
        if kind == AS_IT_WAS:
            size = batch[END] - batch[POSITION]
            copy_bytes(stored, batch[POSITION], target, start, size)
            at = start + size
        row = left[rows]
        row[START] = start
        row[STOP] = at
        row[KIND] = kind
        row[OFFSET] = batch[BASE_OFFSET]
        row[NEXT_OFFSET] = batch[LAST_OFFSET] + 1
        row[NEWEST] = newest if kept > 0 else NO_TIMESTAMP
        rows += 1
        number += count
    return rows, 0, 0


@compiled
def choose_entries(
    ends: Int64s, position: int, next_entry: int, interval: int, chosen: Bytes
) -> int:
    """Set a byte for every batch that an index has an entry for; returns where the next is due.

    Batches stand behind each other from `position` on and end at `ends`.
    """
    for index in range(len(ends)):
        if position >= next_entry:
            chosen[index] = 1
            next_entry = position + interval
        position = ends[index]
    return next_entry
