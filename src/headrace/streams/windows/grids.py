"""Where aligned windows begin and end, and which panes they share.

A pane is the stretch between two neighbouring boundaries of any of the windows: events of one pane
are in the same windows. Everything here works on a few distinct times at once, never on every event
but for `panes`.
"""

from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import numpy as np

from headrace.streams.windows.durations import DAY, MINUTE
from headrace.streams.windows.kinds import Aligned

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s

_QUARTER: Final = 15 * MINUTE
"""The clocks of all zones have differed by multiples of this since 1970, and changed at one."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Grid:
    """The panes and windows of an `Aligned` description."""

    def __init__(self, kind: Aligned) -> None:
        self._kind = kind
        self._pane = gcd(kind.size, kind.every)
        self._overlap = -(-kind.size // kind.every)

    def panes(self, times: "Int64s") -> "Int64s":
        """The beginning of the pane of each time."""
        return times - (times - self._kind.offset) % self._pane

    def windows(self, panes: "Int64s") -> "tuple[Int64s, Int64s, Int64s]":
        """Of every window of every pane: the position of the pane, the window's start and end.

        Ordered by pane, and there by start.
        """
        kind = self._kind
        latest = panes - (panes - kind.offset) % kind.every
        back = np.arange(self._overlap - 1, -1, -1, dtype=np.int64) * kind.every
        starts = (latest[:, None] - back[None, :]).ravel()
        numbers = np.repeat(np.arange(len(panes)), self._overlap)
        ends = starts + kind.size
        holding = ends > panes[numbers]
        return numbers[holding], starts[holding], ends[holding]


class ZonedGrid:
    """The panes and windows of an `Aligned` description that follows the clocks of a zone."""

    def __init__(self, kind: Aligned) -> None:
        assert kind.zone is not None
        self._kind = kind
        self._name = kind.zone
        self._overlap = kind.size // kind.every
        self._days = kind.every % DAY == 0

    @cached_property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self._name)

    def panes(self, times: "Int64s") -> "Int64s":
        """The beginning of the pane of each time."""
        quarters, numbers = np.unique(times // _QUARTER, return_inverse=True)
        ahead = np.array([self._ahead(int(each) * _QUARTER) for each in quarters], np.int64)
        local = times + ahead[numbers] - self._kind.offset
        readings, numbers = np.unique(local - local % self._kind.every, return_inverse=True)
        first = np.array([self._moment(int(each), 0) for each in readings], np.int64)[numbers]
        if self._days:
            return first
        again = np.array([self._moment(int(each), 1) for each in readings], np.int64)[numbers]
        earlier, later = np.minimum(first, again), np.maximum(first, again)
        return np.where(later <= times, later, earlier)

    def windows(self, panes: "Int64s") -> "tuple[Int64s, Int64s, Int64s]":
        """Of every window of every pane: the position of the pane, the window's start and end.

        Ordered by pane, and there by start.
        """
        starts = [panes]
        for _ in range(self._overlap - 1):
            starts.append(self.panes(starts[-1] - 1))
        ends = [self._following(panes)]
        for _ in range(self._overlap - 1):
            ends.append(self._following(ends[-1]))
        numbers = np.repeat(np.arange(len(panes)), self._overlap)
        return numbers, np.stack(starts[::-1], 1).ravel(), np.stack(ends, 1).ravel()

    def _following(self, panes: "Int64s") -> "Int64s":
        """The next boundary after each of these boundaries."""
        every = self._kind.every
        if self._days:
            return self.panes(panes + every + DAY // 2)
        found = self.panes(panes + every)
        # Where the clocks were set back within the pane, it is longer than the others.
        return np.where(found > panes, found, self.panes(panes + 2 * every - 1))

    def _ahead(self, moment: int) -> int:
        """How far the zone's clocks are ahead of UTC at a moment."""
        there = (_EPOCH + timedelta(microseconds=moment)).astimezone(self._zone)
        offset = there.utcoffset()
        assert offset is not None
        return offset // _MICROSECOND

    def _moment(self, reading: int, fold: int) -> int:
        """When the zone's clocks read this, less the offset, for the first or the second time."""
        naive = _EPOCH.replace(tzinfo=None) + timedelta(microseconds=reading + self._kind.offset)
        offset = naive.replace(tzinfo=self._zone, fold=fold).utcoffset()
        assert offset is not None
        return reading + self._kind.offset - offset // _MICROSECOND


def grid_of(kind: Aligned) -> Grid | ZonedGrid:
    """The grid of a description.

    A zone whose clocks differ from UTC by a multiple of the panes' length changes nothing.
    """
    if kind.zone is None or _QUARTER % kind.every == 0:
        return Grid(kind)
    return ZonedGrid(kind)
