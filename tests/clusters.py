"""The clusters that end-to-end tests run against: a Headrace broker and Apache Kafka."""

import contextlib
import queue
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.testing.apache_kafka import ApacheKafka

HEADRACE = "headrace"
APACHE_KAFKA = "apache-kafka"

on_one_cluster = pytest.mark.on_one_cluster
"""For a test that takes long and would find out nothing more about Apache Kafka than others do.

With --every-cluster it runs there as well.
"""

_READY_TIMEOUT_SECONDS = 20
_ADDRESS = re.compile(r"(127\.0\.0\.1|localhost):(\d+)")


@dataclass(frozen=True)
class Cluster:
    """A running cluster of one node and how to reach it."""

    name: str
    bootstrap: str

    @property
    def host(self) -> str:
        return self.bootstrap.rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])


class HeadraceProcess:
    """A Headrace broker in a process of its own, started as a user starts it.

    Whenever it is started again it has the same port and the data that it left.
    """

    def __init__(self, directory: Path, *options: str) -> None:
        self._data = directory / "data"
        self._log = directory / "broker.log"
        self._options = options
        self._process: subprocess.Popen[str] | None = None
        self.cluster = Cluster(HEADRACE, "127.0.0.1:0")

    def start(self) -> None:
        """Start it and wait until it serves."""
        place = ("--port", str(self.cluster.port), "--data", str(self._data))
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headrace", "broker", *place, *self._options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        try:
            self.cluster = Cluster(HEADRACE, _await_ready_line(self._process, self._log))
        except AssertionError:
            self.kill()
            raise

    def kill(self) -> None:
        """End it without giving it a chance to do anything."""
        assert self._process is not None
        with self._process as process:
            process.kill()

    def stop(self) -> None:
        """Ask it to stop, and fail if it did not take that well."""
        assert self._process is not None
        with self._process as process:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        if process.returncode not in {0, -15}:
            raise AssertionError(
                f"the broker exited with {process.returncode}:\n{self._log.read_text()[-4000:]}"
            )


@contextlib.contextmanager
def headrace_process(*options: str) -> Iterator[HeadraceProcess]:
    """A running broker that can be killed and started again; its data goes in the end."""
    with tempfile.TemporaryDirectory(prefix="headrace-") as directory:
        broker = HeadraceProcess(Path(directory), *options)
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()


@contextlib.contextmanager
def headrace_cluster(*options: str) -> Iterator[Cluster]:
    """A Headrace broker that is left alone."""
    with headrace_process(*options) as broker:
        yield broker.cluster


@contextlib.contextmanager
def apache_kafka_cluster() -> Iterator[Cluster]:
    """Apache Kafka, set to lose no time: with groups, their offsets, transactions or compaction."""
    properties = {
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.min.session.timeout.ms": "1000",
        "log.cleaner.backoff.ms": "200",
        "offsets.topic.num.partitions": "1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        "transaction.state.log.num.partitions": "1",
    }
    with ApacheKafka(initial_rebalance_delay_ms=0, properties=properties) as kafka:
        yield Cluster(APACHE_KAFKA, kafka.bootstrap)


def _await_ready_line(process: subprocess.Popen[str], log: Path) -> str:
    """The address in the first line of the broker's output that has one."""
    found: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if address := _ADDRESS.search(line):
                found.put(address.group(0))
        found.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        address = found.get(timeout=_READY_TIMEOUT_SECONDS)
    except queue.Empty:
        address = None
    if address is None:
        raise AssertionError(f"the broker printed no ready line:\n{log.read_text()[-4000:]}")
    return address
