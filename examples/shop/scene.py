"""One moment of the demo, with all that a display needs to show it."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from examples.shop.events import TOPICS
from examples.shop.observer import Observation

_WINDOW_SECONDS = 3.0
_HISTORY = 40


@dataclass(frozen=True, slots=True)
class GroupScene:
    """One consumer group, as the demo runs it."""

    name: str
    topics: Sequence[str]
    members: Sequence[str]
    """All members that the demo runs, including one that is away."""
    finding: str


@dataclass(frozen=True, slots=True)
class Scene:
    """One moment."""

    bootstrap: str
    elapsed: float
    observation: Observation
    rates: Mapping[str, float]
    history: Mapping[str, Sequence[float]]
    groups: Sequence[GroupScene]
    news: str
    memory_bytes: int | None = None
    stored_bytes: int | None = None

    @property
    def events(self) -> int:
        """Events that the broker holds."""
        return sum(self.observation.ends.values())

    def lag(self, group: GroupScene) -> int:
        """Events that a group has still to commit."""
        return self.observation.group_lag(group.name, group.topics)


class Rates:
    """Events per second of each topic, over the last few seconds of observations."""

    def __init__(self) -> None:
        self._recent: deque[Observation] = deque()
        self._history: dict[str, deque[float]] = {name: deque(maxlen=_HISTORY) for name in TOPICS}

    def add(self, observation: Observation) -> None:
        """Take in what was seen last."""
        self._recent.append(observation)
        while self._recent[0].at < observation.at - _WINDOW_SECONDS:
            self._recent.popleft()
        for topic, rate in self.now().items():
            self._history[topic].append(rate)

    def now(self) -> dict[str, float]:
        """The rate of each topic."""
        first, last = self._recent[0], self._recent[-1]
        seconds = last.at - first.at
        return {
            topic: (last.stored(topic) - first.stored(topic)) / seconds if seconds else 0.0
            for topic in TOPICS
        }

    def history(self) -> dict[str, list[float]]:
        """The rates of each topic so far, oldest first."""
        return {topic: list(rates) for topic, rates in self._history.items()}
