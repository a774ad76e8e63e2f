"""The events of one side of a join by time: who is there in a batch, and who has met others."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.streams.joins.matching import Points, microseconds, without_nulls
from headrace.streams.joins.progress import NUMBER
from headrace.streams.joins.sides import Side
from headrace.streams.state.operator import Kept

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s
    from headrace.streams.state.table import StateTable

_MET: Final = "_join_met"
"""The column that says whether a kept event has met any other."""


@dataclass(frozen=True)
class Half:
    """One side, as it is seen from there."""

    name: str
    side: Side
    time: str
    back: int
    reach: int
    """From how long before an event until how long after it its partners are."""

    alone: bool
    """Whether events are told that have met nobody."""

    @cached_property
    def columns(self) -> list[str]:
        """What is needed of an event: what is told of it, and its time."""
        return list(dict.fromkeys((*self.side.columns, self.time)))

    @cached_property
    def kept(self) -> Kept:
        """Events that can still meet others."""
        own = [pa.field(NUMBER, pa.int64())]
        own += [pa.field(_MET, pa.bool_())] if self.alone else []
        schema = pa.schema([*self.side.nullable(self.columns), *own])
        return Kept(schema, self.side.key, (NUMBER,), self.time)

    def known(self, events: pl.DataFrame) -> pl.DataFrame:
        """The events that have no null in their key."""
        whole = without_nulls([events.get_column(name) for name in self.side.key])
        return events if whole is None else events.filter(whole)

    def points(self, events: pl.DataFrame) -> Points:
        """Events as they are matched."""
        return Points.of(events, self.side.key, microseconds(events.get_column(self.time)))

    def held(
        self, table: "StateTable", other: "Half", others: pl.DataFrame, asking: Points
    ) -> pl.DataFrame:
        """The kept events that events of the other side, which ask for them, may meet."""
        keys = zip(other.side.key, self.side.key, strict=True)
        chosen = asking.distinct()
        wanted = pl.DataFrame(
            [others.get_column(theirs).gather(chosen).alias(own) for theirs, own in keys]
        )
        if not len(asking):
            return table.lookup(wanted)
        since, until = int(asking.times.min()) - other.back, int(asking.times.max()) + other.reach
        return table.lookup(wanted, since=since, until=until)


class Crowd:
    """The events that may meet others in a batch: those that were kept, behind them new ones."""

    def __init__(self, half: Half, held: pl.DataFrame, new: pl.DataFrame, points: Points) -> None:
        """Take the new ones with how they are matched."""
        self.half = half
        self.fresh = held.height
        """Where the new ones begin."""
        if half.alone:
            new = new.with_columns(pl.lit(value=False).alias(_MET))
        self.rows = pl.concat([held, new.select(held.columns)]) if held.height else new
        self.times = microseconds(self.rows.get_column(half.time))
        self.held = half.points(held)
        self.new = points.below(held.height)
        self.everybody = self.held.joined(self.new)
        before: Any = np.zeros(self.rows.height, np.bool_)
        if half.alone:
            before = self.rows.get_column(_MET).to_numpy()
        self._met_before = before
        self._met = before.copy()

    def column(self, name: str, positions: "Int64s") -> pl.Series:
        """The values of a column at positions."""
        return self.rows.get_column(name).gather(positions)

    def meet(self, positions: "Int64s") -> None:
        """Note that those at these positions have met others."""
        self._met[positions] = True

    def stored(self, table: "StateTable", over: int | None) -> pl.DataFrame:
        """Keep those who can still meet others; returns those who cannot and never did.

        That is so for those whose time is not after `over`. They are in the order of time, and
        there are none if nobody wants to hear of them.
        """
        rows, fresh = self.rows, self.times[self.fresh :]
        changed = np.zeros(rows.height, np.bool_)
        changed[self.fresh :] = True if over is None else fresh > over
        if self.half.alone:
            changed[: self.fresh] = (self._met != self._met_before)[: self.fresh]
            rows = rows.with_columns(pl.Series(_MET, self._met))
        table.upsert(rows if changed.all() else rows.filter(changed))
        due = table.due(over)
        table.delete(due)
        if not self.half.alone or over is None:
            return rows.clear()
        passing = rows[self.fresh :].filter(fresh <= over)
        gone = pl.concat([due, passing.select(due.columns)])
        return gone.filter(~pl.col(_MET)).sort(self.half.time, NUMBER)
