"""Compiled loops over keys: their hashes, and pairs of hashes found in sorted arrays.

The hashes decide the order in which rows are stored and the bucket that a key belongs to, so they
must never change: of the same key, on any machine and in any version.
"""

from typing import Final

import numpy as np

from headrace.records.kernels.compiled import Bytes, Int64s, UInt64s, compiled, load_word

_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_NULL: Final = np.uint64(0x6E756C6C)
_EIGHT: Final = np.uint64(8)
_30: Final = np.uint64(30)
_27: Final = np.uint64(27)
_31: Final = np.uint64(31)


@compiled
def _mixed(number: np.uint64) -> np.uint64:
    """The finalizer of splitmix64: every bit of the input changes half of the output's."""
    number = (number ^ (number >> _30)) * _FIRST
    number = (number ^ (number >> _27)) * _SECOND
    return number ^ (number >> _31)


@compiled
def fold_words(hashes: UInt64s, words: UInt64s, valid: Bytes) -> None:
    """Fold a column of 64-bit values into the hashes so far; `valid` is empty without nulls."""
    nullable = len(valid) > 0
    for row in range(len(hashes)):
        word = words[row] if not nullable or valid[row] else _NULL
        hashes[row] = _mixed(hashes[row] * _MULTIPLIER + _mixed(word + _MULTIPLIER))


@compiled
def fold_texts(hashes: UInt64s, offsets: Int64s, data: Bytes, valid: Bytes) -> None:
    """Fold a column of strings or bytes into the hashes so far; `valid` is empty without nulls."""
    nullable = len(valid) > 0
    for row in range(len(hashes)):
        if nullable and not valid[row]:
            hashes[row] = _mixed(hashes[row] * _MULTIPLIER + _mixed(_NULL + _MULTIPLIER))
            continue
        start, end = offsets[row], offsets[row + 1]
        text = _mixed(np.uint64(end - start))
        at = start
        while at + 8 <= end:
            text = _mixed((text ^ load_word(data, at)) * _MULTIPLIER)
            at += 8
        tail = np.uint64(0)
        while at < end:
            tail = (tail << _EIGHT) | np.uint64(data[at])
            at += 1
        text = _mixed((text ^ tail) * _MULTIPLIER)
        hashes[row] = _mixed(hashes[row] * _MULTIPLIER + text)


@compiled
def find_pairs(keys: UInt64s, rows: UInt64s, wanted_keys: UInt64s, wanted_rows: UInt64s) -> Int64s:
    """Where each wanted pair is among pairs sorted by key and row; -1 where it is not."""
    found = np.full(len(wanted_keys), -1, np.int64)
    for number in range(len(wanted_keys)):
        key, row = wanted_keys[number], wanted_rows[number]
        low, high = 0, len(keys)
        while low < high:
            middle = (low + high) >> 1
            if keys[middle] < key or (keys[middle] == key and rows[middle] < row):
                low = middle + 1
            else:
                high = middle
        if low < len(keys) and keys[low] == key and rows[low] == row:
            found[number] = low
    return found


@compiled
def settle_ties(order: Int64s, keys: UInt64s, rows: UInt64s) -> None:
    """Put positions with the same key in the order of their rows, and of the positions themselves.

    The positions are sorted by key, and `keys` are in their order; `rows` are not. Without a sort
    where the rows of a key are all the same or in order already, as those of groups are.
    """
    begins = np.empty(len(keys), np.int64)
    begin = 0
    for number in range(len(keys)):
        if keys[number] != keys[begin]:
            begin = number
        begins[order[number]] = begin
    ends = np.arange(len(keys))
    for position in range(len(keys)):
        begin = begins[position]
        order[ends[begin]] = position
        ends[begin] += 1
    begin = 0
    while begin < len(keys):
        end = ends[begin]
        for number in range(begin + 1, end):
            if rows[order[number]] < rows[order[number - 1]]:
                tied = order[begin:end].copy()
                order[begin:end] = tied[np.argsort(rows[tied], kind="mergesort")]
                break
        begin = end


@compiled
def spread(starts: Int64s, ends: Int64s) -> tuple[Int64s, Int64s]:
    """Every position of every range, and the number of the range that it is of."""
    total = 0
    for number in range(len(starts)):
        total += ends[number] - starts[number]
    positions = np.empty(total, np.int64)
    ranges = np.empty(total, np.int64)
    at = 0
    for number in range(len(starts)):
        for position in range(starts[number], ends[number]):
            positions[at] = position
            ranges[at] = number
            at += 1
    return positions, ranges
