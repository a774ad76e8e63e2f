"""Consumer groups: their lag now, their pace, and the course of both."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.clock import Clock, SystemClock
from headrace.kafka import (
    Cluster,
    ClusterLagSource,
    GroupLag,
    LagMeter,
    LagSample,
    isolation_by,
)
from headrace.kafka.lag_history import HistoryUnusable, LagHistory, LagPoint
from headrace.kafka.lag_rates import LagRates, Pace
from headrace.settings import LagSettings

CHART_MS: Final = 3600_000
"""How far back charts look."""

_CHART_POINTS: Final = 120


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group: its lag, and how fast it reads."""

    lag: GroupLag
    pace: Pace | None

    @property
    def catches_up(self) -> float | None:
        """Seconds until it has read everything, at this pace; None if it never will."""
        return None if self.pace is None else self.pace.seconds_to_catch_up(self.lag.records)


@dataclass(frozen=True, slots=True)
class GroupsSample:
    """All groups at one moment."""

    rows: Mapping[str, GroupRow] = field(default_factory=dict)
    lag: LagSample | None = None


class GroupsGatherer:
    """Measures lag and keeps its history. Belongs to one thread, but `points`."""

    def __init__(
        self, cluster: Cluster, settings: LagSettings, *, clock: Clock | None = None
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._clock = clock or SystemClock()
        self._source = ClusterLagSource(cluster)
        isolation = isolation_by(settings.read_uncommitted)
        self._meter = LagMeter(self._source, isolation_of=isolation, clock=clock)
        self._rates = LagRates()
        self._history: LagHistory | None = None

    def gather(self) -> GroupsSample:
        """One measurement; ClusterError if that is not possible."""
        sample = self._meter.measure()
        if self._history is None:
            self._history = self._opened()
        self._history.add(sample)
        self._rates.add(sample)
        rows = {each.name: GroupRow(each, self._rates.of(each.name)) for each in sample.groups}
        return GroupsSample(dict(sorted(rows.items())), sample)

    def points(self, group: str) -> list[LagPoint]:
        """The course of a group's lag over the last hour; any thread may ask."""
        if self._history is None:
            return []
        now = self._clock.now_ms()
        return self._history.points(
            group, since_ms=now - CHART_MS, until_ms=now + 1, count=_CHART_POINTS
        )

    def close(self) -> None:
        """Let go of connections and files."""
        self._source.close()
        if self._history is not None:
            self._history.close()

    def _opened(self) -> LagHistory:
        retention = self._settings.history_ms
        try:
            return LagHistory.open(self._settings.state, self._cluster.id, retention_ms=retention)
        except HistoryUnusable:
            # A console without yesterday is better than none.
            return LagHistory.in_memory(retention_ms=retention)
