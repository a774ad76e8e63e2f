"""What a batch changes in a table: rows that were, and rows that are.

Operators tell each other net changes. Formally, with T the table before a batch and T' after it,
what is told is T - T' as `delete` or `update_before`, and T' - T as `insert` or `update_after`: of
each key at most one row that was and one that is, and neither if they are the same. Intuitively: a
row that is changed three times in a batch is told once, and one that is changed back not at all.

So the order of changes matters only to somebody who applies them one after the other. A row that
moves from one bucket to another is gone in the one and new in the other; an operator that reads
both, from wherever and in whatever order, knows what it was and what it is. A filter or a
projection of such changes are such changes, but for the words that they are told with.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.streams.errors import UnknownColumn
from headrace.streams.names import did_you_mean
from headrace.streams.plan import CHANGE, DELETED, HIDDEN
from headrace.streams.windows.layout import MOMENT, REASON, WATERMARK

CHANGES: Final = "changes"
"""The name under which operators with one input are given the changes of a table."""

_WAS: Final = ("update_before", "delete")
_COUNTS: Final = pa.schema(
    [pa.field(REASON, pa.string()), pa.field(WATERMARK, MOMENT), pa.field("rows", pa.int64())]
)
_AT: Final = "_at"


@dataclass(frozen=True, slots=True)
class Difference:
    """How a table differs from what it was; all frames have the table's columns."""

    deleted: pl.DataFrame
    inserted: pl.DataFrame
    before: pl.DataFrame
    """Rows that have changed, as they were."""

    after: pl.DataFrame
    """The same rows in the same order, as they are."""

    @property
    def was(self) -> pl.DataFrame:
        """All rows that are not any more as they were."""
        return pl.concat([self.deleted, self.before])

    @property
    def now(self) -> pl.DataFrame:
        """All rows that were not yet as they are."""
        return pl.concat([self.inserted, self.after])

    def told(self) -> pl.DataFrame:
        """The changes in an order in which they can be applied: deletions, insertions, updates."""
        parts = [
            (self.deleted, "delete"),
            (self.inserted, "insert"),
            (self.before, "update_before"),
            (self.after, "update_after"),
        ]
        return pl.concat(
            [rows.with_columns(pl.lit(change).alias(CHANGE)) for rows, change in parts]
        )


def difference(was: pl.DataFrame, now: pl.DataFrame, key: Sequence[str]) -> Difference:
    """How rows differ from those that were; in both, a key is there at most once.

    Null is a key like others, and null and null are the same value, as are NaN and NaN.
    """
    if not was.height or not now.height:
        return Difference(was, now, was.clear(), now.clear())
    places = (
        now.select(key)
        .join(
            was.select(key).with_row_index(_AT),
            on=list(key),
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        .get_column(_AT)
    )
    known = places.is_not_null()
    still = places.drop_nulls()
    before, after = was[still], now.filter(known)
    changed = _different(before, after, [each for each in now.columns if each not in key])
    gone = np.ones(was.height, np.bool_)
    gone[still.to_numpy()] = False
    return Difference(
        was.filter(gone), now.filter(~known), before.filter(changed), after.filter(changed)
    )


def was_and_is(changes: pl.DataFrame, columns: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows that were, and the rows that are, of changes with the column `_change`."""
    return (
        changes.filter(is_gone()).select(columns),
        changes.filter(~is_gone()).select(columns),
    )


def is_gone() -> pl.Expr:
    """Whether a change with the column `_change` tells what a row was, not what it is."""
    return pl.col(CHANGE).is_in(_WAS)


def last_of_each(upserts: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """The last change of each key, in the order of these."""
    return upserts.unique(list(key), keep="last", maintain_order=True)


def there(upserts: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The rows that are, of changes with the column `_deleted`."""
    return upserts.filter(~pl.col(DELETED).fill_null(False)).select(columns)


def rows_of(schema: Any) -> Any:
    """The schema of a table's rows, without the columns that tell what becomes of them."""
    marks = (DELETED, CHANGE, *HIDDEN)
    return pa.schema([each.with_nullable(True) for each in schema if each.name not in marks])


def require(names: Sequence[str], schema: Any, operator: str) -> None:
    """Raise UnknownColumn for a name that is no column of a table's rows."""
    for name in names:
        if name not in schema.names:
            raise UnknownColumn(
                f"{operator}: the table has no column {name}; {did_you_mean(name, schema.names)}"
            )


def outputs(rows: Any) -> dict[str, Any]:
    """The outputs of a table's operator: `main`, its changes, and `counts`, which stays empty."""
    return {"main": rows.append(pa.field(CHANGE, pa.string())), "counts": _COUNTS}


def said(changes: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """What an operator returns that tells these changes."""
    return {"main": changes} if changes.height else {}


def _different(before: pl.DataFrame, after: pl.DataFrame, columns: Sequence[str]) -> pl.Series:
    """Which rows differ in any of these columns."""
    found = pl.zeros(before.height, pl.Boolean, eager=True)
    for each in columns:
        found |= before[each].ne_missing(after[each])
    return found
