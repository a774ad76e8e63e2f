"""What is alarming now, what was, and who was told."""

import json
import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from headrace.clock import Clock, SystemClock
from headrace.console.alerting.rules import (
    Measured,
    RunAlert,
    RunAlerts,
    measured_of_capture,
    measured_of_flow,
    measured_of_part,
    measured_of_sink,
)
from headrace.console.observing.captures import CapturesSample
from headrace.console.observing.flows import FlowsSample
from headrace.console.observing.groups import GroupsSample
from headrace.console.observing.observatory import Observatory
from headrace.console.observing.sinks import SinksSample
from headrace.console.supervising.record import UpSeen
from headrace.kafka.lag_alerts import Alert, Alerts, AlertState
from headrace.kafka.lag_delivery import Delivery, relay_of

VERSION: Final = 1
"""Of the lines in the file."""

REMEMBERED: Final = 500
"""Alarms that are remembered."""

_FILE_BYTES: Final = 4 << 20
"""Beyond which the file is begun anew with what is remembered."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Remembered:
    """An alarm, or its end, as it is shown."""

    at_ms: int
    firing: bool
    subject: str
    text: str
    link: str
    """The page of what it is about."""


class AlertWatch:
    """Judges all that is observed, sends what comes of it, and remembers it in a file.

    Args:
        observatory: What is observed.
        path: The file; what it has is remembered from the start.
        clock: The time.
    """

    def __init__(self, observatory: Observatory, path: Path, *, clock: Clock | None = None) -> None:
        settings = observatory.settings
        self._path = path
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._lag = Alerts(settings.lag.alerts)
        self._runs = RunAlerts(settings.console.alerts)
        self._delivery = Delivery(relay=relay_of(settings.lag))
        self._firing: dict[str, Remembered] = {}
        self._history: deque[Remembered] = deque(_stored(path), maxlen=REMEMBERED)
        observatory.groups.tell(self._heard_groups)
        observatory.flows.tell(self._heard_flows)
        observatory.captures.tell(self._heard_captures)
        observatory.sinks.tell(self._heard_sinks)
        observatory.up.tell(self._heard_parts)

    @property
    def firing(self) -> list[Remembered]:
        """What is alarming now, the newest first."""
        with self._lock:
            return sorted(self._firing.values(), key=lambda each: -each.at_ms)

    @property
    def history(self) -> list[Remembered]:
        """What was, the newest first."""
        with self._lock:
            return list(reversed(self._history))

    @property
    def failed(self) -> int:
        """Alarms that a receiver did not get."""
        return self._delivery.failed

    def close(self) -> None:
        """Give what is to be sent a last attempt."""
        self._delivery.close()

    def _heard_groups(self, sample: GroupsSample) -> None:
        if sample.lag is not None:
            self._take(self._lag.judge(sample.lag))

    def _heard_flows(self, sample: FlowsSample) -> None:
        self._judge(each for row in sample.rows.values() for each in measured_of_flow(row))

    def _heard_captures(self, sample: CapturesSample) -> None:
        self._judge(each for row in sample.rows.values() for each in measured_of_capture(row))

    def _heard_sinks(self, sample: SinksSample) -> None:
        self._judge(each for row in sample.rows.values() for each in measured_of_sink(row))

    def _heard_parts(self, seen: UpSeen) -> None:
        self._judge(each for part in seen.parts for each in measured_of_part(part))

    def _judge(self, measured: Iterable[Measured]) -> None:
        with self._lock:
            raised = self._runs.judge(list(measured), self._clock.now_ms())
        self._take(raised)

    def _take(self, alerts: Sequence[Alert | RunAlert]) -> None:
        if not alerts:
            return
        self._delivery.send(alerts)
        with self._lock:
            for alert in alerts:
                key, remembered = _remembered(alert)
                self._history.append(remembered)
                if alert.state is AlertState.FIRING:
                    self._firing[key] = remembered
                else:
                    self._firing.pop(key, None)
                self._write(remembered)

    def _write(self, remembered: Remembered) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            grown = self._path.exists() and self._path.stat().st_size > _FILE_BYTES
            lines = list(self._history) if grown else [remembered]
            with self._path.open("w" if grown else "a", encoding="utf-8") as file:
                file.writelines(_line(each) for each in lines)
        except OSError as error:
            logger.warning("the history of alarms cannot be kept in %s: %s", self._path, error)


def _remembered(alert: Alert | RunAlert) -> tuple[str, Remembered]:
    firing = alert.state is AlertState.FIRING
    text = str(alert).partition(": ")[2]
    if isinstance(alert, Alert):
        subject, link = f"group {alert.group}", f"/group?name={alert.group}"
        key = f"{alert.number} {subject} {alert.topic}"
    else:
        subject = alert.measured.subject
        kind, _, name = subject.partition(" ")
        pages = {"flow": f"/flow?title={name}", "capture": "/captures", "sink": "/views"}
        link, key = (
            pages.get(kind, "/processes"),
            f"run {alert.number} {subject} {alert.measured.measure}",
        )
    return key, Remembered(alert.at_ms, firing, subject, text, link)


def _line(remembered: Remembered) -> str:
    told = {
        "version": VERSION,
        "at_ms": remembered.at_ms,
        "firing": remembered.firing,
        "subject": remembered.subject,
        "text": remembered.text,
        "link": remembered.link,
    }
    return json.dumps(told, ensure_ascii=False) + "\n"


def _stored(path: Path) -> list[Remembered]:
    """What a file remembers; lines that this version cannot read are left out."""
    found = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    for line in lines[-REMEMBERED:]:
        try:
            told = cast("dict[str, Any]", json.loads(line))
            if told.pop("version") <= VERSION:
                found.append(Remembered(**told))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return found
