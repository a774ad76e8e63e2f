"""Aggregates from which a row can be taken away again: counts, totals, averages and deviations.

They are those of windows, with one more argument, the sign: 1 for a row that is added, -1 for one
that is taken away. Whole numbers and decimals are exact anyhow; sums of floats are kept exactly
(`exact_sums`), and rounded once when they are told. So what is told depends on the rows that there
are and on nothing else: not on those that were there once, nor on the order in which they came.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.streams.tables.exact_sums import STORED, merged, rounded, summed
from headrace.streams.windows.aggregates.arithmetic import sum_squares
from headrace.streams.windows.aggregates.protocol import Aggregate, Windows
from headrace.streams.windows.aggregates.sums import Average, Count, Deviation, Sum
from headrace.streams.windows.groups import Groups, read_only

_HALF: Final = 32
_LOW: Final = (1 << _HALF) - 1


@dataclass(frozen=True)
class NetCount(Count):
    """How many rows there are; with an argument, in how many it is not null."""

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Count rows."""
        *values, signs = arguments
        if values and values[0].null_count():
            signs = signs * values[0].is_not_null().cast(pl.Int64)
        return groups.combined([signs], pl.col("0").sum())


@dataclass(frozen=True)
class NetSum(Sum):
    """The total of whole numbers or decimals."""

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Add values and take them away."""
        return _net_total(arguments, groups)


@dataclass(frozen=True)
class NetAverage(Average):
    """The mean of whole numbers or decimals."""

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Add values and take them away."""
        return _net_total(arguments, groups)


@dataclass(frozen=True)
class FloatSum(Sum):
    """The total of floats."""

    def columns(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """How many there are, and the total."""
        return (pa.int64(), STORED)

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Add values and take them away."""
        values, signs = arguments
        return (*NetCount().partial(arguments, groups), summed(values, signs, groups))

    def merge(self, columns: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Add totals."""
        return (*Count().merge(columns, groups), merged(columns[1], groups))

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The total; null if there is no value."""
        counts, totals = columns
        return _where_any(counts, rounded(totals)[0])


@dataclass(frozen=True)
class FloatAverage(FloatSum):
    """The mean of floats."""

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The mean; null if there is no value."""
        counts, totals = columns
        divisors = np.maximum(counts.to_numpy(), 1)
        return _where_any(counts, rounded(totals)[0] / divisors)


@dataclass(frozen=True)
class NetDeviation(Deviation):
    """The variance of numbers or its square root."""

    def columns(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """How many there are, their sum and that of their squares."""
        count, *_ = super().columns(arguments)
        return (count, STORED, STORED)

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Add values and their squares, and take them away."""
        values, signs = arguments
        floats = read_only(values.cast(pl.Float64).fill_null(0.0).to_numpy())
        each = read_only(np.arange(len(floats)))
        # A square is two floats, what it is and what rounding has lost: both are added.
        squares = pl.Series(np.column_stack(sum_squares(floats, each, each + 1)).ravel())
        twice = Groups(None, groups.starts * 2, groups.rows * 2)
        return (
            *NetCount().partial(arguments, groups),
            summed(values, signs, groups),
            summed(squares, pl.Series(np.repeat(signs.to_numpy(), 2)), twice),
        )

    def merge(self, columns: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Add sums."""
        counts, sums, squares = columns
        return (*Count().merge([counts], groups), merged(sums, groups), merged(squares, groups))

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The deviation; null of no value and, as a sample's, of a single one."""
        counts, sums, squares = columns
        parts = (*rounded(sums), *rounded(squares))
        return super().result([counts, *map(pl.Series, parts)], windows)


def _sum(aggregate: Sum, kind: Any) -> Aggregate:
    return FloatSum() if pa.types.is_floating(kind) else NetSum()


def _average(aggregate: Average, kind: Any) -> Aggregate:
    return FloatAverage() if pa.types.is_floating(kind) else NetAverage()


def _deviation(aggregate: Deviation, kind: Any) -> Aggregate:
    return NetDeviation(aggregate.root, aggregate.sample)


NET: Final[Mapping[type[Aggregate], Callable[[Any, Any], Aggregate]]] = {
    Count: lambda aggregate, kind: NetCount(),
    Sum: _sum,
    Average: _average,
    Deviation: _deviation,
}
"""By the aggregates of windows, what follows rows that come and go; of an argument of a type."""


def _net_total(arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
    values, signs = arguments
    (counts,) = NetCount().partial(arguments, groups)
    if values.dtype.is_decimal():
        net = pl.select(pl.when(signs < 0).then(-values).otherwise(values)).to_series()
        return (counts, *Sum().partial([net], groups)[1:])
    numbers = values.cast(pl.Int64).fill_null(0).to_numpy()
    weights = signs.to_numpy()
    halves = [pl.Series((numbers >> _HALF) * weights), pl.Series((numbers & _LOW) * weights)]
    high, low = (
        each.to_numpy() for each in groups.combined(halves, pl.col("0").sum(), pl.col("1").sum())
    )
    return counts, pl.Series(high + (low >> _HALF)), pl.Series(low & _LOW)


def _where_any(counts: pl.Series, values: Any) -> pl.Series:
    return pl.select(pl.when(counts > 0).then(pl.Series(values))).to_series()
