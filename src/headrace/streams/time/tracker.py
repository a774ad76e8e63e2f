"""What a bucket makes of the observations that reach it: one watermark that never goes back."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.streams.plan import CONTROL
from headrace.streams.state.watermarks import CLOCK, merged
from headrace.streams.time.control import Observation
from headrace.streams.time.watermarks import Watermark

if TYPE_CHECKING:
    import polars as pl

_TIME: Final = "time"
_PROMISE: Final = "promise"

_FORGOTTEN: Final = 10
"""After so many times `idle_after` of silence, a source is forgotten: producers come and go."""


@dataclass(frozen=True, slots=True)
class SourceTime:
    """One source of time, as it stands."""

    name: str
    bound: int
    """Before which nothing more is expected from it."""

    active: int
    """When it was last heard of, by the clock."""

    idle: bool
    """Whether the others no longer wait for it."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far time has come, and why not further; all times are microseconds since 1970."""

    clock: int | None
    watermark: int | None
    sources: tuple[SourceTime, ...]
    """In the order of their names."""

    @property
    def holding(self) -> str | None:
        """The source that all others wait for; None if nobody does."""
        waited_for = [each for each in self.sources if not each.idle]
        if not waited_for:
            return None
        return min(waited_for, key=lambda each: (each.bound, each.name)).name


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
        remembered = _Memory.read(memory)
        clock = max(bounds.get(CLOCK, remembered.clock), remembered.clock)
        sources = dict(remembered.sources)
        for name, bound in self._told(bounds):
            before = sources.get(name)
            highest = bound if before is None else max(bound, before[0])
            sources[name] = (highest, clock)
        watermark = _later(remembered.watermark, self._reached(sources, clock))
        after = _Memory(clock, watermark, self._kept(sources, clock))
        return after.written(), watermark

    def standing(self, memory: str) -> Standing:
        """How things stand, from what a bucket remembers."""
        read = _Memory.read(memory)
        sources = [
            SourceTime(name, bound, active, self._is_idle(active, read.clock))
            for name, (bound, active) in sorted(read.sources.items())
        ]
        return Standing(read.clock if memory else None, read.watermark, tuple(sources))

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
        waited_for = [
            bound for bound, active in sources.values() if not self._is_idle(active, clock)
        ]
        if waited_for:
            return min(waited_for)
        # Nobody is waited for, so what the furthest has reached counts, and then the clock.
        silent_since = max(active for _, active in sources.values())
        return max(bound for bound, _ in sources.values()) + clock - silent_since

    def _is_idle(self, active: int, clock: int) -> bool:
        patience = self.rules.patience
        return patience is not None and clock - active >= patience

    def _kept(
        self, sources: Mapping[str, tuple[int, int]], clock: int
    ) -> dict[str, tuple[int, int]]:
        patience = self.rules.patience
        if patience is None:
            return dict(sources)
        last = max((active for _, active in sources.values()), default=clock)
        oldest = min(last, clock - _FORGOTTEN * patience)
        return {name: each for name, each in sources.items() if each[1] >= oldest}


@dataclass(frozen=True, slots=True)
class _Memory:
    """What is stored with the bucket."""

    clock: int
    watermark: int | None
    sources: Mapping[str, tuple[int, int]]
    """The bound of each source, and when it was last heard of."""

    @classmethod
    def read(cls, memory: str) -> "_Memory":
        if not memory:
            return cls(0, None, {})
        stored: dict[str, Any] = json.loads(memory)
        sources = {name: (bound, active) for name, (bound, active) in stored["sources"].items()}
        return cls(stored["clock"], stored["watermark"], sources)

    def written(self) -> str:
        return json.dumps(
            {"clock": self.clock, "watermark": self.watermark, "sources": self.sources},
            sort_keys=True,
        )


def _bounds(source: str, told: Observation) -> dict[str, int]:
    """An observation as bounds; the input is part of the names, since two may read one topic."""
    times = {f"{_TIME} {source}/{name}": time for name, time in told.times.items()}
    promises = {f"{_PROMISE} {source}/{name}": time for name, time in told.promises.items()}
    return {CLOCK: told.clock, **times, **promises}


def _later(before: int | None, now: int | None) -> int | None:
    return max((each for each in (before, now) if each is not None), default=None)
