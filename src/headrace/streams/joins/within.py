"""The join of a stream with a stream, within a bound of time.

Formally: a left event at l and a right event at r meet if their keys are equal,
l - before <= r <= l + after, and the condition holds. An event is late if its time is before the
watermark that there was before its batch; late events meet nobody. A left event is kept until the
watermark is past l + after, a right one until it is past r + before: no event that could meet it
can follow then that is not late. One that has met nobody by then is told alone, if the join says
so. So the results are those of a join of all events that were not late, whichever came first.

Intuitively: both sides wait for each other, no longer than the bound and the watermark demand, and
when the time has passed in vain, that is an event, too.

A key with a null in it equals none. An event with such a key is told alone, if the join says so of
its side; otherwise it can be in no result and is left out at once, late or not.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.streams.errors import InvalidFlow
from headrace.streams.joins.columns import naming
from headrace.streams.joins.conditions import Condition
from headrace.streams.joins.crowds import Crowd, Half
from headrace.streams.joins.matching import microseconds, pairs
from headrace.streams.joins.progress import (
    KEPT,
    PROGRESS,
    Moment,
    advanced,
    remember,
    with_numbers,
)
from headrace.streams.joins.sides import Side
from headrace.streams.joins.telling import COUNTS, REASONS, counted, with_reason
from headrace.streams.names import checked_choice
from headrace.streams.plan import WINDOW_TIME
from headrace.streams.state.blobs import to_polars
from headrace.streams.state.operator import Description, State
from headrace.streams.windows.layout import MOMENT

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s

HOW: Final = ("inner", "left", "right", "full")
LATE: Final = ("drop", "side")

SIDE: Final = "_side"
"""The column that says of a late event which side it is of."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a batch brings for one side."""

    events: pl.DataFrame
    late: pl.DataFrame
    timeless: pl.DataFrame

    @classmethod
    def of(cls, events: pl.DataFrame, time: str, moment: Moment) -> "_Taken":
        """Tell late events apart, and those without a time."""
        timeless = events.clear()
        if events.get_column(time).null_count():
            timeless = events.filter(pl.col(time).is_null())
            events = events.filter(pl.col(time).is_not_null())
        if moment.before is None:
            return cls(events, events.clear(), timeless)
        late = microseconds(events.get_column(time)) < moment.before
        if not late.any():
            return cls(events, events.clear(), timeless)
        return cls(events.filter(~late), events.filter(late), timeless)


