"""What all window operators have in common: their columns, their outputs and what they remember."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import polars as pl
import pyarrow as pa

from headrace.streams.errors import InvalidFlow, UnknownColumn
from headrace.streams.names import did_you_mean
from headrace.streams.state.blobs import to_polars
from headrace.streams.state.operator import Kept, State
from headrace.streams.state.watermarks import CLOCK
from headrace.streams.windows.measures import Measures
from headrace.streams.windows.policies import Policy

INPUT: Final = "input"
"""The name under which `update` is given the events."""

EVERYTHING: Final = "_all"
"""The column, always 0, that the input of windows without `by` is keyed by."""

ARGUMENT: Final = "_argument_"
"""What the names of columns begin with that were computed for aggregates, not for people."""

START: Final = "window_start"
END: Final = "window_end"
FORGET: Final = "_window_forget"
"""The column that says when what was told of a window cannot change any more."""

_REACHED: Final = "_window_watermark"
_SPOKEN: Final = "_window_spoken"
CHANGE: Final = "_change"
WATERMARK: Final = "_watermark"
REASON: Final = "_reason"
MOMENT: Final = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Layout:
    """The columns of a window operator."""

    name: str
    by: tuple[str, ...]
    time: str
    measures: Measures
    policy: Policy
    input: Any
    """The Arrow schema of the events."""

    def __post_init__(self) -> None:
        for column in (*self.by, self.time):
            if column not in self.input.names:
                known = [each for each in self.input.names if not each.startswith("_")]
                raise UnknownColumn(
                    f"The window {self.name} is by {column}, which its input does not have; "
                    f"{did_you_mean(column, known)}"
                )
        names = [START, END, CHANGE, *self.by, *self.measures.names]
        for name in names:
            if names.count(name) > 1:
                raise InvalidFlow(
                    f"The window {self.name} has two columns named {name}: a result must not be "
                    f"named like what it is by, nor {START}, {END} or {CHANGE}."
                )

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that the input is keyed by."""
        return self.by or (EVERYTHING,)

    @cached_property
    def key_fields(self) -> list[Any]:
        """The Arrow fields of the keys."""
        if not self.by:
            return [pa.field(EVERYTHING, pa.int8())]
        return [self.input.field(each) for each in self.by]

    @cached_property
    def late_columns(self) -> list[str]:
        """The columns of the input that late rows are delivered with."""
        names: list[str] = self.input.names
        return [each for each in names if not each.startswith(ARGUMENT) and each != EVERYTHING]

    @cached_property
    def outputs(self) -> dict[str, Any]:
        """Results as changes; late rows, unless they are dropped; and how many there were.

        `counts` has a row for each reason and batch for which events are in no window, `late` or
        `no_time`, and for those that are in some of their windows only, `partly_late`.
        """
        window = [pa.field(START, MOMENT), pa.field(END, MOMENT)]
        by = [self.input.field(each) for each in self.by]
        main = [*window, *by, *self.measures.told, pa.field(CHANGE, pa.string())]
        reason = [pa.field(REASON, pa.string()), pa.field(WATERMARK, MOMENT)]
        found = {"main": pa.schema(main)}
        if self.policy.carries_rows:
            late = [self.input.field(each) for each in self.late_columns]
            found["late"] = pa.schema([*late, *reason])
        found["counts"] = pa.schema([*reason, pa.field("rows", pa.int64())])
        return found

    def tables(self, own: Mapping[str, Kept]) -> dict[str, Kept]:
        """The tables of an operator: its own, what was told, and how far time had come."""
        found = dict(own)
        if self.policy.remembers:
            window = [pa.field(each, pa.int64()) for each in (START, END, FORGET)]
            schema = pa.schema([*self.key_fields, *window, *self.measures.told])
            found["told"] = Kept(schema, self.keys, (START, END), FORGET)
        progress = [pa.field(_REACHED, pa.int64()), pa.field(_SPOKEN, pa.int64())]
        found["progress"] = Kept(pa.schema([*self.key_fields, *progress]), self.keys)
        return found


@dataclass(frozen=True, slots=True)
class Moment:
    """How far time has come in a bucket with a batch, and had come before it."""

    before: int | None
    now: int | None
    speaks: bool
    """Whether windows that speak every so often do so in this batch."""

    def closed(self, until: int) -> bool:
        """Whether what could come until then was over before this batch."""
        return self.before is not None and until <= self.before


def advanced(
    layout: Layout, state: State, events: Mapping[str, pl.DataFrame], watermark: int | None
) -> Moment:
    """The moment of this batch; what it is compared with in the next one is remembered."""
    table = state["progress"]
    nobody = to_polars(pa.schema(layout.key_fields).empty_table()).clear(1)
    found = table.lookup(nobody)
    before = found[_REACHED][0] if found.height else None
    spoken = found[_SPOKEN][0] if found.height else None
    now = watermark if before is None or watermark is None else max(before, watermark)
    now = before if now is None else now
    clock = _clock(events)
    interval = layout.policy.interval
    speaks = bool(interval) and clock is not None and (spoken is None or clock >= spoken + interval)
    if now != before or speaks:
        said = [pl.lit(now, pl.Int64).alias(_REACHED)]
        said += [pl.lit(clock if speaks else spoken, pl.Int64).alias(_SPOKEN)]
        table.upsert(nobody.with_columns(*said))
    return Moment(before, now, speaks)


def _clock(events: Mapping[str, pl.DataFrame]) -> int | None:
    frame = events.get(CLOCK)
    return None if frame is None or not frame.height else frame[CLOCK].max()  # type: ignore[return-value]
