"""How much of a backlog one batch takes."""

from collections.abc import Mapping
from typing import TypeVar

from headrace.clock import Clock

Place = TypeVar("Place")


def admit(backlog: Mapping[Place, int], limit: int | None) -> dict[Place, int]:
    """How many records each partition may give, together at most `limit`.

    Each gives the same part of what it has, so that a backlog of one hour is worked off minute by
    minute in all partitions, and event time does not run ahead in the quiet ones. As long as the
    limit allows it, none that has records gives nothing.

    >>> admit({"a": 900, "b": 90, "c": 0}, 99)
    {'a': 89, 'b': 10, 'c': 0}
    """
    if limit is None or sum(backlog.values()) <= limit:
        return dict(backlog)
    waiting = sum(count > 0 for count in backlog.values())
    first = 1 if waiting <= limit else 0
    given = {place: min(count, first) for place, count in backlog.items()}
    rest = {place: count - given[place] for place, count in backlog.items()}
    shared = _share(rest, limit - sum(given.values()))
    return {place: given[place] + shared[place] for place in backlog}


def _share(backlog: Mapping[Place, int], limit: int) -> dict[Place, int]:
    """Share out by size; what rounding leaves over goes to those that it took the most from."""
    total = sum(backlog.values())
    shared = {place: count * limit // total for place, count in backlog.items()}
    left = limit - sum(shared.values())
    by_remainder = sorted(backlog, key=lambda place: backlog[place] * limit % total, reverse=True)
    for place in by_remainder[:left]:
        shared[place] += 1
    return shared


class Pace:
    """A rate in records per second, as what may be read at this moment.

    What was not used is not saved up: after an idle hour there is no burst.
    """

    def __init__(self, per_second: float, clock: Clock) -> None:
        self._per_second = per_second
        self._clock = clock
        self._last: float | None = None

    def allowance(self) -> int:
        """Records that may be read now, given when this was last asked; at least one."""
        now = self._clock.monotonic()
        elapsed = 1.0 if self._last is None else now - self._last
        self._last = now
        return max(round(elapsed * self._per_second), 1)
