"""What a join remembers from one batch to the next, beside its rows.

That is how far time had come, by which events are late, and how many events there have been: their
numbers tell equal ones apart and keep them in the order in which they came.
"""

from dataclasses import dataclass
from typing import Final

import polars as pl
import pyarrow as pa

from headrace.streams.state.operator import Kept, State

NUMBER: Final = "_join_number"
"""The column with the number of an event among those that its bucket has kept."""

_ALL: Final = "_join_all"
_REACHED: Final = "_join_watermark"
_NEXT: Final = "_join_next"

PROGRESS: Final = "progress"
"""The name of the table."""

KEPT: Final = Kept(
    pa.schema([(_ALL, pa.int8()), (_REACHED, pa.int64()), (_NEXT, pa.int64())]), (_ALL,)
)


@dataclass(frozen=True, slots=True)
class Moment:
    """How far time has come in a bucket with a batch and had come before it."""

    before: int | None
    now: int | None
    following: int
    """The number of the next event that is kept."""

    def over(self, wait: int) -> int | None:
        """The last event time after which more than `wait` has passed; None if time is unknown."""
        return None if self.now is None else self.now - wait - 1

    def answered(self, wait: int) -> int | None:
        """The last event time that was over like that before the batch."""
        return None if self.before is None else self.before - wait - 1


def advanced(state: State, watermark: int | None) -> Moment:
    """The moment of a batch."""
    found = state[PROGRESS].lookup(pl.DataFrame({_ALL: [0]}, {_ALL: pl.Int8}))
    before, following = found.select(_REACHED, _NEXT).row(0) if found.height else (None, 0)
    known = [each for each in (before, watermark) if each is not None]
    return Moment(before, max(known, default=None), following)


def remember(state: State, moment: Moment, kept: int) -> None:
    """Remember a moment, and that many more events, for the next batch."""
    if moment.now != moment.before or kept:
        said = {_ALL: [0], _REACHED: [moment.now], _NEXT: [moment.following + kept]}
        kinds = {_ALL: pl.Int8, _REACHED: pl.Int64, _NEXT: pl.Int64}
        state[PROGRESS].upsert(pl.DataFrame(said, kinds))


def with_numbers(rows: pl.DataFrame, first: int) -> pl.DataFrame:
    """Rows with their numbers, in the order in which they came."""
    numbers = pl.int_range(first, first + rows.height, dtype=pl.Int64, eager=True)
    return rows.with_columns(numbers.alias(NUMBER))
