"""Rows of many keys, each key's in the order of time, and stretches of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from headrace.streams.windows.groups import grouped
from headrace.streams.windows.intake import AT

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s

_NUMBER: Final = "_window_number"


class Timeline:
    """Rows sorted by key and time."""

    def __init__(self, rows: pl.DataFrame, keys: Sequence[str]) -> None:
        """Take rows with the keys and a time."""
        self._keys = list(keys)
        groups = grouped(rows, self._keys)
        numbers = groups.numbers
        arranged = rows if groups.order is None else rows[groups.order]
        order = np.lexsort((arranged[AT].to_numpy(), numbers))
        self.rows = arranged[order]
        self.numbers = numbers[order]
        """The number of each row's key."""
        self._times, ranks = np.unique(self.rows[AT].to_numpy(), return_inverse=True)
        self._places = self.numbers * (len(self._times) + 1) + ranks
        self._known = groups.first(rows.select(self._keys)).with_columns(
            pl.Series(_NUMBER, np.arange(len(groups)))
        )

    def between(self, asked: pl.DataFrame, after: int, until: int) -> "tuple[Int64s, Int64s]":
        """The stretch of each asked key's rows from its time + `after` to its time + `until`."""
        numbers = asked.select(self._keys).join(
            self._known, on=self._keys, how="left", nulls_equal=True, maintain_order="left"
        )[_NUMBER]
        times = asked[AT].to_numpy()
        first = numbers.to_numpy() * (len(self._times) + 1)
        low = first + np.searchsorted(self._times, times + after, "left")
        high = first + np.searchsorted(self._times, times + until, "right")
        return np.searchsorted(self._places, low), np.searchsorted(self._places, high)

    def covered(self, begins: "Int64s", ends: "Int64s") -> pl.DataFrame:
        """The rows that are in any of these stretches."""
        change = np.zeros(self.rows.height + 1, np.int64)
        np.add.at(change, begins, 1)
        np.add.at(change, ends, -1)
        return self.rows.filter(np.cumsum(change[:-1]) > 0)
