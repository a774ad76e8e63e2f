"""How far time has come and why not further: what a bucket remembers, and what people are shown.

    standing_of(operator.memory).holding    # of an `OperatorState` of a checkpoint
    run.progress[0].time.holding            # of a flow that runs

All buckets of an operator hear the same of time, so any of them tells how things stand.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

_Told = TypeVar("_Told")


@dataclass(frozen=True, slots=True)
class SourceTime:
    """One source of time, as it stands."""

    name: str
    """A topic's partition or a producer; in front of it the input of the operator, if there are
    several. Of an operator behind others, it is those of the first."""

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

    def furthest_behind(self, most: int) -> list[SourceTime]:
        """Those of the sources that are waited for longest; the idle come last."""
        return sorted(self.sources, key=lambda each: (each.idle, each.bound, each.name))[:most]

    def __str__(self) -> str:
        if self.watermark is None:
            return "no watermark yet"
        others = len(self.sources) - 1
        said = f"watermark {moment_of(self.watermark)}"
        idle = sum(each.idle for each in self.sources)
        if self.holding is not None and others:
            said += f", held back by {self.holding}"
        return f"{said}, {idle} of {others + 1} idle" if idle else said


@dataclass(frozen=True, slots=True)
class Memory:
    """What a bucket remembers of time from batch to batch."""

    clock: int = 0
    watermark: int | None = None
    sources: Mapping[str, tuple[int, int]] | None = None
    """The bound of each source, and when it was last heard of."""

    patience: int | Mapping[str, int] | None = None
    """The silence, in microseconds, after which a source was idle when this was written; with
    several inputs that of each which has one."""

    origins: Mapping[str, tuple[int, int, bool]] | None = None
    """Where the operators in front have their time from: the bound of each source, when it was last
    heard of, and whether it is idle. Nothing is computed of it."""

    def patience_with(self, source: str) -> int | None:
        """The silence after which this source is idle."""
        if isinstance(self.patience, Mapping):
            return self.patience.get(source.partition("/")[0])
        return self.patience

    @classmethod
    def read(cls, text: str) -> "Memory":
        """What was written; nothing is remembered of an empty text."""
        if not text:
            return cls(sources={})
        stored: dict[str, Any] = json.loads(text)
        sources = {name: (bound, active) for name, (bound, active) in stored["sources"].items()}
        told = stored.get("origins", {}).items()
        origins = {name: (bound, active, idle) for name, (bound, active, idle) in told}
        return cls(stored["clock"], stored["watermark"], sources, stored.get("patience"), origins)

    def written(self) -> str:
        """As it is stored; equal memories are equal texts."""
        stored: dict[str, Any] = {
            "clock": self.clock,
            "watermark": self.watermark,
            "sources": self.sources,
        }
        if self.patience not in (None, {}):
            stored["patience"] = self.patience
        if self.origins:
            stored["origins"] = self.origins
        return json.dumps(stored, sort_keys=True)


def standing_of(memory: str) -> Standing | None:
    """How things stand by what a bucket remembers; None if it has not heard of time yet."""
    if not memory:
        return None
    read = Memory.read(memory)
    inputs = {name.partition("/")[0] for name in read.sources or {}}
    sources = [
        SourceTime(name if len(inputs) > 1 else name.partition("/")[2], bound, active, idle)
        for name, (bound, active, idle) in sorted(_seen(read).items())
    ]
    return Standing(read.clock, read.watermark, tuple(sources))


def _seen(memory: Memory) -> dict[str, tuple[int, int, bool]]:
    """The sources as people see them: of inputs behind other operators, the origins."""
    origins = memory.origins or {}
    own = {
        name: (bound, active, is_idle(active, memory.clock, memory.patience_with(name)))
        for name, (bound, active) in (memory.sources or {}).items()
    }
    return {**of_others(origins, own), **origins}


def of_others(told: Mapping[str, Any], sources: Mapping[str, _Told]) -> dict[str, _Told]:
    """Those of the sources whose input is not among those that something else is told of."""
    inputs = {name.partition("/")[0] for name in told}
    return {name: each for name, each in sources.items() if name.partition("/")[0] not in inputs}


def is_idle(active: int, clock: int, patience: int | None) -> bool:
    """Whether somebody who was last heard of then is no longer waited for."""
    return patience is not None and clock - active >= patience


def moment_of(time: int) -> str:
    """Microseconds since 1970 as people read them; of a time beyond the calendar, "never".

    >>> moment_of(1_767_261_600_000_000), moment_of(2**62)
    ('2026-01-01T10:00:00Z', 'never')
    """
    try:
        moment = datetime.fromtimestamp(time // 1_000_000, UTC)
    except (OverflowError, ValueError):
        return "never"
    return moment.isoformat().replace("+00:00", "Z")
