"""The contestants: Headrace and Apache Kafka, each a process of its own that starts when needed."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from headrace.errors import HeadraceError
from headrace.testing.apache_kafka import ApacheKafka
from headrace.testing.kafka_jars import KAFKA_VERSION
from headrace.testing.probe import free_ports, serves_metadata

HEADRACE = "Headrace"
HEADRACE_FSYNC = "Headrace, fsync"
APACHE_KAFKA = f"Apache Kafka {KAFKA_VERSION}"

_START_TIMEOUT_SECONDS = 30.0
_STOP_TIMEOUT_SECONDS = 30.0
_PROBE_SECONDS = 0.001


class Server(Protocol):
    """A broker that runs in a process of its own."""

    @property
    def bootstrap(self) -> str:
        """Its `host:port`."""

    @property
    def pid(self) -> int:
        """Its process id."""

    @property
    def start_seconds(self) -> float:
        """From starting the process to the first answer that names a broker."""


Launch = Callable[[], contextlib.AbstractContextManager[Server]]
"""Starts a server that stops, and whose data goes, when the block ends."""


class HeadraceFailed(HeadraceError):
    """Headrace did not start; the message carries what it printed."""


class HeadraceProcess:
    """`python -m headrace broker` on a data directory of its own, for as long as a `with` block."""

    def __init__(self, *, flush: str, settings: Sequence[str] = ()) -> None:
        self._options = ["--flush", flush]
        for each in settings:
            self._options += ["--set", each]
        self._resources = contextlib.ExitStack()
        self.bootstrap = ""
        self.pid = 0
        self.start_seconds = 0.0
        self.data = Path()
        """The directory with a directory for each partition."""

    def __enter__(self) -> Self:
        """Start the broker and wait until it answers."""
        with contextlib.ExitStack() as resources:
            directory = Path(
                resources.enter_context(tempfile.TemporaryDirectory(prefix="headrace-benchmark-"))
            )
            output = resources.enter_context((directory / "output.log").open("wb+"))
            (port,) = free_ports(1)
            self.data = directory / "data"
            command = ["broker", "--port", str(port), "--data", str(self.data)]
            began = time.monotonic()
            process = subprocess.Popen(
                [sys.executable, "-m", "headrace", *command, *self._options],
                cwd=directory,
                env=as_installed(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            resources.callback(stop, process)
            while not serves_metadata(port):
                late = time.monotonic() > began + _START_TIMEOUT_SECONDS
                if late or process.poll() is not None:
                    output.seek(0)
                    raise HeadraceFailed(f"Headrace did not start:\n{output.read().decode()}")
                time.sleep(_PROBE_SECONDS)
            self.start_seconds = time.monotonic() - began
            self.bootstrap, self.pid = f"127.0.0.1:{port}", process.pid
            self._resources = resources.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the broker and remove its data."""
        self._resources.close()


def launch_headrace() -> HeadraceProcess:
    """Headrace that leaves writing back to the operating system, as Kafka does."""
    return HeadraceProcess(flush="os")


def launch_headrace_fsync() -> HeadraceProcess:
    """Headrace that answers acks=all only after fsync, which is its default."""
    return HeadraceProcess(flush="ack")


def launch_apache_kafka() -> ApacheKafka:
    """Apache Kafka with 1 GiB of heap and its defaults."""
    # Deleted topics leave at once instead of after a minute: a run must not fill the disk.
    return ApacheKafka(heap="1g", properties={"log.segment.delete.delay.ms": "0"})


class Fleet:
    """Servers that are started when first asked for and all stopped together.

    They stay up between the rounds, so that the JVM keeps what it has compiled. An idle Kafka
    takes about 2 % of one core meanwhile, an idle Headrace nothing to speak of.
    """

    def __init__(self) -> None:
        self._resources = contextlib.ExitStack()
        self._running: dict[Launch, Server] = {}

    def server(self, launch: Launch) -> Server:
        """The server that `launch` starts, started now if it is the first time."""
        if launch not in self._running:
            self._running[launch] = self._resources.enter_context(launch())
        return self._running[launch]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop everything that was started."""
        self._resources.close()


def as_installed(environment: Mapping[str, str]) -> dict[str, str]:
    """Let Python keep the bytecode of what it compiles in the round that does not count.

    Who installs Headrace has it from pip, as the jars of Kafka come compiled.
    """
    return {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, and end it if it takes too long."""
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
