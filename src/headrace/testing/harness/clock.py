"""A clock that a test moves, and that every process of the machine sees."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SharedClock:
    """A `headrace.clock.Clock` whose time is in a file.

    What a flow does happens in Spark's workers too. A copy of a `ManualClock` would stand still
    there; a copy of this one follows when the test advances it.
    """

    path: Path

    @classmethod
    def starting_at(cls, now_ms: int, path: Path) -> "SharedClock":
        """A new clock."""
        clock = cls(path)
        clock._set(now_ms, 0)
        return clock

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return self._read()[0]

    def monotonic(self) -> float:
        """Seconds advanced since the clock was made."""
        return self._read()[1] / 1000

    def advance(self, milliseconds: int) -> None:
        """Move both clocks forward."""
        now_ms, passed_ms = self._read()
        self._set(now_ms + milliseconds, passed_ms + milliseconds)

    def _read(self) -> tuple[int, int]:
        now_ms, passed_ms = self.path.read_text(encoding="utf-8").split()
        return int(now_ms), int(passed_ms)

    def _set(self, now_ms: int, passed_ms: int) -> None:
        # Readers see the old time or the new one, and never half of it.
        temporary = self.path.with_suffix(".new")
        temporary.write_text(f"{now_ms} {passed_ms}", encoding="utf-8")
        temporary.replace(self.path)
