"""What a checkpoint remembers of an operator with state, beside the state itself.

It is written when the query first starts, and read before every later start: the number of buckets
stays what it was, whatever cores and settings there are now, and an edit that the stored state
cannot follow is found before Spark begins.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.settings import readable_duration
from headrace.streams.state.evolution import differences
from headrace.streams.state.record import Shape


@dataclass(frozen=True, slots=True)
class StoredOperator:
    """An operator as it was when its query last started."""

    meaning: str
    """What has to stay as it is, in words."""

    buckets: int
    shape: Shape
    parts: Mapping[str, bool] = field(default_factory=dict)
    """What it computes, by names that say what that is; and whether it was added by an edit, so
    that there may be state which knows nothing of it."""

    bounds: Mapping[str, int] = field(default_factory=dict)
    """Durations in microseconds, by name, that may become shorter and not longer: what has been
    forgotten would be missing."""

    def refusals(self, now: "StoredOperator") -> list[str]:
        """Why this cannot become what it is now, in words; nothing if it can."""
        return list(self._refusals(now))

    def _refusals(self, now: "StoredOperator") -> Iterator[str]:
        if self.meaning != now.meaning:
            yield f"it keeps the state of a {self.meaning}, and would be a {now.meaning}"
            return
        for name, before in self.bounds.items():
            if (after := now.bounds.get(name, before)) > before:
                was, has_become = (readable_duration(each / 1000) for each in (before, after))
                yield (
                    f"{name} was {was} and is {has_become} now, and what was forgotten meanwhile "
                    "cannot be corrected; it can only become shorter"
                )
        yield from differences(self.shape, now.shape)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "StoredOperator":
        """What was stored of `asdict`."""
        return cls(
            stored["meaning"],
            stored["buckets"],
            Shape(**stored["shape"]),
            stored["parts"],
            stored["bounds"],
        )
