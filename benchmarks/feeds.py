"""Changes of a view to everybody who follows it: `make bench NAME=feeds`.

A thousand updates a second go to a topic; so many subscribers follow a view of it over event
streams, and each must hear every change, in order. From when a record is handed to the producer to
when a subscriber has the event is what is measured, for every change and every subscriber. The peer
is what people write by hand on the same parts: a server that keeps the topic in SQLite, where every
subscriber's stream polls for later versions (`benchmarks.polling_server`). Broker, server and
subscribers share the machine.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from confluent_kafka import Producer

from benchmarks import load
from benchmarks.command import Options, command
from benchmarks.crowd import allow_descriptors
from benchmarks.experiment import Experiment, Figures, NothingMeasured, run
from benchmarks.listeners import Listeners
from benchmarks.peers import HEADRACE, Fleet, Server, launch_headrace, stop
from benchmarks.process import cpu_seconds, memory_bytes
from benchmarks.report import Better, Row
from headrace.testing.probe import free_ports

POLLING = "every stream polls SQLite"

_KEYS = 100_000
"""More than are written: the peer has the latest row of a key only, and would miss changes."""

_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a run is."""

    rounds: int
    seconds: float
    crowds: tuple[int, ...]
    rate: int = 1_000
    warm_up: int = 0
    """Rounds before those that count."""


FULL = Scale(rounds=3, seconds=8, crowds=(100, 1_000))
QUICK = Scale(rounds=1, seconds=3, crowds=(20,))

Serving = Callable[[Server, str, int, Path], list[str]]
"""The command of a server of a topic at a port."""


def experiments(fleet: Fleet, scale: Scale) -> list[Experiment]:
    """One for each size of the crowd."""
    found = []
    for crowd in scale.crowds:
        sides = {
            HEADRACE: partial(_measure, fleet, scale, crowd, _headrace),
            POLLING: partial(_measure, fleet, scale, crowd, _polling),
        }
        rows = tuple(
            Row(
                f"feeds_{crowd}x{scale.rate}_{figure}",
                unit,
                Better.LOWER,
                figure,
                HEADRACE,
                POLLING,
            )
            for figure, unit in (
                ("p50_ms", "ms"),
                ("p99_ms", "ms"),
                ("cpu", "cores"),
                ("memory", "MB"),
                ("growth", "MB"),
            )
        )
        found.append(
            Experiment(f"feeds_{crowd}", sides, rows, rounds=scale.rounds, warm_up=scale.warm_up)
        )
    return found


def main() -> None:
    """Run the benchmark from the command line."""
    options = Options.parse("Changes of a view to many subscribers.")
    scale = QUICK if options.quick else FULL
    with command(), Fleet() as fleet:
        allow_descriptors(max(scale.crowds))
        run("feeds", experiments(fleet, scale), options)


def _measure(fleet: Fleet, scale: Scale, crowd: int, serving: Serving) -> Figures:
    broker = fleet.server(launch_headrace)
    total = round(scale.seconds * scale.rate)
    with load.fresh_topic(broker) as topic, tempfile.TemporaryDirectory() as directory:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 1})
        _send(producer, topic, range(1))
        with _running(serving, broker, topic, Path(directory)) as (process, port, path):
            listeners = Listeners("127.0.0.1", port, path, crowd)
            with closing(listeners):
                listeners.listen(0, _WAIT_SECONDS)
                began, used = time.monotonic(), cpu_seconds(process.pid)
                sending = threading.Thread(
                    target=_send_at, args=(producer, topic, scale.rate, range(1, total + 1))
                )
                sending.start()
                listeners.listen(total // 4, scale.seconds + _WAIT_SECONDS)
                quarter = memory_bytes(process.pid) / 1e6
                listeners.listen(total, scale.seconds + _WAIT_SECONDS)
                sending.join()
                took = time.monotonic() - began
                cpu = (cpu_seconds(process.pid) - used) / took
                memory = memory_bytes(process.pid) / 1e6
                # What comes first meets connections and caches that are cold.
                heard = listeners.latencies(total // 4)
    if not len(heard):
        raise NothingMeasured("nobody heard anything")
    p50, p99 = np.percentile(heard, [50, 99])
    return {
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "cpu": cpu,
        "memory": memory,
        "growth": max(memory - quarter, 0.1),
    }


def _send_at(producer: Producer, topic: str, rate: int, numbers: range) -> None:
    """Send numbers at a steady rate, ten milliseconds' worth at a time."""
    step = max(rate // 100, 1)
    began = time.monotonic()
    for start in range(numbers.start, numbers.stop, step):
        due = began + (start - numbers.start) / rate
        time.sleep(max(due - time.monotonic(), 0))
        _send(producer, topic, range(start, min(start + step, numbers.stop)))


def _send(producer: Producer, topic: str, numbers: range) -> None:
    for number in numbers:
        key = f"key{number % _KEYS}"
        row = {"id": key, "n": number, "sent": time.monotonic(), "country": "DE", "total": 12.5}
        producer.produce(topic, json.dumps(row), key)
    producer.flush()


@contextmanager
def _running(
    serving: Serving, broker: Server, topic: str, directory: Path
) -> "Iterator[tuple[subprocess.Popen[bytes], int, str]]":
    (port,) = free_ports(1)
    with (directory / "output.log").open("wb+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *serving(broker, topic, port, directory)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            deadline = time.monotonic() + _WAIT_SECONDS
            while not _has_rows(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    output.seek(0)
                    raise NothingMeasured(f"the server did not start: {output.read().decode()}")
                time.sleep(0.05)
            yield process, port, "/feeds/view"
        finally:
            stop(process)


def _has_rows(port: int) -> bool:
    from urllib.error import URLError
    from urllib.request import urlopen

    for path in ("views/view?count=true", "health"):
        try:
            with urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
                found = json.load(answer)
                if found.get("count", found.get("rows")):
                    return True
        except (URLError, OSError, ValueError):
            continue
    return False


def _headrace(broker: Server, topic: str, port: int, directory: Path) -> list[str]:
    return [
        *("headrace", "serve", "--bootstrap", broker.bootstrap),
        *("--view", f"view={topic}", "--key", "id"),
        *("--listen", f"127.0.0.1:{port}", "--directory", str(directory)),
    ]


def _polling(broker: Server, topic: str, port: int, directory: Path) -> list[str]:
    file = str(directory / "rows.sqlite")
    return ["benchmarks.polling_server", broker.bootstrap, topic, str(port), file]


if __name__ == "__main__":
    main()
