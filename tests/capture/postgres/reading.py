"""What a source tells, without a capture around it."""

import time
from collections.abc import Callable
from typing import Any

from headrace.capture.changes import Commit, Event, Position, Reached, RowChange
from headrace.capture.errors import CaptureBusy
from headrace.capture.postgres import PostgresSource
from headrace.capture.selection import Selection
from headrace.capture.source import LogStream


def source_of(url: str, *tables: str, **options: Any) -> PostgresSource:
    source = PostgresSource(url, "test", Selection(tables or ("*",), **options))
    source.prepare(None)
    return source


def reopened(source: PostgresSource, position: Position) -> LogStream:
    """The log behind a position, once the server has noticed that the stream before is gone."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return source.open(position)
        except CaptureBusy:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def events_until(
    stream: LogStream, enough: Callable[[list[Event]], bool], seconds: float = 30.0
) -> list[Event]:
    """What the stream tells until it is enough."""
    events: list[Event] = []
    deadline = time.monotonic() + seconds
    while not enough(events):
        assert time.monotonic() < deadline, events
        events += stream.read(0.5)
    return events


def committed(transactions: int) -> Callable[[list[Event]], bool]:
    """So many commits, without the greeting that every stream begins with."""
    return lambda events: sum(isinstance(each, Commit) for each in events) > transactions


def changes_in(events: list[Event]) -> list[RowChange]:
    return [each for each in events if isinstance(each, RowChange)]


def reached(events: list[Event]) -> bool:
    return any(isinstance(each, Reached) for each in events)
