"""What windows are, as one computation over all events at once, in Polars."""

from typing import Any

import polars as pl

from headrace.streams.windows.kinds import Aligned, Session, Sliding, Window


def table_of(kind: Window, events: pl.DataFrame, lateness: int = 0) -> list[tuple[Any, ...]]:
    """The table of counts and sums by window and key, in order.

    Events have a key `k`, a value `v`, a time `t`, and in `before` the watermark before they came,
    or null if there was none; those that were late for all their windows are left out before.
    """
    match kind:
        case Aligned():
            found = _aligned(kind, events, lateness)
        case Sliding():
            found = _sliding(kind, events)
        case Session():
            found = _sessions(kind, events)
    made = found.group_by("start", "end", "k").agg(n=pl.len(), total=pl.col("v").sum())
    return sorted(made.select("start", "end", "k", "n", "total").rows())


def _aligned(kind: Aligned, events: pl.DataFrame, lateness: int) -> pl.DataFrame:
    latest = pl.col("t") - pl.col("t") % kind.every
    starts = [latest - number * kind.every for number in range(-(-kind.size // kind.every))]
    windows = events.with_columns(start=pl.concat_list(starts)).explode("start")
    windows = windows.with_columns(end=pl.col("start") + kind.size).filter(
        pl.col("t") < pl.col("end")
    )
    # A straggler is in those of its windows that are still open.
    still_open = pl.col("end") + lateness > pl.col("before")
    return windows.filter(still_open.fill_null(True))


def _sliding(kind: Sliding, events: pl.DataFrame) -> pl.DataFrame:
    ends = events.select("k", end="t").unique()
    pairs = ends.join(events, on="k")
    inside = (pl.col("t") <= pl.col("end")) & (pl.col("t") > pl.col("end") - kind.size)
    return pairs.filter(inside).with_columns(start=pl.col("end") - kind.size)


def _sessions(kind: Session, events: pl.DataFrame) -> pl.DataFrame:
    begins = (pl.col("t").diff() > kind.gap).fill_null(False)
    numbered = events.sort("k", "t").with_columns(session=begins.cum_sum().over("k"))
    whole = ["k", "session"]
    return numbered.with_columns(
        start=pl.col("t").min().over(whole), end=pl.col("t").max().over(whole) + kind.gap
    )
