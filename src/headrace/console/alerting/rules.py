"""Alarms about flows, captures, sinks and processes: raised once, taken back once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar, Final

from headrace.console.observing.captures import CaptureRow
from headrace.console.observing.flows import FlowRow
from headrace.console.observing.sinks import SinkRow
from headrace.console.supervising.record import PartSeen
from headrace.kafka.lag_alerts import RECOVERY, AlertState, Watch
from headrace.settings import ConsoleAlert, readable_duration

LIMITS: Final[Mapping[str, str]] = {
    "lag": "max_lag",
    "behind_ms": "max_behind_ms",
    "dropped": "max_dropped",
    "restarts": "max_restarts",
    "retained": "max_retained",
}
"""The setting that limits each measure; "down" has none, it is or it is not."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Something that can be too much, of something that runs."""

    subject: str
    """Such as "flow orders"."""

    measure: str
    value: int

    @property
    def name(self) -> str:
        """The subject without its kind, which rules name."""
        return self.subject.partition(" ")[2]


@dataclass(frozen=True, slots=True)
class RunAlert:
    """One alarm, or its end."""

    kind: ClassVar[str] = "run"
    state: AlertState
    rule: ConsoleAlert
    measured: Measured
    at_ms: int
    since_ms: int
    number: int
    """Which [[console.alerts]] the rule is, counted from 1."""

    def as_json(self) -> dict[str, object]:
        """What receivers are told."""
        return {
            "state": self.state.value,
            "rule": self.number,
            "subject": self.measured.subject,
            "measure": self.measured.measure,
            "value": self.measured.value,
            "limit": limit_of(self.rule, self.measured.measure),
            "at_ms": self.at_ms,
            "since_ms": self.since_ms,
        }

    def __str__(self) -> str:
        measure, value = self.measured.measure, self.measured.value
        what = {
            "lag": f"has {value:,} records to read",
            "behind_ms": f"is {readable_duration(value)} behind its database",
            "dropped": f"has dropped {value:,} records",
            "restarts": f"was started again {value:,} times",
            "retained": f"makes its database keep {value:,} bytes of log",
            "down": "does not run" if value else "runs",
        }[measure]
        return f"{self.state.value}: {self.measured.subject} {what} (rule {self.number})"


class RunAlerts:
    """Judges what was measured by rules; see `headrace.kafka.lag_alerts` for how one recovers."""

    def __init__(self, rules: Sequence[ConsoleAlert]) -> None:
        self._rules = rules
        self._watches: dict[tuple[int, str, str], Watch] = {}

    def judge(self, measured: Iterable[Measured], now_ms: int) -> list[RunAlert]:
        """The alarms that this raises or ends; what was not measured changes nothing."""
        raised = []
        for each in measured:
            for number, rule in enumerate(self._rules, 1):
                limit = limit_of(rule, each.measure)
                if limit is None or not fnmatchcase(each.name, rule.name):
                    continue
                key = (number, each.subject, each.measure)
                watch = self._watches.setdefault(key, Watch())
                threshold = limit * RECOVERY if watch.firing else limit
                over = each.value > threshold
                state = watch.step(
                    changing=over is not watch.firing, for_ms=rule.for_ms, now_ms=now_ms
                )
                if state is not None:
                    raised.append(RunAlert(state, rule, each, now_ms, watch.crossed_ms, number))
        return raised


def limit_of(rule: ConsoleAlert, measure: str) -> int | None:
    """What is still fine by a rule; None if it says nothing about the measure."""
    if measure == "down":
        return 0 if rule.down else None
    limit: int | None = getattr(rule, LIMITS[measure])
    return limit


def measured_of_flow(flow: FlowRow) -> Iterator[Measured]:
    """What can be too much of a flow."""
    subject = f"flow {flow.title}"
    yield Measured(subject, "down", int(not flow.healthy))
    if flow.lag is not None and flow.runs:
        yield Measured(subject, "lag", flow.lag)
    yield Measured(subject, "dropped", flow.dropped)
    yield Measured(subject, "restarts", flow.restarts)


def measured_of_capture(capture: CaptureRow) -> Iterator[Measured]:
    """What can be too much of a capture."""
    subject = f"capture {capture.name}"
    yield Measured(subject, "down", int(not capture.healthy))
    if capture.behind_ms is not None:
        yield Measured(subject, "behind_ms", capture.behind_ms)
    if capture.retained is not None:
        yield Measured(subject, "retained", capture.retained)
    yield Measured(subject, "restarts", capture.restarts)


def measured_of_sink(sink: SinkRow) -> Iterator[Measured]:
    """What can be too much of a sink."""
    subject = f"sink {sink.name}"
    yield Measured(subject, "down", int(sink.health == "bad"))
    if sink.behind is not None:
        yield Measured(subject, "lag", sink.behind)
    yield Measured(subject, "dropped", sink.rejected + sink.lost)
    yield Measured(subject, "restarts", sink.restarts)


def measured_of_part(part: PartSeen) -> Iterator[Measured]:
    """What can be too much of a process."""
    subject = f"process {part.name}"
    yield Measured(subject, "down", int(part.doing == "pausing"))
    yield Measured(subject, "restarts", part.restarts)
