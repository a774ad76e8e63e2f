"""How many distinct values there are, approximately: HyperLogLog.

A value's hash chooses one of 4096 registers, which keeps the greatest number of leading zeros that
the rest of a hash in it had, plus one. The standard error is 1.04 / sqrt(4096) = 1.6 %, for any
number of values up to 2^52; the estimate is Ertl's, which needs no tables of corrections ("New
cardinality estimation algorithms for HyperLogLog sketches", 2017). Registers depend on the set of
values only: order, repetition and how they were merged make no difference.

A sketch in bytes: the version, 1; the number of index bits, 12; then the registers, one byte each,
if more than 1024 of them are in use; otherwise those that are, 32 little-endian bits each: index *
256 + register, in the order of the index.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.records.kernels.compiled import compiled
from headrace.streams.state.hashing import KEYS, hashes
from headrace.streams.windows.aggregates.blobs import from_bytes, to_bytes
from headrace.streams.windows.aggregates.collecting import flat
from headrace.streams.windows.aggregates.protocol import Aggregate, Windows
from headrace.streams.windows.groups import Groups, read_only

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Bytes, Int64s, UInt64s
    from headrace.streams.windows.aggregates.arithmetic import Floats

_VERSION: Final = 1
_BITS: Final = 12
_REGISTERS: Final = 1 << _BITS
_SPARSE: Final = _REGISTERS // 4
"""The most registers that are written one by one."""

_HEADER: Final = 2
_ONE: Final = np.uint64(1)
_SHIFT: Final = np.uint64(64 - _BITS)
_INDEX: Final = np.uint64(_BITS)


@dataclass(frozen=True)
class ApproximateDistinct(Aggregate):
    """The approximate number of distinct values; nulls are left out."""

    def columns(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """A sketch."""
        flat(arguments[0], self)
        return (pa.large_binary(),)

    def result_type(self, arguments: Sequence[Any]) -> Any:
        """A 64-bit integer."""
        return pa.int64()

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Register values."""
        values = arguments[0].to_arrow()
        found = read_only(hashes([values], KEYS, len(values)))
        there = read_only(arguments[0].is_not_null().to_numpy())
        return (from_bytes(*_registered(found, there, groups.starts, groups.ends)),)

    def merge(self, columns: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Of every register the greatest."""
        return (from_bytes(*_merged(*to_bytes(columns[0]), groups.starts, groups.ends)),)

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The estimate."""
        return pl.Series(np.rint(_estimated(*to_bytes(columns[0]))).astype(np.int64))


@compiled
def _written(registers: "Bytes", used: "Int64s", count: int, data: "Bytes", at: int) -> int:
    """Write the registers, and empty those that were used; returns the end of what was written."""
    data[at], data[at + 1] = _VERSION, _BITS
    at += _HEADER
    if count > _SPARSE:
        for index in range(_REGISTERS):
            data[at + index] = registers[index]
            registers[index] = 0
        return at + _REGISTERS
    for position in np.sort(used[:count]):
        data[at] = registers[position]
        data[at + 1] = position & 255
        data[at + 2] = position >> 8
        data[at + 3] = 0
        registers[position] = 0
        at += 4
    return at


@compiled
def _registered(
    found: "UInt64s", there: Any, starts: "Int64s", ends: "Int64s"
) -> "tuple[Bytes, Int64s]":
    registers = np.zeros(_REGISTERS, np.uint8)
    used = np.empty(_REGISTERS, np.int64)
    offsets = np.zeros(len(starts) + 1, np.int64)
    room = 0
    for group in range(len(starts)):
        room += _HEADER + min(4 * (ends[group] - starts[group]), _REGISTERS)
    data = np.empty(room, np.uint8)
    for group in range(len(starts)):
        count = 0
        for row in range(starts[group], ends[group]):
            if not there[row]:
                continue
            index = np.int64(found[row] >> _SHIFT)
            rest = found[row] << _INDEX
            rank = 1
            while rank <= 64 - _BITS and not rest >> np.uint64(63):
                rest <<= _ONE
                rank += 1
            if not registers[index]:
                used[count] = index
                count += 1
            registers[index] = max(registers[index], rank)
        offsets[group + 1] = _written(registers, used, count, data, offsets[group])
    return data[: offsets[-1]], offsets


@compiled
def _collected(
    data: "Bytes", begin: int, end: int, registers: "Bytes", used: "Int64s", count: int
) -> int:
    """Take up the registers of one sketch; returns how many are in use."""
    at = begin + _HEADER
    dense = end - at == _REGISTERS
    step = 1 if dense else 4
    for number in range((end - at) // step):
        place = at + number * step
        rank = data[place]
        index = number if dense else np.int64(data[place + 1]) | np.int64(data[place + 2]) << 8
        if rank and not registers[index]:
            used[count] = index
            count += 1
        registers[index] = max(registers[index], rank)
    return count


@compiled
def _merged(
    data: "Bytes", places: "Int64s", starts: "Int64s", ends: "Int64s"
) -> "tuple[Bytes, Int64s]":
    registers = np.zeros(_REGISTERS, np.uint8)
    used = np.empty(_REGISTERS, np.int64)
    offsets = np.zeros(len(starts) + 1, np.int64)
    room = 0
    for group in range(len(starts)):
        room += _HEADER + min(places[ends[group]] - places[starts[group]], _REGISTERS)
    target = np.empty(room, np.uint8)
    for group in range(len(starts)):
        count = 0
        for row in range(starts[group], ends[group]):
            count = _collected(data, places[row], places[row + 1], registers, used, count)
        offsets[group + 1] = _written(registers, used, count, target, offsets[group])
    return target[: offsets[-1]], offsets


@compiled
def _sigma(share: float) -> float:
    if share == 1.0:
        return np.inf
    factor, total = 1.0, share
    while True:
        share *= share
        before = total
        total += share * factor
        factor += factor
        if before == total:
            return total


@compiled
def _tau(share: float) -> float:
    if share in (0.0, 1.0):
        return 0.0
    factor, total = 1.0, 1.0 - share
    while True:
        share = np.sqrt(share)
        before = total
        factor *= 0.5
        total -= (1.0 - share) ** 2 * factor
        if before == total:
            return total / 3.0


@compiled
def _estimated(data: "Bytes", places: "Int64s") -> "Floats":
    found = np.empty(len(places) - 1, np.float64)
    registers = np.zeros(_REGISTERS, np.uint8)
    used = np.empty(_REGISTERS, np.int64)
    longest = 64 - _BITS
    for row in range(len(found)):
        count = _collected(data, places[row], places[row + 1], registers, used, 0)
        ranks = np.zeros(longest + 2, np.float64)
        ranks[0] = _REGISTERS - count
        for position in used[:count]:
            ranks[registers[position]] += 1.0
            registers[position] = 0
        total = _REGISTERS * _tau(1.0 - ranks[longest + 1] / _REGISTERS)
        for rank in range(longest, 0, -1):
            total = 0.5 * (total + ranks[rank])
        total += _REGISTERS * _sigma(ranks[0] / _REGISTERS)
        found[row] = _REGISTERS * _REGISTERS / (2.0 * np.log(2.0)) / total
    return found
