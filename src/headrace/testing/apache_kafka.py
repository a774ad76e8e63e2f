"""A real Apache Kafka on this machine, as a context manager: the oracle Headrace is tested with.

    with ApacheKafka() as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap})

One KRaft node on loopback, free ports, a data directory that goes when it stops, 1 GiB of heap
and otherwise Kafka's defaults. Listeners with TLS and passwords come beside the plain one.
"""

import contextlib
import signal
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from headrace.errors import HeadraceError
from headrace.testing.kafka_jars import classpath, java_program, java_tool, unavailable
from headrace.testing.probe import free_ports, serves_metadata

__all__ = ["ApacheKafka", "ApacheKafkaFailed", "java_tool"]

_START_TIMEOUT_SECONDS = 180.0
_STOP_TIMEOUT_SECONDS = 30.0

SERVER_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
    "-Dorg.apache.logging.log4j.level=WARN",
)
"""What Kafka's own start scripts pass, so that a comparison is with Kafka as people run it."""


class ApacheKafkaFailed(HeadraceError):
    """Apache Kafka did not start; the message carries the end of its log."""


class ApacheKafka:
    """One Apache Kafka node that lives as long as the `with` block.

    Args:
        heap: Its memory, as Java wants it.
        initial_rebalance_delay_ms: How long a fresh group waits for more members; None keeps
            Kafka's three seconds.
        properties: Added to `server.properties`; they win over what is set here.
        listeners: More listeners than the plain one: a name, and the protocol that it speaks, such
            as SASL_SSL. What they need (`listener.name.<name>.*`) goes into `properties`, and
            `address` says where they are.
        scram_users: Users with passwords, as Kafka's own tool takes them:
            `SCRAM-SHA-256=[name=ada,password=secret]`.
    """

    def __init__(
        self,
        *,
        heap: str = "1g",
        initial_rebalance_delay_ms: int | None = None,
        properties: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        scram_users: Sequence[str] = (),
    ) -> None:
        self._heap = heap
        self._protocols = {"PLAINTEXT": "PLAINTEXT", **(listeners or {})}
        self._scram_users = scram_users
        self._ports: dict[str, int] = {}
        self._overrides = dict(properties or {})
        if initial_rebalance_delay_ms is not None:
            self._overrides.setdefault(
                "group.initial.rebalance.delay.ms", str(initial_rebalance_delay_ms)
            )
        self._resources = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._log_path: Path | None = None
        self._settings: Path
        self._output: IO[bytes]
        self.bootstrap = ""
        """`host:port` of the running broker."""
        self.start_seconds = 0.0
        """From starting the server process to its first useful answer; formatting not included."""

    @staticmethod
    def unavailable() -> str | None:
        """Why Apache Kafka cannot run on this machine, or None if it can."""
        return unavailable()

    @property
    def pid(self) -> int:
        """The server's process id."""
        if self._process is None:
            raise ApacheKafkaFailed("Apache Kafka is not running: enter the `with` block first")
        return self._process.pid

    def address(self, listener: str) -> str:
        """`host:port` of one of the listeners."""
        return f"127.0.0.1:{self._ports[listener]}"

    def __enter__(self) -> Self:
        """Format a data directory, start the server and wait until it serves metadata."""
        with contextlib.ExitStack() as resources:
            directory = Path(
                resources.enter_context(tempfile.TemporaryDirectory(prefix="apache-kafka-"))
            )
            controller_port, *ports = free_ports(1 + len(self._protocols))
            self._ports = dict(zip(self._protocols, ports, strict=True))
            settings = directory / "server.properties"
            settings.write_text(
                "".join(
                    f"{name}={value}\n"
                    for name, value in self._properties(directory, controller_port).items()
                ),
                encoding="utf-8",
            )
            _format(settings, self._scram_users)
            self._log_path = directory / "server.log"
            self._output = resources.enter_context(self._log_path.open("wb"))
            self._settings = settings
            resources.callback(self._stop)
            self.bootstrap = self.address("PLAINTEXT")
            self.start()
            self._resources = resources.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the server and remove its data."""
        self._resources.close()

    def start(self) -> None:
        """Start the server that was killed, on the same port and data, and wait until it serves."""
        began = time.monotonic()
        self._process = self._launch(self._settings, self._output)
        port = int(self.bootstrap.rpartition(":")[2])
        self._await_answer(self._process, port, began + _START_TIMEOUT_SECONDS)
        self.start_seconds = time.monotonic() - began

    def kill(self) -> None:
        """End the server without giving it a chance to do anything; its data stays."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def log_tail(self, lines: int = 20) -> str:
        """The end of what the server has printed: warnings and errors."""
        if self._log_path is None or not self._log_path.exists():
            return ""
        text = self._log_path.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _properties(self, directory: Path, controller_port: int) -> dict[str, str]:
        listeners = ",".join(f"{name}://{self.address(name)}" for name in self._ports)
        protocols = {**self._protocols, "CONTROLLER": "PLAINTEXT"}
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": ",".join(map(":".join, protocols.items())),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": str(directory / "data"),
            # One node cannot keep the three copies that these internal topics ask for.
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self._overrides,
        }

    def _launch(self, settings: Path, output: IO[bytes]) -> subprocess.Popen[bytes]:
        heap = (f"-Xms{self._heap}", f"-Xmx{self._heap}")
        server = ("-cp", classpath(), "kafka.Kafka", str(settings))
        return subprocess.Popen(
            [java_program(), *heap, *SERVER_FLAGS, *server],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def _await_answer(self, process: subprocess.Popen[bytes], port: int, deadline: float) -> None:
        """Return once the broker lists itself in its metadata: then clients can work with it."""
        while not serves_metadata(port):
            if process.poll() is not None:
                raise ApacheKafkaFailed(
                    f"Apache Kafka exited with {process.returncode}:\n{self.log_tail()}"
                )
            if time.monotonic() > deadline:
                raise ApacheKafkaFailed(
                    f"Apache Kafka did not answer within {_START_TIMEOUT_SECONDS:.0f} s:\n"
                    f"{self.log_tail()}"
                )
            time.sleep(0.02)

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _format(settings: Path, scram_users: Sequence[str]) -> None:
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    # An id that begins with a dash would be read as an option.
    arguments = ["format", f"--cluster-id={cluster_id}", "--config", str(settings)]
    for user in scram_users:
        arguments += ["--add-scram", user]
    result = java_tool("kafka.tools.StorageTool", arguments)
    if result.returncode != 0:
        raise ApacheKafkaFailed(
            f"Apache Kafka's storage could not be formatted:\n{result.stdout}{result.stderr}"
        )
