"""A session with a log of the test's own."""

import itertools
import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from headrace.capture.changes import Events, Position, Reached, Table
from headrace.capture.progress import CaptureProgress
from headrace.capture.session import Session
from headrace.capture.source import LogDistance
from headrace.clock import SystemClock
from headrace.kafka import Cluster as Kafka
from headrace.settings import CaptureSettings, KafkaSettings
from tests.capture.replaying import eventually
from tests.clusters import HEADRACE, Cluster


class BusyElsewhere:
    """A database in which only others write: its log goes on all the time, with nothing for us."""

    connector = "restless"
    database = "restless"
    schema = "restless"
    start: Position = "0"

    def __init__(self) -> None:
        self.confirmed: list[Position] = []
        self._numbers = itertools.count(1)

    def prepare(self, resume: Position | None) -> Position | None:
        return "0"

    def open(self, position: Position | None) -> "BusyElsewhere":
        return self

    def read(self, seconds: float) -> Events:
        time.sleep(0.001)
        return [Reached(str(next(self._numbers)))]

    def confirm(self, position: Position) -> None:
        self.confirmed.append(position)

    def tables(self) -> Sequence[Table]:
        return []

    def origin_schema(self) -> list[Any]:
        return []

    def distance(self) -> LogDistance:
        return LogDistance(0, 0)

    def extend(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("cluster", [HEADRACE], indirect=True)
def test_a_position_is_stored_and_confirmed_while_only_others_write(
    cluster: Cluster, fresh_name: str
) -> None:
    source: Any = BusyElsewhere()
    settings = CaptureSettings(url="x://y/z", tables=("*",), to=fresh_name, heartbeat_ms=100)
    progress, stopping = CaptureProgress(fresh_name), threading.Event()
    session = Session(
        settings,
        Kafka(KafkaSettings(bootstrap=cluster.bootstrap)),
        source,
        clock=SystemClock(),
        progress=progress,
        stopping=stopping,
        wishes=queue.SimpleQueue(),
    )
    running = threading.Thread(target=session.run)
    running.start()
    try:
        eventually(lambda: len(source.confirmed) >= 2, 20)
    finally:
        stopping.set()
        running.join()
    assert progress.position is not None
    assert int(source.confirmed[1]) > int(source.confirmed[0])
