"""A database's changes in topics, beside Debezium: `make bench NAME=capture`.

Both capture the same PostgreSQL into topics of the same Headrace broker, as JSON without schemas:
Headrace with `headrace capture`, exactly once, which it always does; Debezium on a Kafka Connect
worker with its defaults, at least once. Every measurement starts a process of its own. What it
needs to start does not count: the clock runs from when a tenth of the records is in the topic to
when readers of committed records see the last one.

Debezium waits half a second for more before it hands over what there is, unless it is told
otherwise (`poll.interval.ms`). So latency is measured beside its default and beside 1 ms.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, TopicPartition

from benchmarks.command import Options, command
from benchmarks.debezium import DEBEZIUM, Debezium
from benchmarks.experiment import Experiment, Figures, NothingMeasured, run
from benchmarks.peers import HEADRACE, Fleet, as_installed, launch_headrace, stop
from benchmarks.process import memory_bytes
from benchmarks.report import Better, Row
from benchmarks.shop_database import ShopDatabase
from headrace.kafka import (
    Cluster,
    Isolation,
    Partition,
    UnknownTopic,
    create_topic,
    delete_topic,
    list_topics,
    offset_ranges,
)
from headrace.settings import KafkaSettings

TUNED = f"{DEBEZIUM}, polling every 1 ms"

_RATE, _MEMORY, _P50, _P99 = "records_per_second", "memory_mb", "p50_ms", "p99_ms"
_POLL_SECONDS = 0.02
_PATIENCE_SECONDS = 300.0
_PER_SECOND = 500
_CAUGHT_UP_SECONDS = 2.0
_SETTLE_SECONDS = 5.0
_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    rounds: int
    changes: int
    rows: int
    seconds: int


FULL = Scale(rounds=3, changes=500_000, rows=2_000_000, seconds=20)
QUICK = Scale(rounds=1, changes=60_000, rows=200_000, seconds=4)


@dataclass(frozen=True, slots=True)
class Task:
    """What one capture has to do."""

    url: str
    bootstrap: str
    name: str
    table: str
    snapshot: bool = False

    @property
    def topic(self) -> str:
        """Where the table's changes go."""
        return f"{self.name}.public.{self.table}"


class Running(Protocol):
    """A capture in a process of its own."""

    @property
    def pid(self) -> int:
        """Its process id."""

    def check(self) -> None:
        """Raise if it does not run any more."""


Start = Callable[[Task], contextlib.AbstractContextManager[Running]]
"""Starts a capture that ends with the block."""

Measure = Callable[[Cluster, ShopDatabase, Start], Figures]
"""Puts one load on a capture."""


class HeadraceCapture:
    """A process that runs `headrace capture`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log
        self.pid = process.pid

    def check(self) -> None:
        """Raise if it does not run any more."""
        if self._process.poll() is not None:
            raise NothingMeasured(f"the capture ended by itself: {self._log.read_text()[-2000:]}")


@contextlib.contextmanager
def headrace(task: Task) -> Iterator[HeadraceCapture]:
    """Capture with Headrace."""
    with tempfile.TemporaryDirectory(prefix="headrace-capture-") as directory:
        log = Path(directory) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "headrace", "capture", task.url),
                    *("--tables", task.table, "--to", task.name, "--bootstrap", task.bootstrap),
                    *("--set", f"snapshot={str(task.snapshot).lower()}"),
                ],
                cwd=directory,
                env=as_installed(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield HeadraceCapture(process, log)
        finally:
            stop(process)


def debezium(task: Task, **options: str) -> Debezium:
    """Capture with Debezium."""
    return Debezium(
        task.url,
        task.bootstrap,
        prefix=task.name,
        slot=f"headrace_{task.name}",
        tables=f"public.{task.table}",
        options={"snapshot.mode": "initial" if task.snapshot else "no_data"}
        | {name.replace("_", "."): value for name, value in options.items()},
    )


def experiments(fleet: Fleet, database: ShopDatabase, scale: Scale) -> list[Experiment]:
    """Small transactions, a large one, a snapshot, and latency."""
    sides: dict[str, Start] = {HEADRACE: headrace, DEBEZIUM: debezium}
    tuned = sides | {TUNED: partial(debezium, poll_interval_ms="1")}
    rate = Row("capture_backlog", "changes/s", Better.HIGHER, _RATE, HEADRACE, DEBEZIUM, 1.5)
    memory = Row("capture_memory", "MB", Better.LOWER, _MEMORY, HEADRACE, DEBEZIUM, 0.25)
    p50 = Row("capture_p50", "ms", Better.LOWER, _P50, HEADRACE, DEBEZIUM, 0.5)
    p99 = replace(p50, metric="capture_p99", figure=_P99, target=None)
    latencies = (
        p50,
        p99,
        replace(p50, metric="capture_p50_tuned", peer=TUNED, target=None),
        replace(p99, metric="capture_p99_tuned", peer=TUNED),
    )
    large = (
        replace(rate, metric="capture_large"),
        replace(memory, metric="capture_large_memory", target=None),
    )
    snapshot = (
        replace(rate, metric="capture_snapshot", unit="rows/s"),
        replace(memory, metric="capture_snapshot_memory", target=None),
    )
    latency = partial(_measure_latency, seconds=scale.seconds)
    loads: list[tuple[str, Measure, dict[str, Start], tuple[Row, ...]]] = [
        ("backlog", _measure_backlog, sides, (rate, memory)),
        ("large", _measure_large, sides, large),
        ("snapshot", _measure_snapshot, sides, snapshot),
        ("latency", latency, tuned, latencies),
    ]
    return [
        Experiment(
            name,
            {
                side: partial(_measured, fleet, database, measure, start)
                for side, start in on.items()
            },
            rows,
            rounds=scale.rounds,
            # Every measurement starts processes of its own, so there is nothing to warm up.
            warm_up=0,
        )
        for name, measure, on, rows in loads
    ]


def main() -> None:
    """Run the benchmark from the command line."""
    options = Options.parse("Changes of a database in topics, beside Debezium.")
    scale = QUICK if options.quick else FULL
    with (
        command(),
        Fleet() as fleet,
        ShopDatabase(changes=scale.changes, rows=scale.rows) as database,
    ):
        run("capture", experiments(fleet, database, scale), options)


def _measured(fleet: Fleet, database: ShopDatabase, measure: Measure, start: Start) -> Figures:
    bootstrap = fleet.server(launch_headrace).bootstrap
    return measure(Cluster(KafkaSettings(bootstrap=bootstrap)), database, start)


def _measure_backlog(cluster: Cluster, database: ShopDatabase, start: Start) -> Figures:
    total = database.write_single()
    with database.place("single") as name:
        task = Task(database.url, cluster.bootstrap, name, "changes")
        return _measure_rate(cluster, task, start, total)


def _measure_large(cluster: Cluster, database: ShopDatabase, start: Start) -> Figures:
    total = database.write_large()
    with database.place("large") as name:
        task = Task(database.url, cluster.bootstrap, name, "changes")
        return _measure_rate(cluster, task, start, total)


def _measure_snapshot(cluster: Cluster, database: ShopDatabase, start: Start) -> Figures:
    total = database.write_rows()
    with database.place() as name:
        task = Task(database.url, cluster.bootstrap, name, "items", snapshot=True)
        return _measure_rate(cluster, task, start, total)


def _measure_rate(cluster: Cluster, task: Task, start: Start, total: int) -> Figures:
    """From the first tenth of the records to the last one."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    with _tidied(cluster, task.name), start(task) as running:
        while (first := _end(cluster, task.topic, Isolation.READ_UNCOMMITTED)) < total // 10:
            _wait(running, deadline)
        began = time.monotonic()
        while _end(cluster, task.topic, Isolation.READ_COMMITTED) < total:
            _wait(running, deadline)
        seconds = time.monotonic() - began
        return {_RATE: (total - first) / seconds, _MEMORY: memory_bytes(running.pid) / _MB}


