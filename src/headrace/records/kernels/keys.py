"""Which record is the latest of its key: a hash table over bytes that lie elsewhere.

A slot is two words: 24 bits of the key's hash with the place of its bytes, and the number of the
latest record that had it. A slot whose bits agree is believed only after the bytes were compared,
so keys whose hashes collide are never taken for each other.

The records of a batch are gone through several times: to hash their keys and have the slots brought
from memory, to have the keys brought that these point to, and to compare what has arrived by then.
"""

from typing import Final, NamedTuple

import numpy as np

from headrace.records.kernels.compiled import (
    Bytes,
    Int64s,
    UInt64s,
    compiled,
    copy_bytes,
    load_word,
    prefetch,
)
from headrace.records.kernels.records import BROKEN_RECORD, LEFTOVER_BYTES, find_parts
from headrace.records.kernels.stored import (
    CODEC,
    DATA_END,
    DATA_START,
    DISCARDED,
    IS_CONTROL,
    RECORD_COUNT,
)

FULL: Final = -1
"""Instead of a problem: the table has no room for the keys of the batch."""

# Places in the array of counts.
KEYS: Final = 0
ARENA_END: Final = 1
KEYLESS: Final = 2
COUNTS: Final = 3

LENGTH_SIZE: Final = 4
"""Bytes in front of a key in the arena."""

LOAD: Final = 0.75
"""How full the table gets."""

_PLACE_BITS: Final = 40
_PLACE_MASK: Final = (1 << _PLACE_BITS) - 1
_WORD: Final = 8
_MULTIPLIERS: Final = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_FIRST, _SECOND, _THIRD = (np.uint64(each) for each in _MULTIPLIERS)
_HALF: Final = np.uint64(32)
_PLACES: Final = np.uint64(_PLACE_MASK)
_TAG_SHIFT: Final = np.uint64(_PLACE_BITS)
_ONE: Final = np.uint64(1)


class KeyTable(NamedTuple):
    """The keys seen so far."""

    slots: UInt64s
    """Two words each; their number is a power of two."""

    arena: Bytes
    """The bytes of every key, behind their length."""

    counts: Int64s
    """How many keys there are, where the arena ends, and how many records had no key."""

    seed: np.uint64
    """Makes hashes differ from process to process, so that nobody can choose keys that collide."""


class Scratch(NamedTuple):
    """What is remembered of a batch's records between the two passes."""

    hashes: UInt64s
    starts: Int64s
    lengths: Int64s


@compiled
def _hash(data: Bytes, start: int, length: int, seed: np.uint64) -> np.uint64:
    hashed = seed ^ (np.uint64(length) * _FIRST)
    position = start
    end = start + length
    while position + _WORD <= end:
        hashed = (hashed ^ load_word(data, position)) * _SECOND
        hashed ^= hashed >> _HALF
        position += _WORD
    rest = np.uint64(0)
    while position < end:
        rest = (rest << np.uint64(8)) | np.uint64(data[position])
        position += 1
    hashed = (hashed ^ rest) * _SECOND
    hashed ^= hashed >> np.uint64(29)
    hashed *= _THIRD
    return hashed ^ (hashed >> _HALF)


@compiled
def _is_key(table: KeyTable, place: int, data: Bytes, start: int, length: int) -> bool:
    arena = table.arena
    stored = 0
    for index in range(LENGTH_SIZE):
        stored = stored << 8 | arena[place + index]
    if stored != length:
        return False
    place += LENGTH_SIZE
    done = 0
    while done + _WORD <= length:
        if load_word(arena, place + done) != load_word(data, start + done):
            return False
        done += _WORD
    while done < length:
        if arena[place + done] != data[start + done]:
            return False
        done += 1
    return True


