"""Sinks that run by themselves, as they tell of themselves; those of flows are part of the flow."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.clock import Clock, SystemClock
from headrace.console.wording import count
from headrace.kafka.statuses import SILENCE_MS, Status
from headrace.views.copying.running import STATUSES


@dataclass(frozen=True, slots=True)
class SinkRow:
    """One sink."""

    name: str
    topic: str
    store: str
    """Its address without secrets."""

    condition: str
    rows: int
    rejected: int
    lost: int
    behind: int | None
    restarts: int
    failure: str
    rate: float = 0.0
    """Rows per second, lately."""

    @property
    def health(self) -> str:
        """The colour of it."""
        if self.condition in ("failed", "silent", "waiting for another try"):
            return "bad"
        return "ok" if self.condition == "copying" else "idle"

    @property
    def detail(self) -> str:
        """How it stands, in a few words."""
        if self.health == "bad":
            return self.condition
        behind = f", {count(self.behind)} behind" if self.behind else ""
        return f"{self.store.partition(':')[0]}{behind}"


@dataclass(frozen=True, slots=True)
class SinksSample:
    """All sinks at one moment."""

    rows: Mapping[str, SinkRow] = field(default_factory=dict)


class SinksGatherer:
    """Makes sinks of statuses; remembers rates. Belongs to one thread."""

    def __init__(
        self, statuses: Callable[[], Mapping[str, Status]], *, clock: Clock | None = None
    ) -> None:
        self._statuses = statuses
        self._clock = clock or SystemClock()
        self._before: dict[str, tuple[int, int, float]] = {}

    def gather(self) -> SinksSample:
        """All sinks that were heard of."""
        now = self._clock.now_ms()
        rows = [
            self._row(told, now)
            for key, told in sorted(self._statuses().items())
            if key.startswith(STATUSES)
        ]
        return SinksSample({each.name: each for each in rows})

    def _row(self, told: Status, now: int) -> SinkRow:
        condition = told["condition"]
        if now - told["at_ms"] > SILENCE_MS and condition not in ("stopped", "finished", "failed"):
            condition = "silent"
        return SinkRow(
            told["name"],
            told["topic"] or "",
            told["store"],
            condition,
            told["rows"],
            told["rejected"],
            told["lost"],
            told["behind"],
            told["restarts"],
            told["failure"] or "",
            self._rate(told) if condition == "copying" else 0.0,
        )

    def _rate(self, told: Status) -> float:
        then, before, rate = self._before.get(told["name"], (told["at_ms"], told["rows"], 0.0))
        if told["at_ms"] > then:
            rate = max(told["rows"] - before, 0) * 1000 / (told["at_ms"] - then)
        self._before[told["name"]] = (told["at_ms"], told["rows"], rate)
        return rate
