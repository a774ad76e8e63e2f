"""Results as changes of a table: inserted, updated with what they were before, deleted.

Applied one after the other, the changes of an operator give its table at each moment: nothing is
updated or deleted that was not told, and with exactly the values that were told.
"""

from collections.abc import Sequence
from typing import Final

import polars as pl

from headrace.streams.state.operator import State
from headrace.streams.windows.layout import CHANGE, END, START, Layout

_KNOWN: Final = "_window_known"


def told(
    layout: Layout, state: State, results: pl.DataFrame, gone: pl.DataFrame | None = None
) -> pl.DataFrame:
    """The changes that results make, and that windows which are gone make, if they were told.

    `results` has the keys, the window and its results, and in `FORGET` when the window cannot
    change any more; of `gone` the keys and the window count.
    """
    if not layout.policy.remembers:
        return _changes(layout, [(results, "insert")])
    table = state["told"]
    window = [*layout.keys, START, END]
    lost: list[tuple[pl.DataFrame, str]] = []
    if gone is not None and gone.height:
        known = table.lookup(gone.select(layout.keys))
        lost.append(
            (known.join(gone.select(window), on=window, how="semi", nulls_equal=True), "delete")
        )
        table.delete(lost[0][0])
    if not results.height:
        return _changes(layout, lost)
    known = table.lookup(results.select(layout.keys))
    names = layout.measures.names
    before = results.select(window).join(
        known.with_columns(pl.lit(True).alias(_KNOWN)),
        on=window,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    new = before[_KNOWN].is_null()
    different = (
        pl.zeros(len(new), pl.Boolean, eager=True)
        if not names
        else _different(before.select(names), results.select(names))
    )
    changed = ~new & different
    table.upsert(results.filter(new | changed))
    return _changes(
        layout,
        [
            *lost,
            (results.filter(new), "insert"),
            (before.filter(changed), "update_before"),
            (results.filter(changed), "update_after"),
        ],
    )


def forget(state: State, now: int | None) -> None:
    """Remove what was told of windows that cannot change any more."""
    if "told" in state.tables:
        state["told"].delete(state["told"].due(now))


def _changes(layout: Layout, parts: Sequence[tuple[pl.DataFrame, str]]) -> pl.DataFrame:
    columns = [START, END, *layout.by, *layout.measures.names]
    frames = [
        rows.select(columns).with_columns(pl.lit(change).alias(CHANGE))
        for rows, change in parts
        if rows.height
    ]
    if not frames:
        return pl.DataFrame()
    moments = [
        pl.col(each).cast(pl.Datetime("us")).dt.replace_time_zone("UTC") for each in (START, END)
    ]
    return pl.concat(frames).with_columns(*moments)


def _different(before: pl.DataFrame, after: pl.DataFrame) -> pl.Series:
    """Which rows differ in any column; null and null are the same, as are NaN and NaN."""
    pairs = before.rename(lambda name: f"before.{name}").hstack(
        after.rename(lambda name: f"after.{name}")
    )
    tests = [pl.col(f"before.{each}").ne_missing(pl.col(f"after.{each}")) for each in after.columns]
    return pairs.select(pl.any_horizontal(tests)).to_series()
