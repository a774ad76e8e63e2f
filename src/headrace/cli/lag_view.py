"""Lag as `headrace groups watch` shows it: as JSON lines, as plain tables, or on a live screen."""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, TextIO

from headrace.cli.output import Cell, duration, print_table, remark
from headrace.kafka import GroupLag, LagSample, PartitionLag
from headrace.kafka.lag_history import LagHistory
from headrace.kafka.lag_rates import LagRates, Pace

HEADINGS = ("GROUP", "STATE", "KIND", "LAG", "TIME", "RATE", "CATCHES UP", "LOST", "LAST HOUR")

_BARS = "▁▂▃▄▅▆▇█"
_CHART_MS = 3600_000
_CHART_WIDTH = 20


@dataclass(frozen=True, slots=True)
class GroupLine:
    """What is shown of one group."""

    group: GroupLag
    pace: Pace | None
    chart: str

    def cells(self) -> tuple[Cell, ...]:
        """Its row in a table."""
        return (
            self.group.name,
            self.group.state,
            self.group.protocol,
            self.group.records,
            duration(self.group.time_ms),
            None if self.pace is None else f"{self.pace.consumed:,.0f}/s",
            self._catches_up(),
            self.group.lost,
            self.chart,
        )

    def as_json(self, at_ms: int) -> dict[str, object]:
        """Its line for programs."""
        pace = self.pace
        return {
            "at": _iso(at_ms),
            "group": self.group.name,
            "state": self.group.state,
            "protocol": self.group.protocol,
            "isolation": self.group.isolation,
            "lag": self.group.records,
            "time_lag_ms": self.group.time_ms,
            "lost": self.group.lost,
            "consumed_per_second": None if pace is None else round(pace.consumed, 3),
            "produced_per_second": None if pace is None else round(pace.produced, 3),
            "seconds_to_catch_up": (
                None if pace is None else pace.seconds_to_catch_up(self.group.records)
            ),
            "partitions": [_partition_as_json(each) for each in self.group.partitions],
        }

    def _catches_up(self) -> str | None:
        if self.pace is None:
            return None
        seconds = self.pace.seconds_to_catch_up(self.group.records)
        if seconds is None:
            return "falls behind" if self.pace.produced > self.pace.consumed else "stands still"
        return f"in {duration(seconds * 1000)}" if seconds else "is there"


class LagView(Protocol):
    """Somewhere to show samples."""

    def show(self, sample: LagSample) -> None:
        """Show the newest sample."""
        ...


class Lines:
    """Turns samples into lines, with what earlier ones say about pace and course."""

    def __init__(self, history: LagHistory) -> None:
        self._history = history
        self._rates = LagRates()

    def of(self, sample: LagSample) -> list[GroupLine]:
        """A line for each group."""
        self._rates.add(sample)
        return [
            GroupLine(each, self._rates.of(each.name), self._chart(each.name, sample.at_ms))
            for each in sample.groups
        ]

    def _chart(self, group: str, now_ms: int) -> str:
        since_ms = now_ms - _CHART_MS
        points = self._history.points(
            group, since_ms=since_ms, until_ms=now_ms + 1, count=_CHART_WIDTH
        )
        span = -(-(_CHART_MS + 1) // _CHART_WIDTH)
        values = {(each.at_ms - since_ms) // span: each.records for each in points}
        return sparkline([values.get(number) for number in range(_CHART_WIDTH)])


class JsonLines:
    """One JSON object per group and sample."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def show(self, sample: LagSample) -> None:
        """Print the newest sample."""
        for line in self._lines.of(sample):
            print(json.dumps(line.as_json(sample.at_ms), ensure_ascii=False))
        sys.stdout.flush()


class PlainTables:
    """A table per sample, where there is no terminal or only one sample."""

    def __init__(self, lines: Lines, *, in_detail: bool) -> None:
        self._lines = lines
        self._in_detail = in_detail
        self._first = True

    def show(self, sample: LagSample) -> None:
        """Print the newest sample."""
        if not self._first:
            print(f"\n{_iso(sample.at_ms)}")
        self._first = False
        if not sample.groups:
            remark("There are no consumer groups yet.")
            return
        print_table(HEADINGS, [line.cells() for line in self._lines.of(sample)])
        if self._in_detail:
            print()
            print_table(*partition_table(sample))
        sys.stdout.flush()


@contextmanager
def view_for(
    output: TextIO, history: LagHistory, *, as_json: bool, in_detail: bool, once: bool
) -> Iterator[LagView]:
    """The view that suits the output; what the monitor has to say goes to stderr meanwhile."""
    lines = Lines(history)
    with _remarks():
        if as_json:
            yield JsonLines(lines)
        elif once or not output.isatty():
            yield PlainTables(lines, in_detail=in_detail)
        else:
            from headrace.cli.lag_screen import LagScreen

            with LagScreen(lines, in_detail=in_detail) as screen:
                yield screen


def partition_table(sample: LagSample) -> tuple[tuple[str, ...], list[tuple[Cell, ...]]]:
    """Headings and rows of all partitions of all groups of a sample."""
    headings = ("GROUP", "TOPIC", "PARTITION", "COMMITTED", "LATEST", "LAG", "TIME", "LOST")
    return headings, [
        (
            group.name,
            *each.partition,
            each.committed,
            each.latest,
            each.records,
            duration(each.time_ms),
            each.lost,
        )
        for group in sample.groups
        for each in group.partitions
    ]


def sparkline(values: list[int | None]) -> str:
    """A row of bars, the highest for the highest value; a blank where nothing is known.

    >>> sparkline([0, 1, None, 7])
    '▁▂ █'
    """
    highest = max((each for each in values if each is not None), default=0) or 1
    return "".join(
        " " if each is None else _BARS[min(each * len(_BARS) // (highest + 1), len(_BARS) - 1)]
        for each in values
    )


@contextmanager
def _remarks() -> Iterator[None]:
    """What the monitor logs, as remarks on stderr, which a live screen knows to make room for."""

    class Remarks(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            remark(f"{_iso(round(record.created * 1000))} {record.getMessage()}")

    handler, log = Remarks(), logging.getLogger("headrace.lag")
    level, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate


def _partition_as_json(lag: PartitionLag) -> dict[str, object]:
    return {
        "topic": lag.partition.topic,
        "partition": lag.partition.number,
        "committed": lag.committed,
        "earliest": lag.earliest,
        "latest": lag.latest,
        "lag": lag.records,
        "time_lag_ms": lag.time_ms,
        "lost": lag.lost,
    }


def _iso(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
