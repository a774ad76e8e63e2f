"""How far time has come and why not further: what a bucket remembers, and what people are shown.

    standing_of(operator.memory).holding    # of an `OperatorState` of a checkpoint
    run.progress[0].time.holding            # of a flow that runs

All buckets of an operator hear the same of time, so any of them tells how things stand.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class SourceTime:
    """One source of time, as it stands."""

    name: str
    """A topic's partition, a producer, or an operator's bucket; in front of it the input of the
    operator, if there are several."""

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
        return cls(stored["clock"], stored["watermark"], sources, stored.get("patience"))

    def written(self) -> str:
        """As it is stored; equal memories are equal texts."""
        stored: dict[str, Any] = {
            "clock": self.clock,
            "watermark": self.watermark,
            "sources": self.sources,
        }
        if self.patience not in (None, {}):
            stored["patience"] = self.patience
        return json.dumps(stored, sort_keys=True)


def standing_of(memory: str) -> Standing | None:
    """How things stand by what a bucket remembers; None if it has not heard of time yet."""
    if not memory:
        return None
    read = Memory.read(memory)
    known = read.sources or {}
    several = len({name.partition("/")[0] for name in known}) > 1
    sources = [
        SourceTime(
            name if several else name.partition("/")[2],
            bound,
            active,
            is_idle(active, read.clock, read.patience_with(name)),
        )
        for name, (bound, active) in sorted(known.items())
    ]
    return Standing(read.clock, read.watermark, tuple(sources))


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
