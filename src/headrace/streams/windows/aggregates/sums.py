"""Counts, totals, averages, rates and deviations.

Whole numbers are summed exactly: a total is kept as two 64-bit halves and refused, not wrapped,
when the result does not fit. Decimals are summed as decimals. Floats are summed in twice their
precision (`arithmetic`). Nulls are left out; of no values the sum is null, as in SQL.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.streams.windows.aggregates.arithmetic import (
    squared_deviations,
    sum_pairs,
    sum_squares,
)
from headrace.streams.windows.aggregates.errors import AggregateOverflow, InvalidAggregate
from headrace.streams.windows.aggregates.protocol import Aggregate, Windows
from headrace.streams.windows.durations import SECOND
from headrace.streams.windows.groups import Groups, read_only

_NO_RESTS: Final = read_only(np.empty(0, np.float64))
_HALF: Final = 1 << 32
_DIGITS: Final = 38
"""The most digits that a decimal of Spark or Arrow has."""


@dataclass(frozen=True)
class Count(Aggregate):
    """How many events there are; with an argument, in how many it is not null."""

    def columns(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """One number."""
        return (pa.int64(),)

    def result_type(self, arguments: Sequence[Any]) -> Any:
        """A 64-bit integer."""
        return pa.int64()

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Count events."""
        if not arguments or not arguments[0].null_count():
            return (pl.Series(groups.sizes),)
        return (_sums(arguments[0].is_not_null().to_numpy(), groups),)

    def merge(self, columns: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Add counts."""
        return (_sums(columns[0].to_numpy(), groups),)

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The count."""
        return columns[0]


@dataclass(frozen=True)
class Sum(Aggregate):
    """The total of whole numbers, decimals or floats."""

    def columns(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """How many there are, and the total in two columns, or one for decimals."""
        return (pa.int64(), *_total_types(arguments[0], self))

    def result_type(self, arguments: Sequence[Any]) -> Any:
        """As in Spark: a 64-bit integer, a float, or a decimal with ten more digits."""
        kind = arguments[0]
        if pa.types.is_decimal(kind):
            return pa.decimal128(min(kind.precision + 10, _DIGITS), kind.scale)
        return pa.int64() if pa.types.is_integer(kind) else pa.float64()

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Add values."""
        return (*Count().partial(arguments, groups), *_totals(arguments[0], groups))

    def merge(self, columns: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Add totals."""
        return (*Count().merge(columns, groups), *_merged_totals(columns[1:], groups))

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The total; null if there was no value, AggregateOverflow if it does not fit."""
        total = columns[1] if len(columns) == 2 or _is_float(columns) else _whole(columns[1:])
        return _where_any(columns[0], total)


@dataclass(frozen=True)
class Average(Sum):
    """The mean of whole numbers, decimals or floats."""

    def result_type(self, arguments: Sequence[Any]) -> Any:
        """As in Spark: a float, or a decimal with four more digits."""
        kind = arguments[0]
        if pa.types.is_decimal(kind):
            scale = min(kind.scale + 4, _DIGITS)
            return pa.decimal128(min(kind.precision + 4, _DIGITS), scale)
        return pa.float64()

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The mean; null if there was no value."""
        return _where_any(columns[0], _divided(columns, columns[0]))


@dataclass(frozen=True)
class Rate(Sum):
    """The total per second of the window; without an argument, events per second."""

    def columns(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """Those of a count or of a sum."""
        return super().columns(arguments) if arguments else (pa.int64(),)

    def result_type(self, arguments: Sequence[Any]) -> Any:
        """A float."""
        return pa.float64()

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Count or add."""
        if not arguments:
            return Count().partial(arguments, groups)
        return super().partial(arguments, groups)

    def merge(self, columns: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Add."""
        return (
            super().merge(columns, groups) if len(columns) > 1 else Count().merge(columns, groups)
        )

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The count or the total, per second."""
        seconds = pl.Series((windows.ends - windows.starts) / SECOND)
        if len(columns) == 1:
            return columns[0].cast(pl.Float64) / seconds
        return _where_any(columns[0], _float_total(columns) / seconds)


@dataclass(frozen=True)
class Deviation(Aggregate):
    """The variance of numbers or its square root, of a sample or of all there are."""

    root: bool = True
    sample: bool = True

    def columns(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """How many there are, their sum and that of their squares."""
        _total_types(arguments[0], self)
        return (pa.int64(), *[pa.float64()] * 4)

    def result_type(self, arguments: Sequence[Any]) -> Any:
        """A float."""
        return pa.float64()

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Add values and their squares."""
        values = _floats(arguments[0])
        sums = sum_pairs(values, _NO_RESTS, groups.starts, groups.ends)
        squares = sum_squares(values, groups.starts, groups.ends)
        return (*Count().partial(arguments, groups), *map(pl.Series, (*sums, *squares)))

    def merge(self, columns: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Add sums."""
        sums = _merged_totals(columns[1:3], groups)
        return (*Count().merge(columns, groups), *sums, *_merged_totals(columns[3:5], groups))

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The deviation; null of no value and, as a sample's, of a single one."""
        counts = read_only(columns[0].to_numpy())
        squares = squared_deviations(counts, *(read_only(each.to_numpy()) for each in columns[1:]))
        divisors = counts - int(self.sample)
        enough = pl.Series(divisors > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = squares / divisors
            found = np.sqrt(found) if self.root else found
        return _where(enough, pl.Series(found))


def _total_types(kind: Any, aggregate: Aggregate) -> Sequence[Any]:
    if pa.types.is_decimal(kind):
        return (pa.decimal128(_DIGITS, kind.scale),)
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return (pa.int64(), pa.int64())
    if pa.types.is_floating(kind):
        return (pa.float64(), pa.float64())
    name = type(aggregate).__name__.lower()
    raise InvalidAggregate(f"{name} is of numbers, and this column is {kind}; cast it to one.")


def _totals(values: pl.Series, groups: Groups) -> Sequence[pl.Series]:
    if values.dtype.is_decimal():
        return _decimal_totals(values, groups)
    if values.dtype.is_float():
        return tuple(
            map(pl.Series, sum_pairs(_floats(values), _NO_RESTS, groups.starts, groups.ends))
        )
    numbers = values.cast(pl.Int64).fill_null(0).to_numpy()
    return _carried(_reduced(numbers >> 32, groups), _reduced(numbers & (_HALF - 1), groups))


def _merged_totals(columns: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
    if len(columns) == 1:
        return _decimal_totals(columns[0], groups)
    first, second = (read_only(each.to_numpy()) for each in columns)
    if columns[0].dtype == pl.Float64:
        return tuple(map(pl.Series, sum_pairs(first, second, groups.starts, groups.ends)))
    return _carried(_reduced(first, groups), _reduced(second, groups))


def _decimal_totals(values: pl.Series, groups: Groups) -> Sequence[pl.Series]:
    scale = getattr(values.dtype, "scale", 0)
    wide = values.cast(pl.Decimal(_DIGITS, scale)).fill_null(0)
    try:
        (total,) = groups.combined([wide], pl.col("0").sum())
    except pl.exceptions.PolarsError as error:
        raise AggregateOverflow(
            f"A sum of decimals has more than {_DIGITS} digits; cast the values to double."
        ) from error
    return (total.cast(pl.Decimal(_DIGITS, scale)),)


def _floats(values: pl.Series) -> Any:
    return read_only(values.cast(pl.Float64).fill_null(0.0).to_numpy())


def _carried(high: Any, low: Any) -> Sequence[pl.Series]:
    """A total of two halves: the lower one from 0 up to 2^32, the upper one with the rest."""
    return pl.Series(high + (low >> 32)), pl.Series(low & (_HALF - 1))


def _whole(halves: Sequence[pl.Series]) -> pl.Series:
    high, low = (each.to_numpy() for each in halves)
    if ((high >= _HALF // 2) | (high < -_HALF // 2)).any():
        raise AggregateOverflow(
            "A sum of whole numbers does not fit into 64 bits; cast the values to decimal(38, 0) "
            "or to double before they are summed."
        )
    return pl.Series((high << 32) + low)


def _is_float(columns: Sequence[pl.Series]) -> bool:
    return columns[1].dtype == pl.Float64


def _float_total(columns: Sequence[pl.Series]) -> pl.Series:
    if len(columns) == 2 or _is_float(columns):
        return columns[1].cast(pl.Float64)
    return columns[1].cast(pl.Float64) * float(_HALF) + columns[2].cast(pl.Float64)


def _divided(columns: Sequence[pl.Series], counts: pl.Series) -> pl.Series:
    divisors = counts.clip(1)
    if len(columns) == 2:
        scale = min(getattr(columns[1].dtype, "scale", 0) + 4, _DIGITS)
        wide = columns[1].cast(pl.Decimal(_DIGITS, scale))
        return wide / divisors.cast(pl.Decimal(_DIGITS, 0))
    return _float_total(columns) / divisors.cast(pl.Float64)


def _reduced(values: Any, groups: Groups) -> Any:
    if not len(groups):
        return np.empty(0, np.int64)
    return np.add.reduceat(values, groups.starts, dtype=np.int64)


def _sums(values: Any, groups: Groups) -> pl.Series:
    return pl.Series(_reduced(values, groups))


def _where_any(counts: pl.Series, values: pl.Series) -> pl.Series:
    return _where(counts > 0, values)


def _where(mask: pl.Series, values: pl.Series) -> pl.Series:
    if mask.all():
        return values
    return values.zip_with(mask, pl.Series([None], dtype=values.dtype).new_from_index(0, len(mask)))
