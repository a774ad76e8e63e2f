"""The kinds of windows, as they are described; how they are computed is elsewhere (`operators`).

Times are microseconds since 1970. A description is a frozen value: it is compared, pickled and
shown, and knows nothing of events.
"""

from dataclasses import dataclass
from typing import TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headrace.streams.errors import InvalidFlow
from headrace.streams.windows.durations import (
    DAY,
    Duration,
    microseconds,
    signed_microseconds,
    written,
)


@dataclass(frozen=True, slots=True)
class Aligned:
    """Windows between fixed boundaries: tumbling ones, or hopping ones that overlap.

    Formally, without a zone the windows are [offset + i * every, offset + i * every + size) for all
    whole i, and an event at t is in those that contain t. With a zone the boundaries are the
    moments at which the clocks there read a multiple of `every`, counted from midnight, plus the
    offset; a window reaches from one of them over size / every of them. A time that the clocks skip
    is the moment of the change. One that they read twice is two boundaries, so that every window of
    an hour is an hour long; but of days only the first, so that a local day has 23, 24 or 25 hours.
    """

    size: int
    every: int
    offset: int = 0
    zone: str | None = None

    @property
    def tumbling(self) -> bool:
        """Whether every event is in one window only."""
        return self.size == self.every

    def __str__(self) -> str:
        said = f"tumbling {written(self.size)}"
        if not self.tumbling:
            said = f"hopping {written(self.size)} every {written(self.every)}"
        said += f" offset {written(self.offset)}" if self.offset else ""
        return f"{said} in {self.zone}" if self.zone else said


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows that end with an event and hold what was less than `size` before it.

    Formally, for every event time t of a group there is the window (t - size, t]: events at u with
    t - size < u <= t. Events at the same time share it. So the table has a row for each group and
    time at which something happened, and two events that are less than `size` apart are together in
    the window of the later one. Intuitively: what a rolling average shows when it is looked at with
    each event.
    """

    size: int

    def __str__(self) -> str:
        return f"sliding {written(self.size)}"


@dataclass(frozen=True, slots=True)
class Session:
    """Windows of activity, which end when nothing has happened for `gap`.

    Formally, the events of a group in the order of time; an event at t belongs to the session of
    the event before it, at u, if t - u <= gap and, with a maximum, t - first < maximum, where first
    is the time of that session's first event. Otherwise it is the first of a new one. The window is
    [first, last + gap), cut at first + maximum. Like Spark's and Flink's, events that are exactly
    the gap apart are together.
    """

    gap: int
    maximum: int | None = None

    def __str__(self) -> str:
        limit = f" of at most {written(self.maximum)}" if self.maximum is not None else ""
        return f"session gap {written(self.gap)}{limit}"


Window: TypeAlias = Aligned | Sliding | Session
"""What `tumbling`, `hopping`, `sliding` and `session` give."""


def tumbling(size: Duration, *, offset: Duration = "0s", zone: str | None = None) -> Aligned:
    """Windows side by side, each event in one of them.

    Args:
        size: How long they are.
        offset: How far their boundaries are from those that count from 1970, or from midnight in
            the zone.
        zone: The time zone whose clocks the boundaries follow; UTC if None.

    >>> print(tumbling("1 day", offset="6 hours", zone="Europe/Berlin"))
    tumbling 1 day offset 6 hours in Europe/Berlin
    """
    length = microseconds(size, "The size of a tumbling window")
    return _aligned(length, length, offset, zone)


def hopping(
    size: Duration, every: Duration, *, offset: Duration = "0s", zone: str | None = None
) -> Aligned:
    """Windows that overlap: one begins `every` so often, and each event is in several.

    What they have in common is computed once, in panes of the length gcd(size, every).

    >>> print(hopping("1 hour", "10 minutes"))
    hopping 1 hour every 10 minutes
    """
    length = microseconds(size, "The size of a hopping window")
    step = microseconds(every, "The distance of hopping windows")
    if step > length:
        raise InvalidFlow(
            f"Hopping windows of {written(length)} every {written(step)} leave gaps, whose events "
            "would be in no window. Let them begin at least as often as they are long, and choose "
            "the events with where() if only some are wanted."
        )
    return _aligned(length, step, offset, zone)


def sliding(size: Duration) -> Sliding:
    """A window for each event, with what was less than `size` before it.

    >>> print(sliding("5 minutes"))
    sliding 5 minutes
    """
    return Sliding(microseconds(size, "The size of a sliding window"))


def session(gap: Duration, maximum: Duration | None = None) -> Session:
    """Windows of activity with nothing for longer than `gap` between them.

    `maximum` cuts sessions that would never end, such as those of a robot.

    >>> print(session("30 minutes", maximum="1 day"))
    session gap 30 minutes of at most 1 day
    """
    quiet = microseconds(gap, "The gap of a session")
    if maximum is None:
        return Session(quiet)
    return Session(quiet, microseconds(maximum, "The maximum of a session"))


def _aligned(size: int, every: int, offset: Duration, zone: str | None) -> Aligned:
    shift = signed_microseconds(offset, "The offset of a window") % every
    if zone is None:
        return Aligned(size, every, shift)
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise InvalidFlow(
            f'There is no time zone {zone!r}; name one like "Europe/Berlin".'
        ) from error
    if size % every:
        raise InvalidFlow(
            f"In a time zone, {written(size)} must be a multiple of {written(every)}."
        )
    whole_days = every % DAY == 0
    if not whole_days and (DAY % every or size >= DAY):
        raise InvalidFlow(
            "In a time zone, windows begin every so many days, or every part of a day by which it "
            f"can be divided and are then shorter than a day; {written(size)} every "
            f"{written(every)} is neither. Leave the zone away, and hours are hours."
        )
    return Aligned(size, every, shift, zone)
