"""A row from a database to a browser, hop by hop: `make bench NAME=hops`.

A row of PostgreSQL is updated some times a second. `headrace capture` tells it in a topic, a flow
on Spark keeps a table of it as a view, `headrace serve` pushes the view's changes, and a reader of
the event stream compares the clock with the one in the row. Records carry the time at which they
were written, so each hop can be told apart. There is no peer: nobody else has all of it.

    commit    from the statement, which commits, to the record of the capture
    flow      from there to the record of the view's topic
    view      from there to the event at the subscriber
    total     from the statement to the event
"""

import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from rich.console import Console
from rich.table import Table

from benchmarks.command import Options, command
from benchmarks.experiment import NothingMeasured
from benchmarks.peers import Fleet, Server, launch_headrace, stop
from benchmarks.report import machine
from headrace.settings import KafkaSettings, Settings, StreamsSettings
from headrace.streams import Flow
from headrace.testing.probe import free_ports
from headrace.views import Views
from tests.capture.servers import PostgresServer

_CAPTURED = "shop.public.prices"
_VIEW_TOPIC = "views.prices"
_PAUSE_SECONDS = 0.05
_START_SECONDS = 180.0

Times = dict[int, float]
"""When the change of each number was seen somewhere, in milliseconds since the epoch."""


def main() -> None:
    """Run it from the command line."""
    options = Options.parse("From a database's row to the event at a subscriber.")
    changes = 100 if options.quick else 1_000
    with (
        command(),
        Fleet() as fleet,
        _database() as database,
        tempfile.TemporaryDirectory() as path,
    ):
        print(machine(), file=sys.stderr)
        broker = fleet.server(launch_headrace)
        with _chain(broker, database, Path(path)) as views:
            sent, heard = _changed(database, views, changes)
        seen = {topic: _written(broker, topic) for topic in (_CAPTURED, _VIEW_TOPIC)}
    _report(sent, seen[_CAPTURED], seen[_VIEW_TOPIC], heard)


@contextlib.contextmanager
def _database() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        with contextlib.closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(
                "CREATE TABLE prices (id int PRIMARY KEY, n int, price double precision)"
            )
            cursor.execute("INSERT INTO prices SELECT i, 0, i FROM generate_series(1, 100) i")
        yield server
    finally:
        server.remove()


@contextlib.contextmanager
def _chain(broker: Server, database: PostgresServer, path: Path) -> Iterator[Views]:
    """Capture, flow and server of views, each as people run it; gives what reads the view."""
    (port,) = free_ports(1)
    settings = Settings(
        kafka=KafkaSettings(bootstrap=broker.bootstrap),
        streams=StreamsSettings(master="local[2]", checkpoints=str(path / "flows")),
    )
    with contextlib.ExitStack() as running:
        capture = ("capture", database.url(), "--tables", "prices", "--to", "shop")
        running.enter_context(_process(path, *capture, "-b", broker.bootstrap))
        _await(lambda: bool(_written(broker, _CAPTURED)), "the capture tells nothing")
        flow = Flow("hops", settings=settings)
        columns = "id int, n int, price double"
        flow.view("prices", flow.table(_CAPTURED, columns, key="id", format="debezium"))
        running.enter_context(flow.start())
        served = ("serve", "--listen", f"127.0.0.1:{port}", "--directory", str(path / "views"))
        running.enter_context(_process(path, *served, "-b", broker.bootstrap))
        views = Views(f"http://127.0.0.1:{port}")
        _await(lambda: _count(views) == 100, "the view is not filled")
        yield views


def _changed(database: PostgresServer, views: Views, changes: int) -> tuple[Times, Times]:
    """Update rows one after the other; when each was sent, and when a subscriber heard of it."""
    sent: Times = {}
    heard: Times = {}
    begun, done = threading.Event(), threading.Event()

    def listen() -> None:
        for event in views.follow("prices", stopped=done.is_set):
            now = time.time() * 1000
            if event.name == "up-to-date":
                begun.set()
            for each in event.data.get("changes", ()):
                heard.setdefault(each["row"]["n"], now)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    begun.wait(_START_SECONDS)
    with contextlib.closing(database.connect()) as connection, connection.cursor() as cursor:
        for number in range(1, changes + 1):
            sent[number] = time.time() * 1000
            cursor.execute("UPDATE prices SET n = %s WHERE id = %s", (number, number % 100 + 1))
            time.sleep(_PAUSE_SECONDS)
    _await(lambda: len(heard) >= changes, "the subscriber has not heard everything")
    done.set()
    return sent, heard


def _written(broker: Server, topic: str) -> Times:
    """When the record of each number was written, by the records' own times."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "hops"})
    found: Times = {}
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while (record := consumer.poll(2.0)) is not None:
            value = record.value()
            if record.error() is None and value is not None:
                row = _row(value)
                found.setdefault(row["n"], float(record.timestamp()[1]))
    return found


def _row(value: bytes) -> dict[str, Any]:
    import orjson

    parsed = orjson.loads(value)
    row: dict[str, Any] = parsed.get("after", parsed)
    return row


def _report(sent: Times, captured: Times, told: Times, heard: Times) -> None:
    numbers = sorted(sent.keys() & captured.keys() & told.keys() & heard.keys())
    if len(numbers) < len(sent):
        raise NothingMeasured(f"{len(sent) - len(numbers)} changes were not seen at every hop")
    # The first ones meet a Spark that is still compiling.
    numbers = numbers[len(numbers) // 4 :]
    hops = {
        "commit": (sent, captured),
        "flow": (captured, told),
        "view": (told, heard),
        "total": (sent, heard),
    }
    drawn = Table("hop", title="milliseconds", title_justify="left")
    for heading in ("p50", "p99"):
        drawn.add_column(heading, justify="right")
    for name, (start, end) in hops.items():
        taken = [end[number] - start[number] for number in numbers]
        drawn.add_row(name, *(f"{each:,.0f}" for each in np.percentile(taken, [50, 99])))
    Console(width=None if Console().is_terminal else 80).print(drawn)


@contextlib.contextmanager
def _process(path: Path, *arguments: str) -> Iterator[None]:
    with (path / f"{arguments[0]}.log").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace", *arguments],
            cwd=path,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
        finally:
            stop(process)


def _count(views: Views) -> int:
    try:
        return views.count("prices")
    except Exception:
        return 0


def _await(condition: Any, otherwise: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise NothingMeasured(otherwise)
        time.sleep(0.1)


if __name__ == "__main__":
    main()
