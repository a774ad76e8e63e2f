"""Alarms about lag: raised once when a threshold is crossed, taken back once when it has passed."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import ClassVar

from headrace.kafka.lag import LagSample, PartitionLag
from headrace.settings import AlertRule, readable_duration

RECOVERY = 0.8
"""The part of a threshold below which a lag counts as recovered; between the two nothing changes,
so that a lag that wavers around its threshold raises one alarm and not hundreds."""


class AlertState(StrEnum):
    """What an alarm says."""

    FIRING = "firing"
    RECOVERED = "recovered"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alarm, or its end; `since_ms` is when the threshold was crossed."""

    kind: ClassVar[str] = "lag"
    state: AlertState
    rule: AlertRule
    group: str
    topic: str
    records: int
    time_ms: int | None
    at_ms: int
    since_ms: int
    number: int = 1
    """Which [[lag.alerts]] the rule is, counted from 1."""

    def as_json(self) -> dict[str, object]:
        """What receivers are told."""
        return {
            "state": self.state.value,
            "rule": self.number,
            "group": self.group,
            "topic": self.topic,
            "records": self.records,
            "time_ms": self.time_ms,
            "max_records": self.rule.max_records,
            "max_time_ms": self.rule.max_time_ms,
            "at_ms": self.at_ms,
            "since_ms": self.since_ms,
        }

    def __str__(self) -> str:
        time = "" if self.time_ms is None else f", {readable_duration(self.time_ms)}"
        behind = f"group {self.group} is {self.records} records{time} behind in {self.topic}"
        return f"{self.state.value}: {behind} (rule {self.number})"


@dataclass(slots=True)
class Watch:
    """How one thing that is watched stands by one rule."""

    firing: bool = False
    crossed_ms: int = 0
    """When the threshold was crossed that the alarm is about."""

    changing_since_ms: int | None = None

    def step(self, *, changing: bool, for_ms: int, now_ms: int) -> AlertState | None:
        """Move on; the alarm or its end, if it comes to that now.

        `changing` says that it would have to fire, or if it fires already, that it has recovered.
        Only what has held for as long as `for_ms` counts.
        """
        if not changing:
            self.changing_since_ms = None
            return None
        if self.changing_since_ms is None or now_ms < self.changing_since_ms:
            self.changing_since_ms = now_ms
        if now_ms - self.changing_since_ms < for_ms:
            return None
        if not self.firing:
            self.crossed_ms = self.changing_since_ms
        self.firing = not self.firing
        self.changing_since_ms = None
        return AlertState.FIRING if self.firing else AlertState.RECOVERED


class Alerts:
    """Judges samples by rules; the caller sends what comes of it.

    A rule is applied to each group and topic that it matches: to the records of all partitions
    together, and to the time of the worst one. It fires when a threshold has been exceeded for as
    long as the rule says, and recovers when the lag has been at `RECOVERY` of every threshold or
    below for as long. What could not be measured changes nothing; a group that is gone has no lag.
    """

    def __init__(self, rules: Sequence[AlertRule]) -> None:
        self._rules = rules
        self._watches: dict[tuple[int, str, str], Watch] = {}

    @property
    def firing(self) -> frozenset[tuple[str, str]]:
        """The groups and topics with an alarm that has not recovered."""
        return frozenset(key[1:] for key, watch in self._watches.items() if watch.firing)

    def judge(self, sample: LagSample) -> list[Alert]:
        """The alarms that this sample raises or ends, in the order of the rules."""
        lags = {(group, topic): lag for group, topic, lag in _totals(sample)}
        raised = []
        for number, rule in enumerate(self._rules, 1):
            known = [key[1:] for key in self._watches if key[0] == number and key[1:] not in lags]
            matching = [key for key in lags if _matches(rule, *key)]
            for group, topic in (*matching, *known):
                records, time_ms = lags.get((group, topic), (0, 0))
                watch = self._watches.setdefault((number, group, topic), Watch())
                changing = _changes(watch, rule, records, time_ms)
                state = watch.step(changing=changing, for_ms=rule.for_ms, now_ms=sample.at_ms)
                if state is not None:
                    times = sample.at_ms, watch.crossed_ms
                    raised.append(
                        Alert(state, rule, group, topic, records, time_ms, *times, number)
                    )
                if not watch.firing and (group, topic) not in lags:
                    del self._watches[number, group, topic]
        return raised


def _totals(sample: LagSample) -> Iterator[tuple[str, str, tuple[int, int | None]]]:
    for group in sample.groups:
        topics: dict[str, list[PartitionLag]] = {}
        for each in group.partitions:
            topics.setdefault(each.partition.topic, []).append(each)
        for topic, partitions in topics.items():
            times = [each.time_ms for each in partitions]
            known = [time for time in times if time is not None]
            records = sum(each.records or 0 for each in partitions)
            yield group.name, topic, (records, max(known) if known else None)


def _matches(rule: AlertRule, group: str, topic: str) -> bool:
    return fnmatchcase(group, rule.group) and fnmatchcase(topic, rule.topic)


def _changes(watch: Watch, rule: AlertRule, records: int, time_ms: int | None) -> bool:
    """Whether a watch would have to fire, or to recover."""
    if watch.firing:
        return _is_below(rule, records, time_ms, RECOVERY)
    return not _is_below(rule, records, time_ms, 1.0, unknown=True)


def _is_below(
    rule: AlertRule, records: int, time_ms: int | None, part: float, *, unknown: bool = False
) -> bool:
    """Whether all thresholds, or this part of them, are kept; `unknown` is for a time not known."""
    if records > _share(rule.max_records, part):
        return False
    if rule.max_time_ms is None:
        return True
    return unknown if time_ms is None else time_ms <= _share(rule.max_time_ms, part)


def _share(threshold: int | None, part: float) -> float:
    return math.inf if threshold is None else threshold * part
