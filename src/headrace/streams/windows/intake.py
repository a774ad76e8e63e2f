"""Events on their way into windows: summed up before the shuffle, the late ones told apart."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from headrace.streams.windows.layout import (
    EVERYTHING,
    INPUT,
    REASON,
    WATERMARK,
    Layout,
    Moment,
)
from headrace.streams.windows.measures import ROWS

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s

AT: Final = "_window_at"
"""The column that says where in time a part is: the start of a pane, or an event time."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a batch brings: partial aggregates, and what is in no window."""

    parts: pl.DataFrame
    """The keys, where in time, and the columns that are kept; one row each."""

    late: pl.DataFrame
    counts: pl.DataFrame

    def beside(self, changes: pl.DataFrame) -> dict[str, pl.DataFrame]:
        """The outputs of an operator: changes of its table, and what is in no window."""
        outputs = {"main": changes, "late": self.late, "counts": self.counts}
        return {name: rows for name, rows in outputs.items() if rows.height}


class Intake:
    """The way of a window operator's events."""

    def __init__(self, layout: Layout, place: "Callable[[Int64s], Int64s] | None" = None) -> None:
        """Take the columns, and the function that says where in time an event counts.

        Without one it counts at its time.
        """
        self._layout = layout
        self._place = place

    def prepared(self, events: pl.DataFrame) -> pl.DataFrame:
        """What is shuffled of some events: partial aggregates, or rows if those may be needed."""
        layout = self._layout
        if EVERYTHING in layout.keys and EVERYTHING not in events.columns:
            events = events.with_columns(pl.lit(0, pl.Int8).alias(EVERYTHING))
        placed, times = self._placed(events)
        if layout.policy.carries_rows:
            return placed
        return layout.measures.partial(placed, [*layout.keys, AT], times)

    def take(
        self,
        events: Mapping[str, pl.DataFrame],
        moment: Moment,
        judge: "Callable[[pl.DataFrame], tuple[pl.Series, pl.Series | None]]",
    ) -> Taken:
        """Tell late events apart.

        Of rows with a time, `judge` says which are in time, and which of those are so for some of
        their windows only.
        """
        layout = self._layout
        rows = events[INPUT]
        timeless = rows.filter(pl.col(AT).is_null()) if rows[AT].null_count() else rows.clear()
        rows = rows.filter(pl.col(AT).is_not_null()) if timeless.height else rows
        in_time, partly = judge(rows)
        partly_late = 0 if partly is None else _count(rows.filter(in_time & partly))
        late = rows.clear() if in_time.all() else rows.filter(~in_time)
        rows = rows.filter(in_time) if late.height else rows
        if layout.policy.carries_rows:
            told = [_told(layout, late, "late", moment), _told(layout, timeless, "no_time", moment)]
            delivered = pl.concat(told)
            _, times = self._placed(rows)
            parts = layout.measures.partial(rows, [*layout.keys, AT], times)
        else:
            delivered = pl.DataFrame()
            parts = layout.measures.merged(rows, [*layout.keys, AT])
        counts = {
            "late": _count(late),
            "no_time": _count(timeless),
            "partly_late": partly_late,
        }
        return Taken(parts, delivered, _counted(counts, moment))

    def _placed(self, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
        """The events with their places, and their times in microseconds."""
        times = _microseconds(events[self._layout.time])
        if AT in events.columns:
            return events, times
        if self._place is None:
            return events.with_columns(times.alias(AT)), times
        if not times.null_count():
            return events.with_columns(
                pl.Series(AT, self._place(times.to_numpy()), pl.Int64)
            ), times
        valid = times.is_not_null()
        places = np.zeros(len(times), np.int64)
        places[valid.to_numpy()] = self._place(times.drop_nulls().to_numpy())
        found = pl.DataFrame([pl.Series(AT, places), valid.alias("valid")])
        place = found.select(pl.when("valid").then(AT).alias(AT)).to_series()
        return events.with_columns(place), times


def open_places(
    places: pl.Series, moment: Moment, open_until: "Callable[[Int64s], Any]"
) -> pl.Series:
    """Which places still take events; `open_until` says how long each distinct one does."""
    if moment.before is None or not len(places):
        return pl.repeat(True, len(places), eager=True)
    distinct, numbers = np.unique(places.to_numpy(), return_inverse=True)
    return pl.Series((open_until(distinct) > moment.before)[numbers])


def _counted(counts: Mapping[str, int], moment: Moment) -> pl.DataFrame:
    """How many events there were, by reason; only what there was."""
    there = {reason: rows for reason, rows in counts.items() if rows}
    return pl.DataFrame(
        {REASON: list(there), "rows": list(there.values())}, {REASON: pl.String, "rows": pl.Int64}
    ).with_columns(_watermark(moment))


def _count(rows: pl.DataFrame) -> int:
    return int(rows[ROWS].sum()) if ROWS in rows.columns else rows.height


def _told(layout: Layout, rows: pl.DataFrame, reason: str, moment: Moment) -> pl.DataFrame:
    return rows.select(layout.late_columns).with_columns(
        pl.lit(reason).alias(REASON), _watermark(moment)
    )


def _watermark(moment: Moment) -> pl.Expr:
    return pl.lit(moment.before, pl.Datetime("us")).dt.replace_time_zone("UTC").alias(WATERMARK)


def _microseconds(times: pl.Series) -> pl.Series:
    if times.dtype.is_integer():
        return times.cast(pl.Int64)
    if isinstance(times.dtype, pl.Datetime) and times.dtype.time_unit != "us":
        times = times.dt.cast_time_unit("us")
    return times.to_physical().cast(pl.Int64)
