"""The brokers that things are done to: Headrace, and Apache Kafka as far as it can be steered."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from headrace.testing.apache_kafka import ApacheKafka
from headrace.testing.probe import free_ports
from tests.chaos.steering import steer

_START_SECONDS = 30


class Target(Protocol):
    """A broker on a fixed address that can be ended, halted, and started again."""

    bootstrap: str
    steerable: bool
    """Whether its clock and its disk can be put out of order."""

    @property
    def pid(self) -> int:
        """The process that serves now."""
        ...

    def start(self) -> None:
        """Start it with the data that is there; returns once it serves."""
        ...

    def kill(self) -> None:
        """End it without giving it a chance to do anything."""
        ...

    def steer(self, action: str, **details: Any) -> None:
        """Do something to its clock or disk."""
        ...


class HeadraceTarget:
    """A Headrace broker, started by `tests.chaos.broker_process`."""

    steerable = True

    def __init__(self, directory: Path, *, flush: str = "ack", bug: str | None = None) -> None:
        port = free_ports(1)[0]
        self.bootstrap = f"127.0.0.1:{port}"
        self.log = directory / "broker.log"
        self._control = directory / "control"
        self._settings = {
            "listen": self.bootstrap,
            "data": str(directory / "data"),
            "flush": flush,
            "segment_bytes": 64 << 10,
            "group_min_session_timeout_ms": 1000,
            "retention_check_ms": 1000,
        }
        self._bug = ["--bug", bug] if bug else []
        # Whatever a restart does not change.
        self._lasting: dict[str, dict[str, Any]] = {}
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The process that serves now."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it with the data that is there; returns once it serves."""
        command = [sys.executable, "-m", "tests.chaos.broker_process", *self._bug]
        command += ["--control", str(self._control), "--settings", json.dumps(self._settings)]
        command += ["--steer", json.dumps(list(self._lasting.values()))]
        with self.log.open("a") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if self.bootstrap not in line:
            tail = self.log.read_text()[-3000:]
            raise AssertionError(f"the broker did not start: {line!r}\n{tail}")

    def kill(self) -> None:
        """End it without giving it a chance to do anything."""
        if self._process is not None:
            with self._process as process:
                process.kill()
                process.wait()

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        assert self._process is not None
        with self._process as process:
            process.send_signal(signal.SIGTERM)
            return process.wait(_START_SECONDS)

    def await_death(self, seconds: float) -> bool:
        """Whether it has ended by itself in this time."""
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def steer(self, action: str, **details: Any) -> None:
        """Do something to its clock or disk."""
        if action != "tear_write":
            self._lasting[action] = {"action": action, **details}
        with contextlib.suppress(ConnectionError, FileNotFoundError):
            steer(self._control, action, **details)


class ApacheKafkaTarget:
    """Apache Kafka, which can be killed and halted."""

    steerable = False

    def __init__(self, kafka: ApacheKafka) -> None:
        self._kafka = kafka
        self.bootstrap = kafka.bootstrap

    @property
    def pid(self) -> int:
        """The process that serves now."""
        return self._kafka.pid

    def start(self) -> None:
        """Start it with the data that is there; returns once it serves."""
        self._kafka.start()

    def kill(self) -> None:
        """End it without giving it a chance to do anything."""
        self._kafka.kill()

    def steer(self, action: str, **details: Any) -> None:
        """Nothing can be done to it."""
        raise NotImplementedError(action)


@contextlib.contextmanager
def headrace_target(
    *, flush: str = "ack", bug: str | None = None, directory: Path | None = None
) -> Iterator[HeadraceTarget]:
    """A running Headrace broker; everything of it goes in the end, unless a directory is given."""
    with contextlib.ExitStack() as resources:
        if directory is None:
            temporary = tempfile.TemporaryDirectory(prefix="headrace-chaos-")
            directory = Path(resources.enter_context(temporary))
        target = HeadraceTarget(directory, flush=flush, bug=bug)
        target.start()
        resources.callback(target.kill)
        yield target


@contextlib.contextmanager
def apache_kafka_target() -> Iterator[ApacheKafkaTarget]:
    """A running Apache Kafka, whose transactions time out as promptly as they can."""
    properties = {
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "group.min.session.timeout.ms": "1000",
    }
    with ApacheKafka(initial_rebalance_delay_ms=0, properties=properties) as kafka:
        yield ApacheKafkaTarget(kafka)


def halt(target: Target) -> None:
    """Stop a broker where it stands."""
    os.kill(target.pid, signal.SIGSTOP)


def let_go_on(target: Target) -> None:
    """Let a halted broker go on."""
    os.kill(target.pid, signal.SIGCONT)