@compiled
def _find(table: KeyTable, hashed: np.uint64, data: Bytes, start: int, length: int) -> int:
    """The place in `slots` of a key, or of the free slot where it belongs."""
    slots = table.slots
    mask = np.uint64(len(slots) // 2 - 1)
    slot = hashed & mask
    while True:
        at = int(slot) * 2
        entry = slots[at]
        if entry == 0:
            return at
        place = int(entry & _PLACES) - 1
        if entry >> _TAG_SHIFT == hashed >> _TAG_SHIFT and _is_key(
            table, place, data, start, length
        ):
            return at
        slot = (slot + _ONE) & mask


@compiled
def _add(table: KeyTable, at: int, hashed: np.uint64, data: Bytes, start: int, length: int) -> None:
    place = table.counts[ARENA_END]
    for index in range(LENGTH_SIZE):
        table.arena[place + index] = np.uint8(length >> (8 * (LENGTH_SIZE - 1 - index)) & 0xFF)
    copy_bytes(data, start, table.arena, place + LENGTH_SIZE, length)
    table.slots[at] = (hashed >> _TAG_SHIFT) << _TAG_SHIFT | np.uint64(place + 1)
    table.counts[ARENA_END] = place + LENGTH_SIZE + length
    table.counts[KEYS] += 1


@compiled
def _hash_keys(data: Bytes, batch: Int64s, table: KeyTable, scratch: Scratch) -> int:
    """Fill `scratch` for the records of one batch; returns what is wrong with it."""
    mask = np.uint64(len(table.slots) // 2 - 1)
    position = batch[DATA_START]
    end = batch[DATA_END]
    for row in range(batch[RECORD_COUNT]):
        position, _, _, key_start, key_length, _, _ = find_parts(data, position, end)
        if position > end:
            return BROKEN_RECORD
        scratch.starts[row] = key_start
        scratch.lengths[row] = key_length
        if key_length >= 0:
            hashed = _hash(data, key_start, key_length, table.seed)
            scratch.hashes[row] = hashed
            prefetch(table.slots, int(hashed & mask) * 2)
    return 0 if position == end else LEFTOVER_BYTES


@compiled
def _fetch_keys(count: int, table: KeyTable, scratch: Scratch) -> None:
    """Have the bytes brought from memory that the keys in `scratch` will be compared with."""
    mask = np.uint64(len(table.slots) // 2 - 1)
    for row in range(count):
        if scratch.lengths[row] >= 0:
            entry = table.slots[int(scratch.hashes[row] & mask) * 2]
            if entry != 0:
                prefetch(table.arena, int(entry & _PLACES) - 1)


@compiled
def _set_bit(bits: Bytes, number: int) -> None:
    bits[number >> 3] |= np.uint8(1 << (number & 7))


@compiled
def mark_latest(
    stored: Bytes,
    expanded: Bytes,
    batches: Int64s,
    superseded: Bytes,
    number: int,
    table: KeyTable,
    scratch: Scratch,
) -> tuple[int, int, int]:
    """Note the latest record of every key, and set a bit for those that are not, or have no key.

    Records are numbered from `number` on, through all batches. Returns the index of the first batch
    that was not gone through, the number of its first record, and why: `FULL`, what is wrong with
    it, or 0 if there is none.
    """
    room = int(len(table.slots) // 2 * LOAD)
    for index in range(len(batches)):
        batch = batches[index]
        count = batch[RECORD_COUNT]
        if batch[DISCARDED] or batch[IS_CONTROL]:
            number += count
            continue
        key_bytes = batch[DATA_END] - batch[DATA_START] + count * LENGTH_SIZE
        if (
            table.counts[KEYS] + count > room
            or table.counts[ARENA_END] + key_bytes > len(table.arena)
            or number + count > 8 * len(superseded)
        ):
            return index, number, FULL
        data = stored if batch[CODEC] == 0 else expanded
        problem = _hash_keys(data, batch, table, scratch)
        if problem:
            return index, number, problem
        _fetch_keys(count, table, scratch)
        for row in range(count):
            length = scratch.lengths[row]
            if length < 0:
                table.counts[KEYLESS] += 1
                _set_bit(superseded, number)
            else:
                start = scratch.starts[row]
                hashed = scratch.hashes[row]
                at = _find(table, hashed, data, start, length)
                if table.slots[at] == 0:
                    _add(table, at, hashed, data, start, length)
                else:
                    _set_bit(superseded, int(table.slots[at + 1]))
                table.slots[at + 1] = np.uint64(number)
            number += 1
    return len(batches), number, 0


@compiled
def mark_superseded(
    stored: Bytes,
    expanded: Bytes,
    batches: Int64s,
    superseded: Bytes,
    table: KeyTable,
    scratch: Scratch,
) -> tuple[int, int]:
    """Set a bit for every record whose key is in the table, or that has none.

    Records are numbered from 0 on. Returns the index of the offending batch and what is wrong.
    """
    number = 0
    for index in range(len(batches)):
        batch = batches[index]
        count = batch[RECORD_COUNT]
        if batch[DISCARDED] or batch[IS_CONTROL]:
            number += count
            continue
        data = stored if batch[CODEC] == 0 else expanded
        problem = _hash_keys(data, batch, table, scratch)
        if problem:
            return index, problem
        _fetch_keys(count, table, scratch)
        for row in range(count):
            length = scratch.lengths[row]
            if length < 0:
                table.counts[KEYLESS] += 1
                _set_bit(superseded, number)
            else:
                at = _find(table, scratch.hashes[row], data, scratch.starts[row], length)
                if table.slots[at] != 0:
                    _set_bit(superseded, number)
            number += 1
    return 0, 0
