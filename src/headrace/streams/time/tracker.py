"""What a bucket makes of the observations that reach it: one watermark that never goes back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.streams.plan import CONTROL
from headrace.streams.state.watermarks import CLOCK, merged
from headrace.streams.time.control import Observation
from headrace.streams.time.standing import Memory, is_idle, of_others
from headrace.streams.time.watermarks import Watermark

if TYPE_CHECKING:
    import polars as pl

_TIME: Final = "time"
_PROMISE: Final = "promise"
_ORIGIN: Final = "origin"
_HEARD: Final = "heard"
_IDLE: Final = "idle"
"""What bounds are about. The last three are of sources in front of other operators."""

_UNKNOWN: Final = "nothing yet"
"""The name of the source that an input has as long as nobody has told of its time."""

_NO_TIME: Final = -(1 << 62)
_NO_LIMIT: Final = 1 << 62
"""Bounds of those that have told nothing: as long as they are waited for, and afterwards."""

Told = TypeVar("Told")

_FORGOTTEN: Final = 10
"""After so many times `idle_after` of silence, a source is forgotten: producers come and go."""


@dataclass(frozen=True, slots=True)
class Tracker:
    """Follows the sources of all streams of an operator, each by the rules of its `Watermark`."""

    rules: Mapping[str, Watermark]
    """Those of each input that has a time. The slowest input holds the others back."""

    yielding: frozenset[str] = frozenset()
    """The inputs that hold nobody back while all of their sources are idle, as others do whose time
    then goes on with the clock."""

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
        # Of a source that has promised more than its events tell, the promise counts.
        told = merged([{name: bound} for name, bound in self._told(bounds)])
        reached: list[int | None] = []
        kept: dict[str, tuple[int, int]] = {}
        for name, rules in self.rules.items():
            sources = _of(name, remembered.sources or {})
            for source, bound in _of(name, told).items():
                before = sources.get(source)
                sources[source] = (bound if before is None else max(bound, before[0]), clock)
            if len(self.rules) > 1:
                sources = _waited_for(name, sources, clock)
            reached.append(_reached(sources, clock, rules.patience, name in self.yielding))
            kept |= _kept(sources, clock, rules.patience)
        known = [each for each in reached if each is not None]
        slowest = min(known, default=_NO_LIMIT) if len(known) == len(reached) else None
        watermark = _later(remembered.watermark, None if slowest == _NO_LIMIT else slowest)
        origins = _origins(bounds)
        origins |= of_others(origins, remembered.origins or {})
        return Memory(clock, watermark, kept, self._patience, origins).written(), watermark

    @property
    def _patience(self) -> int | dict[str, int] | None:
        """The patience with an only input, or with each that there is one with."""
        if len(self.rules) == 1:
            (rules,) = self.rules.values()
            return rules.patience
        return {
            name: rules.patience for name, rules in self.rules.items() if rules.patience is not None
        }

    def _told(self, bounds: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        for key, time in bounds.items():
            kind, _, name = key.partition(" ")
            if kind == _TIME:
                yield name, time - self.rules[name.partition("/")[0]].delay
            elif kind == _PROMISE:
                yield name, time


def _of(given: str, sources: Mapping[str, Told]) -> dict[str, Told]:
    """Those of an input."""
    return {name: each for name, each in sources.items() if name.startswith(f"{given}/")}


def _waited_for(
    given: str, sources: Mapping[str, tuple[int, int]], clock: int
) -> dict[str, tuple[int, int]]:
    """The sources of one of several inputs; in the place of none, one that has told nothing."""
    unknown = f"{given}/{_UNKNOWN}"
    if not sources:
        return {unknown: (_NO_TIME, clock)}
    known = {name: each for name, each in sources.items() if name != unknown}
    return known or dict(sources)


def _reached(
    sources: Mapping[str, tuple[int, int]], clock: int, patience: int | None, yields: bool
) -> int | None:
    """How far the time of an input has come; None if that is not known yet."""
    if not sources:
        return None
    waited_for = [
        bound for bound, active in sources.values() if not is_idle(active, clock, patience)
    ]
    if waited_for:
        slowest = min(waited_for)
        return None if slowest == _NO_TIME else slowest
    # Nobody is waited for, so what the furthest has reached counts, and then the clock.
    furthest = max(bound for bound, _ in sources.values())
    if furthest == _NO_TIME or yields:
        return _NO_LIMIT
    return furthest + clock - max(active for _, active in sources.values())


def _kept(
    sources: Mapping[str, tuple[int, int]], clock: int, patience: int | None
) -> dict[str, tuple[int, int]]:
    """The sources to be remembered."""
    if patience is None:
        return dict(sources)
    last = max((active for _, active in sources.values()), default=clock)
    oldest = min(last, clock - _FORGOTTEN * patience)
    return {name: each for name, each in sources.items() if each[1] >= oldest}


def _bounds(source: str, told: Observation) -> dict[str, int]:
    """An observation as bounds; the input is part of the names, since two may read one topic."""
    times = {f"{_TIME} {source}/{name}": time for name, time in told.times.items()}
    promises = {f"{_PROMISE} {source}/{name}": time for name, time in told.promises.items()}
    origins: dict[str, int] = {}
    for name, (bound, heard, idle) in told.origins.items():
        place = f"{source}/{name}"
        origins |= {f"{_ORIGIN} {place}": bound, f"{_HEARD} {place}": heard}
        origins |= {f"{_IDLE} {place}": 1} if idle else {}
    return {CLOCK: told.clock, **times, **promises, **origins}


def _origins(bounds: Mapping[str, int]) -> dict[str, tuple[int, int, bool]]:
    """The sources in front of other operators that bounds tell of."""
    return {
        place: (bound, bounds[f"{_HEARD} {place}"], f"{_IDLE} {place}" in bounds)
        for kind, _, place, bound in ((*key.partition(" "), each) for key, each in bounds.items())
        if kind == _ORIGIN
    }


def _later(before: int | None, now: int | None) -> int | None:
    return max((each for each in (before, now) if each is not None), default=None)
