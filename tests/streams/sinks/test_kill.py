"""A driver that is killed again and again: its output is the input's image, once.

A few kills by default; `--kills 30` for as many as that, on Apache Kafka too.
"""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.streams.sinks.topic import Delivery
from tests.clusters import APACHE_KAFKA, Cluster
from tests.conftest import TopicFactory
from tests.streams.sinks.copying_driver import (
    APPLIED,
    COMMITTED,
    READING,
    ROWS_PER_BATCH,
    WRITING,
)
from tests.streams.sinks.topic_target import values_in

MOMENTS = (APPLIED, WRITING, COMMITTED, READING)
_START_SECONDS = 120.0
_PARTITIONS = 4
_BATCHES_PER_KILL = 6
"""More than any driver gets done before it is killed."""


class Drivers:
    """One driver after the other on the same checkpoint, and what they tell."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._log = directory / "driver.log"
        address = str(directory / "told")
        self._told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._told.bind(address)
        self._command = [sys.executable, "-m", "tests.streams.sinks.copying_driver"]
        self._command += [*arguments, str(directory / "checkpoint"), address]

    @contextlib.contextmanager
    def running(self, how: str = "go on") -> Iterator[subprocess.Popen[bytes]]:
        """A driver, killed with all of its processes unless it has ended by itself."""
        with self._log.open("ab") as log:
            driver = subprocess.Popen(
                [*self._command, how], stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield driver
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
            self._forget()

    def kill_at(self, moment: str, times: int, delay: float) -> None:
        """Run a driver until it has told of a moment that often, and a little longer."""
        with self.running() as driver:
            deadline = time.monotonic() + _START_SECONDS
            while times > 0:
                times -= self._next(driver, deadline) == moment
            time.sleep(delay)

    def finish(self) -> None:
        """Run a driver that copies the rest and ends."""
        with self.running("finish") as driver:
            deadline = time.monotonic() + _START_SECONDS
            while driver.poll() is None:
                with contextlib.suppress(_Ended):
                    self._next(driver, deadline)
            assert driver.returncode == 0, self._log.read_text()[-6000:]

    def close(self) -> None:
        self._told.close()

    def _next(self, driver: subprocess.Popen[bytes], deadline: float) -> str:
        self._told.settimeout(0.5)
        while time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                return self._told.recv(100).decode()
            if driver.poll() is not None:
                raise _Ended(self._log.read_text()[-6000:])
        raise AssertionError(f"the driver does nothing:\n{self._log.read_text()[-6000:]}")

    def _forget(self) -> None:
        self._told.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while self._told.recv(100):
                pass


class _Ended(AssertionError):
    """The driver ended by itself; the message is what it said."""


def copy_under_fire(
    cluster: Cluster, new_topic: TopicFactory, delivery: Delivery, kills: int
) -> tuple[int, list[int]]:
    """Copy a topic of numbers while killing the driver; how many there are, and those copied."""
    source, target = new_topic(_PARTITIONS), new_topic(_PARTITIONS)
    count = ROWS_PER_BATCH * _BATCHES_PER_KILL * kills
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
    for number in range(count):
        producer.produce(source, str(number), partition=number % _PARTITIONS)
        producer.poll(0)
    producer.flush()
    chance = random.Random(kills)
    with tempfile.TemporaryDirectory(prefix="headrace-kill-") as directory:
        drivers = Drivers(Path(directory), cluster.bootstrap, source, target, delivery.value)
        with contextlib.closing(drivers):
            for kill in range(kills):
                delay = chance.choice((0.0, chance.uniform(0, 0.1)))
                drivers.kill_at(MOMENTS[kill % len(MOMENTS)], chance.randint(1, 4), delay)
            drivers.finish()
    return count, sorted(int(value) for value in values_in(cluster.bootstrap, target))


@pytest.fixture
def kills(pytestconfig: pytest.Config, cluster: Cluster) -> int:
    asked: int | None = pytestconfig.getoption("--kills")
    if asked is None and cluster.name == APACHE_KAFKA:
        pytest.skip("one cluster is enough for a few kills; --kills N kills on both")
    return 3 if asked is None else asked


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_driver_that_is_killed_writes_everything_once(
    cluster: Cluster, new_topic: TopicFactory, kills: int
):
    count, found = copy_under_fire(cluster, new_topic, Delivery.EXACTLY_ONCE, kills)
    repeated = [number for number, times in Counter(found).items() if times > 1]
    assert not repeated, f"{len(repeated)} rows are there more than once: {repeated[:20]}"
    assert found == list(range(count))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_without_transactions_a_kill_writes_rows_twice(
    cluster: Cluster, new_topic: TopicFactory, kills: int
):
    count, found = copy_under_fire(cluster, new_topic, Delivery.AT_LEAST_ONCE, kills=1)
    assert sorted(set(found)) == list(range(count))
    assert len(found) > count