class WithinJoin:
    """Pairs of events that have equal keys and are close in time; and events without a partner.

    Its inputs are `left` and `right`, keyed by the keys of the sides. Its outputs are `main`: the
    columns of both, and as `_window_time` the later of the two times, or the only one; `late`,
    unless late events are dropped: the same columns with what is known of one side, `_side`,
    `_reason` and `_watermark`; and `counts`.

    A batch tells pairs whose left event is new, in the order in which those came; then those of
    which only the right one is; each with its partners in the order of time. Then it tells events
    that have met nobody, in the order of time.
    """

    def __init__(
        self,
        name: str,
        left: Side,
        right: Side,
        how: str,
        before: int,
        after: int,
        condition: str | None = None,
        late: str = "drop",
        suffix: str = "_right",
    ) -> None:
        """Take the sides, and how much earlier and later than a left event a right one may be.

        `before` and `after` are microseconds, and both ends count. One of them may be negative: a
        right event that must come at least a minute later has a `before` of minus one minute.
        """
        self.name = name
        checked_choice("how", how, HOW)
        self._late = checked_choice("late", late, LATE)
        if before + after < 0:
            raise InvalidFlow(
                f"join: nothing is at least {-before} µs and at most {after} µs later than an "
                "event; make the bound wider."
            )
        if len(left.key) != len(right.key):
            raise InvalidFlow("join: the sides have different numbers of join columns.")
        if left.time is None or right.time is None:
            raise InvalidFlow(
                "join: both streams need to know when things happened: name the column where the "
                'stream is read, as in flow.stream(..., time="at").'
            )
        on = dict(zip(left.key, right.key, strict=True))
        self.naming = naming(left.columns, right.columns, on, suffix)
        self._left = Half("left", left, left.time, before, after, how in ("left", "full"))
        self._right = Half("right", right, right.time, after, before, how in ("right", "full"))
        self._fields = self.naming.fields(left.schema, right.schema)
        schema = pa.schema(self._fields)
        self._nobody = to_polars(schema.empty_table())
        self._condition = None if condition is None else Condition(condition, schema)

    @property
    def behind(self) -> int:
        """How much earlier than the watermark a result can be that is yet to be told."""
        return max([0, *(half.reach for half in (self._left, self._right) if half.alone)])

    @cached_property
    def description(self) -> Description:
        """The events of each side that can still meet others."""
        tables = {half.name: half.kept for half in (self._left, self._right)}
        outputs = {"main": pa.schema([*self._fields, pa.field(WINDOW_TIME, MOMENT)])}
        if self._late == "side":
            side = pa.field(SIDE, pa.string())
            outputs["late"] = pa.schema([*self._fields, side, *REASONS])
        return Description(self.name, {**tables, PROGRESS: KEPT}, {**outputs, "counts": COUNTS})

    def prepare(self, source: str, events: pl.DataFrame) -> pl.DataFrame:
        """Leave out columns that nobody asks for, and events that can be in no result."""
        half = self._left if source == "left" else self._right
        events = events.select(half.columns)
        return events if half.alone else half.known(events)

    def update(
        self, state: State, events: Mapping[str, pl.DataFrame], watermark: int | None
    ) -> Mapping[str, pl.DataFrame]:
        """Let the events of a batch meet each other and those before them."""
        moment = advanced(state, watermark)
        taken = {
            half.name: _Taken.of(events[half.name], half.time, moment)
            for half in (self._left, self._right)
        }
        new_left = with_numbers(taken["left"].events, moment.following)
        new_right = with_numbers(taken["right"].events, moment.following + new_left.height)
        remember(state, moment, new_left.height + new_right.height)
        left_points, right_points = self._left.points(new_left), self._right.points(new_right)
        held_left = self._left.held(state["left"], self._right, new_right, right_points)
        held_right = self._right.held(state["right"], self._left, new_left, left_points)
        left = Crowd(self._left, held_left, new_left, left_points)
        right = Crowd(self._right, held_right, new_right, right_points)
        results = [*self._meeting(left, right), *self._meeting_earlier(left, right)]
        results.append(self._alone(state, left, right, moment))
        main = [each for each in results if each.height]
        outputs = {"counts": self._counts(taken, moment)}
        if main:
            outputs["main"] = pl.concat(main)
        if self._late == "side":
            outputs["late"] = self._delivered(taken, moment)
        return outputs

    def _meeting(self, left: Crowd, right: Crowd) -> Iterator[pl.DataFrame]:
        """New left events, and whom they meet."""
        for mine, theirs in pairs(left.new, right.everybody, left.half.back, left.half.reach):
            yield self._met(left, right, mine, theirs)

    def _meeting_earlier(self, left: Crowd, right: Crowd) -> Iterator[pl.DataFrame]:
        """New right events, and which earlier left ones they meet."""
        for mine, theirs in pairs(right.new, left.held, right.half.back, right.half.reach):
            yield self._met(left, right, theirs, mine)

    def _met(self, left: Crowd, right: Crowd, lefts: "Int64s", rights: "Int64s") -> pl.DataFrame:
        """Those of some pairs for which the condition holds, noted and as results."""
        if self._condition is not None:
            asked = self._columns(left, right, lefts, rights, self._condition.columns)
            holds = self._condition.holds(pl.DataFrame(list(asked))).to_numpy()
            lefts, rights = lefts[holds], rights[holds]
        left.meet(lefts)
        right.meet(rights)
        columns = self._columns(left, right, lefts, rights, self.naming.columns)
        times = np.maximum(left.times[lefts], right.times[rights])
        return pl.DataFrame([*columns, _moments(times)])

    def _columns(
        self,
        left: Crowd,
        right: Crowd,
        lefts: "Int64s",
        rights: "Int64s",
        wanted: Collection[str],
    ) -> Iterator[pl.Series]:
        for name in self.naming.left:
            if name in wanted:
                yield left.column(name, lefts)
        for name, given in self.naming.right.items():
            if given in wanted:
                yield right.column(name, rights).alias(given)

    def _alone(self, state: State, left: Crowd, right: Crowd, moment: Moment) -> pl.DataFrame:
        """Keep who can still meet others, and tell of those who never did, in order of time."""
        parts = []
        for crowd in (left, right):
            half = crowd.half
            gone = crowd.stored(state[half.name], moment.over(half.reach))
            times = _moments(microseconds(gone.get_column(half.time)))
            parts.append(self._one_side(half, gone).with_columns(times))
        return pl.concat(parts).sort(WINDOW_TIME, maintain_order=True)

    def _one_side(self, half: Half, events: pl.DataFrame) -> pl.DataFrame:
        """Events of one side as results; what the other side would say is null."""
        if half is self._left:
            known = {name: name for name in self.naming.left}
        else:
            known = {name: name for name in self.naming.shared} | dict(self.naming.right)
        columns = [events.get_column(name).alias(given) for name, given in known.items()]
        return self._nobody.clear(events.height).with_columns(columns)

    def _counts(self, taken: Mapping[str, _Taken], moment: Moment) -> pl.DataFrame:
        counts = {
            "late": sum(each.late.height for each in taken.values()),
            "no_time": sum(each.timeless.height for each in taken.values()),
        }
        return counted(counts, moment)

    def _delivered(self, taken: Mapping[str, _Taken], moment: Moment) -> pl.DataFrame:
        """The late events of both sides."""
        parts = [
            with_reason(self._one_side(half, events), reason, moment).with_columns(
                pl.lit(half.name).alias(SIDE)
            )
            for half in (self._left, self._right)
            for events, reason in (
                (taken[half.name].late, "late"),
                (taken[half.name].timeless, "no_time"),
            )
        ]
        return pl.concat(parts)


def _moments(times: "Int64s") -> pl.Series:
    return pl.Series(WINDOW_TIME, times).cast(pl.Datetime("us", "UTC"))
