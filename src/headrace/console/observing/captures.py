"""Captures: what they have committed about themselves, and what they told since."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.capture.control import states
from headrace.capture.envelope import topic_of
from headrace.capture.running import STATUSES
from headrace.capture.state import CaptureState, Wishes
from headrace.clock import Clock, SystemClock
from headrace.kafka import Cluster
from headrace.kafka.statuses import SILENCE_MS, Status
from headrace.settings import CapturesSettings
from headrace.settings.address import shown

_HISTORY: Final = 120
_STORES_MS: Final = 3_000
"""How long what captures have stored is believed: reading it takes a connection of its own."""

_RESTING: Final = ("paused", "stopped", "failed")


@dataclass(frozen=True, slots=True)
class TableSeen:
    """A table of a capture."""

    name: str
    topic: str
    rows: int
    expected: int
    done: bool
    shape: int
    """Which shape of the table it is, counted from 1: each change of its schema is another."""


@dataclass(frozen=True, slots=True)
class CaptureRow:
    """One capture."""

    name: str
    database: str
    """Its address without secrets, if the settings know it."""

    condition: str
    paused: bool
    changes: int
    behind_ms: int | None
    behind_bytes: int | None
    retained: int | None
    failure: str
    restarts: int
    heard_ms: int | None
    process: int
    position: str
    tables: tuple[TableSeen, ...]
    history: tuple[tuple[int, float], ...] = ()
    """Times, and changes per second."""

    @property
    def healthy(self) -> bool:
        """Whether it does what it should, or was told to do nothing."""
        return self.condition not in ("silent", "failed", "waiting for another try")

    @property
    def rate(self) -> float:
        """Changes per second, lately."""
        return self.history[-1][1] if self.history else 0.0

    @property
    def progress(self) -> float | None:
        """The share of its tables' rows that has been read; None when all is."""
        if all(each.done for each in self.tables):
            return None
        expected = sum(each.expected for each in self.tables)
        return sum(each.rows for each in self.tables) / expected if expected else 0.0

    @property
    def schema_changes(self) -> int:
        """How often a table's shape has changed since it was first captured."""
        return sum(each.shape - 1 for each in self.tables)


@dataclass(frozen=True, slots=True)
class CapturesSample:
    """All captures at one moment."""

    rows: Mapping[str, CaptureRow] = field(default_factory=dict)


class CapturesGatherer:
    """Looks at all captures; remembers rates. Belongs to one thread."""

    def __init__(
        self,
        cluster: Cluster,
        settings: CapturesSettings,
        statuses: Callable[[], Mapping[str, Status]],
        *,
        clock: Clock | None = None,
    ) -> None:
        self._cluster = cluster
        self._addresses = {each.called: shown(each.address) for each in settings.captures}
        self._statuses = statuses
        self._clock = clock or SystemClock()
        self._history: dict[str, deque[tuple[int, float]]] = {}
        self._changes: dict[str, tuple[int, int]] = {}
        self._stored: list[tuple[CaptureState, Wishes]] = []
        self._read_ms = 0

    def gather(self) -> CapturesSample:
        """One look; ClusterError if the cluster does not answer."""
        now, told = self._clock.now_ms(), self._statuses()
        if now - self._read_ms >= _STORES_MS:
            self._stored, self._read_ms = states(self._cluster), now
        rows = [self._row(state, wishes, told, now) for state, wishes in self._stored]
        return CapturesSample({each.name: each for each in sorted(rows, key=lambda one: one.name)})

    def _row(
        self, state: CaptureState, wishes: Wishes, told: Mapping[str, Status], now: int
    ) -> CaptureRow:
        committed = state.status
        heard = committed.get("time_ms", 0)
        status = committed
        if (later := told.get(f"{STATUSES}{state.name}")) and later["at_ms"] >= heard:
            # What a capture cannot commit, such as why its database does not answer, it tells.
            status, heard = {**committed, **later}, later["at_ms"]
        condition = status.get("condition", "unknown")
        if now - heard > SILENCE_MS and condition not in _RESTING:
            condition = "silent"
        return CaptureRow(
            state.name,
            self._addresses.get(state.name, ""),
            condition,
            wishes.paused,
            status.get("changes", 0),
            status.get("behind_ms"),
            status.get("behind_bytes"),
            status.get("retained_bytes"),
            status.get("failure", "") if condition != "following" else "",
            status.get("restarts", 0),
            heard or None,
            status.get("process", 0),
            str(state.position or ""),
            _tables(state),
            self._rates(state.name, status.get("changes", 0), heard, now),
        )

    def _rates(
        self, name: str, changes: int, at_ms: int, now: int
    ) -> tuple[tuple[int, float], ...]:
        history = self._history.setdefault(name, deque(maxlen=_HISTORY))
        then, before = self._changes.get(name, (at_ms, changes))
        if at_ms > then:
            grown = changes - before if changes >= before else changes
            history.append((at_ms, grown * 1000 / (at_ms - then)))
        elif now - at_ms > SILENCE_MS:
            history.append((now, 0.0))
        self._changes[name] = (at_ms, changes)
        return tuple(history)


def _tables(state: CaptureState) -> tuple[TableSeen, ...]:
    found: dict[str, TableSeen] = {}
    for task in state.tasks.values():
        name = str(task.table)
        known = state.tables.get(name)
        found[name] = TableSeen(
            name,
            topic_of(state.prefix, task.table),
            task.rows,
            max(task.estimate, task.rows),
            task.done,
            1 if known is None else known.version,
        )
    for name, known in state.tables.items():
        if name not in found:
            topic = f"{state.prefix}.{name}"
            found[name] = TableSeen(name, topic, 0, 0, done=True, shape=known.version)
    return tuple(found[name] for name in sorted(found))
