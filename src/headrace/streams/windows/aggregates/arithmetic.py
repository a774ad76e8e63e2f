"""Sums of floats that do not depend on the order of the numbers, in twice the usual precision.

Floats are not associative: a sum over two batches differs in its last digits from the same sum over
one, and a result that is computed again would differ from the one it replaces. So a sum is kept as
two floats, the total and what rounding has lost (Dekker, Knuth). Its relative error is about 2^-104
of the sum of the magnitudes, and what is left after rounding to one float is the same in any order
unless numbers cancel each other over more than fifty bits.
"""

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.records.kernels.compiled import compiled

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s

Floats: TypeAlias = npt.NDArray[np.float64]

_SPLITTER = 134217729.0
"""2^27 + 1, which cuts a float in two halves (Veltkamp)."""


@compiled
def _add(high: float, low: float, value: float, rest: float) -> tuple[float, float]:
    """Add two numbers of two floats each."""
    total = high + value
    if not np.isfinite(total):
        return total, 0.0
    part = total - high
    lost = (high - (total - part)) + (value - part)
    lost += low + rest
    high = total + lost
    return high, lost - (high - total)


@compiled
def _multiply(one: float, other: float) -> tuple[float, float]:
    """The exact product of two floats, as two."""
    product = one * other
    if not np.isfinite(product) or abs(one) > 1e290 or abs(other) > 1e290:
        return product, 0.0
    shifted = _SPLITTER * one
    one_high = shifted - (shifted - one)
    one_low = one - one_high
    shifted = _SPLITTER * other
    other_high = shifted - (shifted - other)
    other_low = other - other_high
    rest = one_high * other_high - product + one_high * other_low + one_low * other_high
    return product, rest + one_low * other_low


@compiled
def sum_pairs(
    values: Floats, rests: Floats, starts: "Int64s", ends: "Int64s"
) -> tuple[Floats, Floats]:
    """The sum of each stretch, of numbers of two floats each; without `rests`, of one each."""
    highs = np.empty(len(starts), np.float64)
    lows = np.empty(len(starts), np.float64)
    single = len(rests) == 0
    for group in range(len(starts)):
        high, low = 0.0, 0.0
        for row in range(starts[group], ends[group]):
            high, low = _add(high, low, values[row], 0.0 if single else rests[row])
        highs[group], lows[group] = high, low
    return highs, lows


@compiled
def sum_squares(values: Floats, starts: "Int64s", ends: "Int64s") -> tuple[Floats, Floats]:
    """The sum of the squares of each stretch."""
    highs = np.empty(len(starts), np.float64)
    lows = np.empty(len(starts), np.float64)
    for group in range(len(starts)):
        high, low = 0.0, 0.0
        for row in range(starts[group], ends[group]):
            square, rest = _multiply(values[row], values[row])
            high, low = _add(high, low, square, rest)
        highs[group], lows[group] = high, low
    return highs, lows


@compiled
def squared_deviations(
    counts: "Int64s", sums: Floats, sum_rests: Floats, squares: Floats, square_rests: Floats
) -> Floats:
    """The sum of the squared distances from the mean: squares - sums^2 / counts."""
    found = np.empty(len(counts), np.float64)
    for group in range(len(counts)):
        if counts[group] == 0:
            found[group] = np.nan
            continue
        count = float(counts[group])
        high, low = _multiply(sums[group], sums[group])
        low += 2.0 * sums[group] * sum_rests[group]
        quotient = high / count
        product, rest = _multiply(quotient, count)
        quotient_rest = (high - product - rest + low) / count
        high, low = _add(squares[group], square_rests[group], -quotient, -quotient_rest)
        found[group] = max(high, 0.0) if not np.isnan(high) else high
    return found
