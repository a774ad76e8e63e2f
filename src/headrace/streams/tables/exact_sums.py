"""Sums of floats without any rounding, from which what was added can be taken back.

A sum of floats that is kept in floats forgets: 1e20 + 1 - 1e20 is 0. In a table rows go as they
came, for years, and what is left must be what the rows that are left add up to. So a sum is kept as
the whole number of 2^-1074, the least of floats, that it is: about two thousand bits, of which only
those that are in use are stored (Kulisch's accumulator). Adding and subtracting whole numbers loses
nothing, in any order, and the sum is rounded once, when it is told: what `math.fsum` would say.

A sum as it is stored, all of it 64-bit numbers: how many NaN there are, how many times infinity and
minus infinity; the place of the first digit; the digits of 32 bits each, the lowest first, all of
them with the sign of the sum.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.records.kernels.compiled import compiled
from headrace.streams.windows.groups import Groups, read_only

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s
    from headrace.streams.windows.aggregates.arithmetic import Floats

STORED: Final = pa.list_(pa.int64())
"""The type of a column of sums."""

_DIGITS: Final = 70
"""Room for all floats and for carries of 2^63 of them."""

_HEADER: Final = 4
_BITS: Final = 32
_LOW: Final = 0xFFFFFFFF
_FRACTION: Final = 0xFFFFFFFFFFFFF
_LEADING: Final = 1 << 52
_SPECIAL: Final = 0x7FF
_BIAS: Final = 1074
"""The lowest bit of the lowest digit stands for 2^-1074."""

_LEAST: Final = 5e-324


def summed(values: pl.Series, signs: pl.Series, groups: Groups) -> pl.Series:
    """The sum of each group of floats, each added or, where the sign is -1, taken away."""
    floats = np.ascontiguousarray(values.cast(pl.Float64).fill_null(0.0).to_numpy())
    weights = read_only(signs.cast(pl.Int64).to_numpy())
    bits = read_only(floats.view(np.int64))
    return _column(*_accumulated(bits, weights, groups.starts, groups.ends))


def merged(sums: pl.Series, groups: Groups) -> pl.Series:
    """The sum of each group of sums."""
    return _column(*_merged(*_stored(sums), groups.starts, groups.ends))


def rounded(sums: pl.Series) -> "tuple[Floats, Floats]":
    """Each sum as the float that is nearest to it, and what that differs from it."""
    return _rounded(*_stored(sums))


@compiled
def _add(digits: "Int64s", bits: int, sign: int) -> None:
    """Add a float that is not special, given by its bits."""
    exponent = (bits >> 52) & _SPECIAL
    fraction = bits & _FRACTION
    place = 0
    if exponent:
        fraction |= _LEADING
        place = exponent - 1
    if bits < 0:
        sign = -sign
    digit, shift = place >> 5, place & 31
    low = (fraction & _LOW) << shift
    high = (fraction >> _BITS) << shift
    digits[digit] += sign * (low & _LOW)
    digits[digit + 1] += sign * (((low >> _BITS) & _LOW) + (high & _LOW))
    digits[digit + 2] += sign * (high >> _BITS)


@compiled
def _carry(digits: "Int64s") -> int:
    """Bring all digits into their range and to one sign, which is returned."""
    carry = 0
    for place in range(_DIGITS):
        digit = digits[place] + carry
        carry = digit >> _BITS
        digits[place] = digit & _LOW
    if carry >= 0:
        return 1
    # The digits are those of the sum plus a power of two that is in no digit: count down from it.
    carry = 1
    for place in range(_DIGITS):
        digit = (_LOW - digits[place]) + carry
        carry = digit >> _BITS
        digits[place] = digit & _LOW
    return -1


@compiled
def _count_special(header: "Int64s", bits: int, sign: int) -> bool:
    """Count a float that is no number; False if it is one."""
    if (bits >> 52) & _SPECIAL != _SPECIAL:
        return False
    if bits & _FRACTION:
        header[0] += sign
    elif bits > 0:
        header[1] += sign
    else:
        header[2] += sign
    return True


@compiled
def _store(header: "Int64s", digits: "Int64s", data: "Int64s", at: int) -> "tuple[Int64s, int]":
    """Append a sum to the data, which grows if it has to; and where the next one begins."""
    sign = _carry(digits)
    first, end = 0, _DIGITS
    while end > 0 and digits[end - 1] == 0:
        end -= 1
    while first < end and digits[first] == 0:
        first += 1
    needed = at + _HEADER + end - first
    if needed > len(data):
        larger = np.empty(max(needed, 2 * len(data)), np.int64)
        larger[:at] = data[:at]
        data = larger
    data[at], data[at + 1], data[at + 2], data[at + 3] = header[0], header[1], header[2], first
    for place in range(first, end):
        data[at + _HEADER + place - first] = sign * digits[place]
    header[:] = 0
    digits[:] = 0
    return data, needed


@compiled
def _accumulated(
    bits: "Int64s", signs: "Int64s", starts: "Int64s", ends: "Int64s"
) -> "tuple[Int64s, Int64s]":
    offsets = np.zeros(len(starts) + 1, np.int64)
    data = np.empty(len(starts) * (_HEADER + 4), np.int64)
    header, digits = np.zeros(_HEADER, np.int64), np.zeros(_DIGITS, np.int64)
    at = 0
    for group in range(len(starts)):
        for row in range(starts[group], ends[group]):
            if not _count_special(header, bits[row], signs[row]):
                _add(digits, bits[row], signs[row])
        data, at = _store(header, digits, data, at)
        offsets[group + 1] = at
    return data[:at], offsets


@compiled
def _merged(
    sums: "Int64s", places: "Int64s", starts: "Int64s", ends: "Int64s"
) -> "tuple[Int64s, Int64s]":
    offsets = np.zeros(len(starts) + 1, np.int64)
    data = np.empty(len(starts) * (_HEADER + 4), np.int64)
    header, digits = np.zeros(_HEADER, np.int64), np.zeros(_DIGITS, np.int64)
    at = 0
    for group in range(len(starts)):
        for row in range(starts[group], ends[group]):
            begin = places[row]
            for number in range(_HEADER - 1):
                header[number] += sums[begin + number]
            first = sums[begin + _HEADER - 1]
            for number in range(places[row + 1] - begin - _HEADER):
                digits[first + number] += sums[begin + _HEADER + number]
        data, at = _store(header, digits, data, at)
        offsets[group + 1] = at
    return data[:at], offsets


@compiled
def _nearest(digits: "Int64s") -> float:
    """The float that is nearest to a number of digits in their range; of two the even one."""
    top = _DIGITS - 1
    while top >= 0 and digits[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    length = 0
    while digits[top] >> length:
        length += 1
    # The highest 53 bits are in the top digit and the two below it.
    second = digits[top - 1] if top >= 1 else 0
    third = digits[top - 2] if top >= 2 else 0
    wanted = 53 - length
    if wanted >= _BITS:
        taken = wanted - _BITS
        fraction = (digits[top] << wanted) | (second << taken) | (third >> (_BITS - taken))
        dropped = _BITS - taken
        rest = third & ((1 << dropped) - 1)
        lower = top - 3
    else:
        dropped = _BITS - wanted
        fraction = (digits[top] << wanted) | (second >> dropped)
        rest = second & ((1 << dropped) - 1)
        lower = top - 2
    half = 1 << (dropped - 1)
    up = rest > half
    if rest == half:
        up = (fraction & 1) == 1
        for place in range(lower + 1):
            if digits[place]:
                up = True
    if up:
        fraction += 1
    power = top * _BITS + length - 53 - _BIAS
    if power > 971:
        return np.inf
    if power < -_BIAS:
        # A float that has fewer bits, all of which are there: what was taken beyond is zero.
        return float(fraction >> (-_BIAS - power)) * _LEAST
    return float(fraction) * 2.0 ** (power // 2) * 2.0 ** (power - power // 2)


@compiled
def _rounded(sums: "Int64s", places: "Int64s") -> "tuple[Floats, Floats]":
    highs, lows = np.zeros(len(places) - 1), np.zeros(len(places) - 1)
    digits = np.zeros(_DIGITS, np.int64)
    converted = np.zeros(1)
    for row in range(len(places) - 1):
        begin = places[row]
        if sums[begin] > 0 or (sums[begin + 1] > 0 and sums[begin + 2] > 0):
            highs[row] = np.nan
            continue
        if sums[begin + 1] > 0 or sums[begin + 2] > 0:
            highs[row] = np.inf if sums[begin + 1] > 0 else -np.inf
            continue
        first = sums[begin + _HEADER - 1]
        digits[:] = 0
        for number in range(places[row + 1] - begin - _HEADER):
            digits[first + number] = sums[begin + _HEADER + number]
        sign = _carry(digits)
        highs[row] = sign * _nearest(digits)
        if np.isinf(highs[row]):
            continue
        if sign < 0:
            for place in range(_DIGITS):
                digits[place] = -digits[place]
        converted[0] = highs[row]
        _add(digits, converted.view(np.int64)[0], -1)
        sign = _carry(digits)
        lows[row] = sign * _nearest(digits)
    return highs, lows


def _stored(sums: pl.Series) -> "tuple[Int64s, Int64s]":
    """All numbers of a column of sums, and where each begins; one more for the end."""
    array: Any = sums.to_arrow()
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    values = array.values.to_numpy(zero_copy_only=False)
    return read_only(values), read_only(offsets)


def _column(data: "Int64s", offsets: "Int64s") -> pl.Series:
    array = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(data))
    series = pl.from_arrow(array)
    assert isinstance(series, pl.Series)
    return series
