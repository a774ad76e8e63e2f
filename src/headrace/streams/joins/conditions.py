"""Conditions beside the equality of keys: SQL about one pair, in the names of the result."""

import re
from typing import Any, Final

import polars as pl

from headrace.streams.errors import InvalidFlow, UnknownColumn
from headrace.streams.names import did_you_mean
from headrace.streams.state.blobs import to_polars

_QUOTED: Final = re.compile(r'"[^"]*"')
_AGGREGATES: Final = re.compile(
    r"\blen\(\)|\.(over|max|min|sum|mean|median|count|first|last|std|var|n_unique|quantile|rank|shift"
    r"|implode|arg_max|arg_min|product|mode|approx_n_unique|cum_\w+|rolling_\w+)\("
)
"""How Polars writes what is computed of several rows; it has no better way to ask."""


class Condition:
    """A condition that is checked when it is described, and then computed of many pairs."""

    def __init__(self, text: str, schema: Any) -> None:
        """Take SQL that Polars understands, and the Arrow schema of the result.

        Raises UnknownColumn for a column that the result does not have, and InvalidFlow for what
        is no condition about one pair.
        """
        self.text = text
        try:
            self._expression = pl.sql_expr(text)
        except pl.exceptions.PolarsError as error:
            raise InvalidFlow(f"join: the condition {text!r} is no SQL: {error}") from None
        self.columns = tuple(dict.fromkeys(self._expression.meta.root_names()))
        """Those that it is about."""
        for name in self.columns:
            if name not in schema.names:
                raise UnknownColumn(
                    f"join: the condition {text!r} is about {name}, which the result does not "
                    f"have; {did_you_mean(name, schema.names)}"
                )
        try:
            found = self._computed(to_polars(schema.empty_table()))
        except pl.exceptions.PolarsError as error:
            raise InvalidFlow(f"join: the condition {text!r} makes no sense: {error}") from None
        if found.dtype != pl.Boolean:
            raise InvalidFlow(
                f"join: the condition {text!r} is {found.dtype}; it must be true or false."
            )
        if not self.columns or _AGGREGATES.search(_QUOTED.sub("", str(self._expression))):
            raise InvalidFlow(
                f"join: the condition {text!r} is not about one pair of events: it must name a "
                "column, and can have no aggregates."
            )

    def holds(self, pairs: pl.DataFrame) -> pl.Series:
        """For which pairs it is true; null is not."""
        return self._computed(pairs).fill_null(value=False)

    def _computed(self, pairs: pl.DataFrame) -> pl.Series:
        return pairs.select(self._expression.alias("holds")).to_series()
