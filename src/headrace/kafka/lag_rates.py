"""How fast a group consumes, how fast its topics grow, and when the one overtakes the other."""

from collections import deque
from dataclasses import dataclass

from headrace.kafka.lag import GroupLag, LagSample
from headrace.kafka.positions import Partition

WINDOW_MS = 60_000
"""Over how long rates are averaged: most groups commit every few seconds."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Records per second of a group: what it commits, and what is written meanwhile."""

    consumed: float
    produced: float

    def seconds_to_catch_up(self, records: int) -> float | None:
        """How long the group will take for what lies before it; None if it falls behind."""
        if records == 0:
            return 0.0
        gained = self.consumed - self.produced
        return records / gained if gained > 0 else None


class LagRates:
    """Compares samples over the last minute."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, dict[str, GroupLag]]] = deque()

    def add(self, sample: LagSample) -> None:
        """Take the next sample into account."""
        self._samples.append((sample.at_ms, {each.name: each for each in sample.groups}))
        while len(self._samples) > 2 and sample.at_ms - self._samples[1][0] >= WINDOW_MS:
            self._samples.popleft()

    def of(self, group: str) -> Pace | None:
        """A group's pace; None before there are two samples of it."""
        samples = [(at, groups[group]) for at, groups in self._samples if group in groups]
        if len(samples) < 2 or samples[0][0] >= samples[-1][0]:
            return None
        (began, first), (ended, last) = samples[0], samples[-1]
        before, after = _ends(first), _ends(last)
        both = [each for each in after if each in before]
        seconds = (ended - began) / 1000
        return Pace(
            sum(max(after[each][0] - before[each][0], 0) for each in both) / seconds,
            sum(max(after[each][1] - before[each][1], 0) for each in both) / seconds,
        )


def _ends(group: GroupLag) -> dict[Partition, tuple[int, int]]:
    return {
        each.partition: (each.committed, each.latest)
        for each in group.partitions
        if each.committed is not None and each.latest is not None
    }
