"""A driver that is killed again and again: its output is the input's image, once.

A few kills by default; `--kills 30` for as many as that, on Apache Kafka too. Where each of them
hit is told at the end (`-s` shows it), by what the driver left behind: Spark's notes in its
checkpoint, and the sink's in the cluster.
"""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.kafka.connection import connect
from headrace.kafka.raw_offsets import read_offset
from headrace.settings import KafkaSettings
from headrace.streams.sinks.topic import PROGRESS, Delivery, group_of
from tests.clusters import APACHE_KAFKA, Cluster
from tests.conftest import TopicFactory
from tests.streams.sinks.copying_driver import (
    APPLIED,
    COMMITTED,
    NAME,
    READING,
    ROWS_PER_BATCH,
    WRITING,
)
from tests.streams.sinks.topic_target import values_in

MOMENTS = (APPLIED, WRITING, COMMITTED, READING)
BETWEEN = "between two batches"
SOME_WRITTEN = "some places committed"
ALL_WRITTEN = "all places committed, not noted by Spark"
ENOUGH = 10
"""So many kills have hit everywhere."""

_START_SECONDS = 300.0
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
        self.checkpoint = directory / "checkpoint"
        self._command = [sys.executable, "-m", "tests.streams.sinks.copying_driver"]
        self._command += [*arguments, str(self.checkpoint), address]

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
            self._latest()

    def kill_at(self, moment: str, times: int, delay: float) -> str:
        """Run a driver until it has told of a moment that often, and a little longer.

        Returns the last moment that it told of.
        """
        with self.running() as driver:
            deadline = time.monotonic() + _START_SECONDS
            while times > 0:
                times -= self._next(driver, deadline) == moment
            time.sleep(delay)
            return self._latest() or moment

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

    def _latest(self) -> str:
        """What was told last of all that waits to be heard."""
        latest = b""
        self._told.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while told := self._told.recv(100):
                latest = told
        return latest.decode()


class _Ended(AssertionError):
    """The driver ended by itself; the message is what it said."""


@dataclass(frozen=True)
class Copied:
    """What came of copying numbers from 0 on."""

    count: int
    found: list[int]
    hits: Counter[str]
    """Where the kills hit."""


def where_it_hit(bootstrap: str, checkpoint: Path, latest: str) -> str:
    """How far the last batch of a driver had got, by what it left behind."""
    planned, noted = (
        max((int(each.name) for each in (checkpoint / kind).glob("[0-9]*")), default=-1)
        for kind in ("offsets", "commits")
    )
    if planned == noted:
        return BETWEEN
    query = f"{NAME}.{json.loads((checkpoint / 'metadata').read_text())['id'].partition('-')[0]}"
    connection = connect(KafkaSettings(bootstrap=bootstrap))
    begun = read_offset(connection, group_of(query), PROGRESS)
    if begun is None:
        return "in a batch of which the sink notes nothing"
    if begun.offset != planned:
        return BETWEEN
    places = [
        read_offset(connection, group_of(query, number), PROGRESS)
        for number in range(int(begun.metadata.removeprefix("partitions=")))
    ]
    done = [each is not None and each.offset == planned for each in places]
    if all(done):
        return ALL_WRITTEN
    return SOME_WRITTEN if any(done) else f"nothing committed, {latest}"


def copy_under_fire(
    cluster: Cluster,
    new_topic: TopicFactory,
    master: str,
    delivery: Delivery,
    kills: int,
    moments: Sequence[str] = MOMENTS,
) -> Copied:
    """Copy a topic of numbers while killing the driver, at these moments in turn."""
    source, target = new_topic(_PARTITIONS), new_topic(_PARTITIONS)
    count = ROWS_PER_BATCH * _BATCHES_PER_KILL * kills
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
    for number in range(count):
        producer.produce(source, str(number), partition=number % _PARTITIONS)
        producer.poll(0)
    producer.flush()
    chance = random.Random(kills)
    with tempfile.TemporaryDirectory(prefix="headrace-kill-") as directory:
        arguments = (master, cluster.bootstrap, source, target, delivery.value)
        drivers = Drivers(Path(directory), *arguments)
        hits: Counter[str] = Counter()
        with contextlib.closing(drivers):
            for kill in range(kills):
                delay = chance.choice((0.0, chance.uniform(0, 0.1)))
                moment = moments[kill % len(moments)]
                latest = drivers.kill_at(moment, chance.randint(1, 4), delay)
                hits[where_it_hit(cluster.bootstrap, drivers.checkpoint, latest)] += 1
            drivers.finish()
    found = sorted(int(value) for value in values_in(cluster.bootstrap, target))
    print(f"{kills} kills on {cluster.name} with {delivery.value}: {dict(hits.most_common())}")
    return Copied(count, found, hits)


@pytest.fixture
def kills(pytestconfig: pytest.Config, cluster: Cluster) -> int:
    asked: int | None = pytestconfig.getoption("--kills")
    if asked is None and cluster.name == APACHE_KAFKA:
        pytest.skip("one cluster is enough for a few kills; --kills N kills on both")
    return 2 if asked is None else asked


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_driver_that_is_killed_writes_everything_once(
    cluster: Cluster, new_topic: TopicFactory, spark_master: str, kills: int
):
    copied = copy_under_fire(cluster, new_topic, spark_master, Delivery.EXACTLY_ONCE, kills)
    repeated = [number for number, times in Counter(copied.found).items() if times > 1]
    assert not repeated, f"{len(repeated)} rows are there more than once: {repeated[:20]}"
    assert copied.found == list(range(copied.count))
    if kills >= ENOUGH:
        assert copied.hits[ALL_WRITTEN], "no kill hit between the sink's commit and Spark's"
        assert any(each.startswith("nothing") for each in copied.hits), "no kill hit while writing"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_without_transactions_a_kill_writes_rows_twice(
    cluster: Cluster, new_topic: TopicFactory, spark_master: str, kills: int
):
    for _ in range(5):
        # Rows of one task are there, and Spark has yet to hear of it. A kill that comes too late
        # for that, between two batches, repeats nothing.
        delivery = Delivery.AT_LEAST_ONCE
        copied = copy_under_fire(cluster, new_topic, spark_master, delivery, 1, (COMMITTED,))
        if len(copied.found) > copied.count:
            break
    assert sorted(set(copied.found)) == list(range(copied.count))
    assert len(copied.found) > copied.count
