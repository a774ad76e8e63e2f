"""What a bucket makes of the observations that reach it: one watermark that never goes back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.streams.plan import CONTROL
from headrace.streams.state.watermarks import CLOCK, merged
from headrace.streams.time.control import Observation
from headrace.streams.time.standing import Memory, is_idle
from headrace.streams.time.watermarks import Watermark

if TYPE_CHECKING:
    import polars as pl

_TIME: Final = "time"
_PROMISE: Final = "promise"

_FORGOTTEN: Final = 10
"""After so many times `idle_after` of silence, a source is forgotten: producers come and go."""


@dataclass(frozen=True, slots=True)
class Tracker:
    """Follows the sources of a stream, by the rules of its `Watermark`."""

    rules: Watermark

    def observe(self, source: str, events: "pl.DataFrame") -> Mapping[str, int]:
        """Bounds from the control rows among some events."""
        if CONTROL not in events.columns:
            return {}
        told = events[CONTROL].drop_nulls().to_list()
        return merged([_bounds(source, Observation.from_bytes(each)) for each in told])

    def advance(self, memory: str, bounds: Mapping[str, int]) -> tuple[str, int | None]:
        """Take what the sources told in a batch; a source that told nothing may be idle by now."""
        remembered = Memory.read(memory)
        clock = max(bounds.get(CLOCK, remembered.clock), remembered.clock)
        sources = dict(remembered.sources or {})
        for name, bound in self._told(bounds):
            before = sources.get(name)
            highest = bound if before is None else max(bound, before[0])
            sources[name] = (highest, clock)
        watermark = _later(remembered.watermark, self._reached(sources, clock))
        after = Memory(clock, watermark, self._kept(sources, clock), self.rules.patience)
        return after.written(), watermark

    def _told(self, bounds: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        for key, time in bounds.items():
            kind, _, name = key.partition(" ")
            if kind == _TIME:
                yield name, time - self.rules.delay
            elif kind == _PROMISE:
                yield name, time

    def _reached(self, sources: Mapping[str, tuple[int, int]], clock: int) -> int | None:
        if not sources:
            return None
        patience = self.rules.patience
        waited_for = [
            bound for bound, active in sources.values() if not is_idle(active, clock, patience)
        ]
        if waited_for:
            return min(waited_for)
        # Nobody is waited for, so what the furthest has reached counts, and then the clock.
        silent_since = max(active for _, active in sources.values())
        return max(bound for bound, _ in sources.values()) + clock - silent_since

    def _kept(
        self, sources: Mapping[str, tuple[int, int]], clock: int
    ) -> dict[str, tuple[int, int]]:
        patience = self.rules.patience
        if patience is None:
            return dict(sources)
        last = max((active for _, active in sources.values()), default=clock)
        oldest = min(last, clock - _FORGOTTEN * patience)
        return {name: each for name, each in sources.items() if each[1] >= oldest}


def _bounds(source: str, told: Observation) -> dict[str, int]:
    """An observation as bounds; the input is part of the names, since two may read one topic."""
    times = {f"{_TIME} {source}/{name}": time for name, time in told.times.items()}
    promises = {f"{_PROMISE} {source}/{name}": time for name, time in told.promises.items()}
    return {CLOCK: told.clock, **times, **promises}


def _later(before: int | None, now: int | None) -> int | None:
    return max((each for each in (before, now) if each is not None), default=None)
