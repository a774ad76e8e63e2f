"""The least, the greatest, and what was said at the first or the last moment.

Nulls are left out. As in Spark, NaN is greater than every other float.
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
class Extreme(Aggregate):
    """The least or the greatest value."""

    greatest: bool

    def columns(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The value."""
        return (_ordered(arguments[0], "max" if self.greatest else "min"),)

    def result_type(self, arguments: Sequence[Any]) -> Any:
        """That of the argument."""
        return arguments[0]

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Compare values."""
        values = pl.col("0")
        if not self.greatest:
            return groups.combined(arguments[:1], values.min())
        floats = arguments[0].dtype.is_float()
        return groups.combined(arguments[:1], values.nan_max() if floats else values.max())

    def merge(self, columns: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Compare again."""
        return self.partial(columns, groups)

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The value; null if there was none."""
        return columns[0]


@dataclass(frozen=True)
class ExtremeBy(Aggregate):
    """The value of the event in which another one, the second argument, is least or greatest.

    Of several such events that with the least or greatest value is taken, so that the result does
    not depend on the order in which they came. Events in which either is null are left out.
    """

    greatest: bool

    def columns(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The value and what it was chosen by."""
        name = "max_by" if self.greatest else "min_by"
        return _ordered(arguments[0], name), _ordered(arguments[1], name)

    def result_type(self, arguments: Sequence[Any]) -> Any:
        """That of the first argument."""
        return arguments[0]

    def partial(self, arguments: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Choose events."""
        values, by = arguments[0].alias("value"), arguments[1].alias("by")
        number = pl.Series("group", groups.numbers)
        told = pl.DataFrame([number, by, values]).filter(
            pl.col("by").is_not_null() & pl.col("value").is_not_null()
        )
        order = ["group", "by", "value"]
        descending = [False, self.greatest, self.greatest]
        chosen = told.sort(order, descending=descending).unique(
            "group", keep="first", maintain_order=True
        )
        every = pl.DataFrame({"group": np.arange(len(groups))})
        found = every.join(chosen, on="group", how="left", maintain_order="left")
        return found["value"], found["by"]

    def merge(self, columns: Sequence[pl.Series], groups: Groups) -> Sequence[pl.Series]:
        """Choose among what was chosen."""
        return self.partial(columns, groups)

    def result(self, columns: Sequence[pl.Series], windows: Windows) -> pl.Series:
        """The value; null if there was none."""
        return columns[0]


@dataclass(frozen=True)
class AtTime(ExtremeBy):
    """The first or the last value by event time."""

    needs_time: ClassVar[bool] = True


def _ordered(kind: Any, name: str) -> Any:
    if pa.types.is_nested(kind):
        raise InvalidAggregate(
            f"{name} compares values, and this column is {kind}; compare one of its parts."
        )
    return kind
