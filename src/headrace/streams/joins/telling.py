"""What a join tells beside its results: events that it could not join, and how many those were."""

from collections.abc import Mapping
from typing import Any, Final

import polars as pl
import pyarrow as pa

from headrace.streams.joins.progress import Moment
from headrace.streams.windows.layout import MOMENT, REASON, WATERMARK

REASONS: Final = (pa.field(REASON, pa.string()), pa.field(WATERMARK, MOMENT))
COUNTS: Final[Any] = pa.schema([*REASONS, pa.field("rows", pa.int64())])
"""The schema of `counts`, which is the same for all operators."""


def counted(counts: Mapping[str, int], moment: Moment) -> pl.DataFrame:
    """How many events there were, by reason; only what there was."""
    there = {reason: rows for reason, rows in counts.items() if rows}
    rows = pl.DataFrame({"rows": list(there.values())}, {"rows": pl.Int64})
    return rows.with_columns(pl.Series(REASON, list(there), pl.String), *_at(moment))


def with_reason(rows: pl.DataFrame, reason: str, moment: Moment) -> pl.DataFrame:
    """Events with the reason why they are not joined, and how far time had come."""
    return rows.with_columns(pl.lit(reason).alias(REASON), *_at(moment))


def _at(moment: Moment) -> list[pl.Expr]:
    reached = pl.lit(moment.before, pl.Datetime("us")).dt.replace_time_zone("UTC")
    return [reached.alias(WATERMARK)]