def _measure_latency(
    cluster: Cluster, database: ShopDatabase, start: Start, *, seconds: int
) -> Figures:
    """From when a commit has returned to when a reader of committed records has the change."""
    with database.place() as name:
        task = Task(database.url, cluster.bootstrap, name, "events")
        database.run("TRUNCATE events")
        create_topic(cluster, task.topic, partitions=1)
        with _tidied(cluster, name), start(task) as running, _writing(database) as committed:
            arrived = _arrivals(cluster, task.topic, running, committed, seconds)
    found = sorted(at - committed[number] for number, at in arrived.items())
    return {_P50: found[len(found) // 2] * 1000, _P99: found[len(found) * 99 // 100] * 1000}


@contextlib.contextmanager
def _writing(database: ShopDatabase) -> Iterator[dict[int, float]]:
    """Insert rows at a steady pace; the dictionary has when each was committed."""
    committed: dict[int, float] = {}
    over = threading.Event()

    def write() -> None:
        connection = database.connect()
        began = time.monotonic()
        with contextlib.closing(connection), connection.cursor() as cursor:
            number = 0
            while not over.wait(max(began + number / _PER_SECOND - time.monotonic(), 0.0)):
                number += 1
                cursor.execute(
                    "INSERT INTO events VALUES (%s, %s, 'an item', 1.25, now())",
                    (number, number % 1000),
                )
                committed[number] = time.monotonic()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield committed
    finally:
        over.set()
        writer.join()


def _arrivals(
    cluster: Cluster,
    topic: str,
    running: Running,
    committed: Mapping[int, float],
    seconds: int,
) -> dict[int, float]:
    """When changes came, of some seconds after it has caught up and settled down."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "latency",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    arrived: dict[int, float] = {}
    settled = None
    deadline = time.monotonic() + _PATIENCE_SECONDS
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(topic, 0, 0)])
        while settled is None or time.monotonic() < settled + seconds:
            message = consumer.poll(1.0)
            if message is None or message.error() is not None:
                _wait(running, deadline)
                continue
            at = time.monotonic()
            number = json.loads(message.value() or b"")["after"]["id"]
            if settled is None:
                _refuse_late(deadline)
                # What was written while it started has to be worked off first.
                if at - committed.get(number, at) < _CAUGHT_UP_SECONDS:
                    settled = at + _SETTLE_SECONDS
            elif at >= settled:
                arrived[number] = at
    return arrived


def _end(cluster: Cluster, topic: str, isolation: Isolation) -> int:
    """How far a topic has got; the marks of transactions count too, one in thousands."""
    where = Partition(topic, 0)
    try:
        return offset_ranges(cluster, [where], isolation=isolation)[where].latest
    except UnknownTopic:
        return 0


def _wait(running: Running, deadline: float) -> None:
    running.check()
    _refuse_late(deadline)
    time.sleep(_POLL_SECONDS)


def _refuse_late(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise NothingMeasured(f"the load was not mastered within {_PATIENCE_SECONDS:.0f} s")


@contextlib.contextmanager
def _tidied(cluster: Cluster, name: str) -> Iterator[None]:
    """Delete the topics of a capture when it has ended."""
    try:
        yield
    finally:
        for each in list_topics(cluster):
            if name in each.name.split("."):
                delete_topic(cluster, each.name)


if __name__ == "__main__":
    main()
