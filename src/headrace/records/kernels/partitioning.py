"""Which partition a key belongs to, and the rows of each partition together.

The hash is the 32-bit murmur2 of Kafka's Java clients, so that a key lands in the same partition
whoever writes it.
"""

from typing import Final

import numpy as np

from headrace.records.kernels.compiled import Bytes, Int32s, Int64s, compiled
from headrace.records.kernels.writing import Strings

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_WORD_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF


@compiled
def murmur2(data: Bytes, start: int, length: int) -> np.int64:
    """The murmur2 hash of some bytes, as an unsigned number of 32 bits."""
    hashed = np.int64((_SEED ^ length) & _WORD_MASK)
    whole = length & ~3
    for at in range(start, start + whole, 4):
        word = np.int64(data[at]) | np.int64(data[at + 1]) << 8
        word |= np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24
        word = (word * _MULTIPLIER) & _WORD_MASK
        word ^= word >> 24
        word = (word * _MULTIPLIER) & _WORD_MASK
        hashed = ((hashed * _MULTIPLIER) & _WORD_MASK) ^ word
    if whole < length:
        for at in range(whole, length):
            hashed ^= np.int64(data[start + at]) << (8 * (at - whole))
        hashed = (hashed * _MULTIPLIER) & _WORD_MASK
    hashed ^= hashed >> 13
    hashed = (hashed * _MULTIPLIER) & _WORD_MASK
    return hashed ^ hashed >> 15


@compiled
def choose_partitions(keys: Strings, partitions: int, keyless: int, chosen: Int32s) -> None:
    """Fill in the partition of every key; a record without one goes to `keyless`."""
    for row in range(len(chosen)):
        length = keys.lengths[row]
        if length < 0:
            chosen[row] = keyless
        else:
            hashed = murmur2(keys.data, keys.starts[row], length)
            chosen[row] = (hashed & _POSITIVE) % partitions


@compiled
def group_rows(chosen: Int32s, ends: Int64s, rows: Int64s) -> None:
    """Order rows by what was chosen for them, each group's as they came; `ends` is zero at first.

    The rows of group n are those from `ends[n - 1]` to `ends[n]`.
    """
    for row in range(len(chosen)):
        ends[chosen[row]] += 1
    total = 0
    for group in range(len(ends)):
        count = ends[group]
        ends[group] = total
        total += count
    for row in range(len(chosen)):
        group = chosen[row]
        rows[ends[group]] = row
        ends[group] += 1
