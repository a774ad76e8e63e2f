"""Aggregates that keep values themselves: lists, sets, exact distinct counts, the most frequent.

What is kept grows with the values, but for `TopK`, which has a limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.streams.windows.aggregates.errors import InvalidAggregate
from headrace.streams.windows.aggregates.protocol import Aggregate, Windows
from headrace.streams.windows.groups import Groups


@dataclass(frozen=True)
class CollectSet(Aggregate):
    """The distinct values, sorted; nulls are left out."""

    def columns(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The values."""
        return (pa.list_(flat(arguments[0], self)),)

    def result_type(self, arguments: Sequence[Any]) -> Any:
        """A list."""
        return pa.list_(arguments[0])

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Collect values."""
        return groups.combined(arguments, pl.col("0").drop_nulls().unique().sort().implode())

    def merge(self, columns: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Unite sets."""
        values = pl.col("0").explode().drop_nulls()
        return groups.combined(columns, values.unique().sort().implode())

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The set."""
        return columns[0]


@dataclass(frozen=True)
class CountDistinct(CollectSet):
    """How many distinct values there are, exactly; nulls are left out."""

    def result_type(self, arguments: Sequence[Any]) -> Any:
        """A 64-bit integer."""
        return pa.int64()

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The size of the set."""
        return columns[0].list.len().cast(pl.Int64)


@dataclass(frozen=True)
class CollectList(Aggregate):
    """All values in the order of event time, those of one moment sorted; nulls are left out."""

    needs_time: ClassVar[bool] = True

    def columns(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The values and their times."""
        return pa.list_(flat(arguments[0], self)), pa.list_(pa.int64())

    def result_type(self, arguments: Sequence[Any]) -> Any:
        """A list."""
        return pa.list_(arguments[0])

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Collect values."""
        told = pl.col("0").is_not_null()
        return _in_order(groups, arguments, pl.col("0").filter(told), pl.col("1").filter(told))

    def merge(self, columns: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Merge lists."""
        present = columns[0].list.len() > 0
        told, having = groups.within(present.to_numpy())
        lists = [each.filter(present) for each in columns]
        merged = _in_order(told, lists, pl.col("0").explode(), pl.col("1").explode())
        return tuple(_scattered(each, having, len(groups)) for each in merged)

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The list."""
        return columns[0]


@dataclass(frozen=True)
class TopK(Aggregate):
    """The most frequent values with their counts, the greatest count first.

    Up to `capacity` distinct values per group are counted, and while there are not more of them the
    counts are exact. Beyond that it is a Misra-Gries summary: every count is too low by at most
    n / (capacity + 1) of n events, and each value that is more frequent than that is there. How
    much too low they can be is told as `error`, zero if they are exact.
    """

    count: int
    capacity: int

    def columns(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The values, their counts, and how much was taken from each."""
        kind = flat(arguments[0], self)
        return pa.list_(kind), pa.list_(pa.int64()), pa.int64()

    def result_type(self, arguments: Sequence[Any]) -> Any:
        """A list of structs with value, count and error."""
        kind = [("value", arguments[0]), ("count", pa.int64()), ("error", pa.int64())]
        return pa.list_(pa.struct(kind))

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Count values."""
        ones = pl.Series(np.ones(groups.rows, np.int64))
        return self._summed(groups.numbers, arguments[0], ones, np.zeros(len(groups), np.int64))

    def merge(self, columns: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Add counts."""
        lengths = columns[0].list.len().to_numpy()
        numbers = np.repeat(groups.numbers, lengths)
        lost = np.add.reduceat(columns[2].to_numpy(), groups.starts) if len(groups) else _NONE
        values, counts = (each.filter(lengths > 0).explode() for each in columns[:2])
        return self._summed(numbers, values, counts, lost)

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The most frequent of them."""
        values, counts, lost = columns
        rows = pl.DataFrame(
            {
                "row": np.arange(len(values)),
                "value": values.list.head(self.count),
                "count": counts.list.head(self.count),
                "error": lost,
            }
        ).filter(pl.col("value").list.len() > 0)
        told = rows.explode("value", "count").select(
            "row", entry=pl.struct("value", "count", "error")
        )
        lists = told.group_by("row", maintain_order=True).agg("entry")
        return _scattered(lists["entry"], lists["row"].to_numpy(), len(values))

    def _summed(
        self, numbers: Any, values: pl.Series, counts: pl.Series, lost: Any
    ) -> Sequence[pl.Series]:
        flat_rows = pl.DataFrame(
            [pl.Series("group", numbers), values.alias("value"), counts.alias("count")]
        ).filter(pl.col("value").is_not_null())
        counted = flat_rows.group_by("group", "value", maintain_order=True).agg(
            pl.col("count").sum()
        )
        counted = counted.sort(["group", "count", "value"], descending=[False, True, False])
        sizes = np.bincount(counted["group"].to_numpy(), minlength=len(lost))
        if (full := np.flatnonzero(sizes > self.capacity)).size:
            begins = np.cumsum(sizes) - sizes
            taken = np.zeros(len(lost), np.int64)
            taken[full] = counted["count"].to_numpy()[begins[full] + self.capacity]
            lost = lost + taken
            less = counted["count"] - pl.Series(taken[counted["group"].to_numpy()])
            counted = counted.with_columns(count=less).filter(pl.col("count") > 0)
        lists = counted.group_by("group", maintain_order=True).agg("value", "count")
        places = lists["group"].to_numpy()
        return (
            _scattered(lists["value"], places, len(lost)),
            _scattered(lists["count"], places, len(lost)),
            pl.Series(lost),
        )


_NONE = np.empty(0, np.int64)


def flat(kind: Any, aggregate: Aggregate) -> Any:
    """The type, if its values can be told apart and sorted; InvalidAggregate for nested ones."""
    if pa.types.is_nested(kind):
        raise InvalidAggregate(
            f"{type(aggregate).__name__} compares values, and this column is {kind}; take one of "
            "its parts, or to_json() of it."
        )
    return kind


def _in_order(
    groups: Groups, columns: Sequence[pl.Series], values: pl.Expr, times: pl.Expr
) -> Sequence[pl.Series]:
    order = pl.struct(times.alias("time"), values.alias("value")).arg_sort()
    return groups.combined(columns, values.gather(order).implode(), times.gather(order).implode())


def _scattered(lists: pl.Series, places: Any, length: int) -> pl.Series:
    """The lists at their places among empty ones."""
    if len(lists) == length:
        return lists
    rows = pl.DataFrame({"place": np.arange(length)}, schema={"place": pl.Int64})
    placed = pl.DataFrame({"place": pl.Series(places).cast(pl.Int64), "list": lists})
    joined = rows.join(placed, on="place", how="left", maintain_order="left")["list"]
    return joined.fill_null(pl.Series([[]], dtype=lists.dtype))
