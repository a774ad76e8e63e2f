"""A Kafka Connect worker in distributed mode, spoken to as its users do."""

import contextlib
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.testing.kafka_jars import CONNECT, classpath, java_program
from headrace.testing.probe import free_ports
from tests.clients.exactly_once.programs import JAVA_FLAGS
from tests.clients.librdkafka import eventually
from tests.clusters import Cluster

_START_SECONDS = 60


class Worker:
    """A running worker."""

    def __init__(self, port: int, log: Path) -> None:
        self._address = f"http://127.0.0.1:{port}"
        self._log = log

    def configure(self, connector: str, settings: dict[str, str]) -> None:
        """Create or change a connector, and wait until it and its task run."""
        self._ask("PUT", f"/connectors/{connector}/config", settings)
        self.await_running(connector)

    def await_running(self, connector: str) -> None:
        """Wait until the connector and its one task run."""

        def states() -> list[str]:
            status = self._ask("GET", f"/connectors/{connector}/status") or {}
            parts = [status["connector"], *status["tasks"]] if status else []
            assert all(part["state"] != "FAILED" for part in parts), status
            return [part["state"] for part in parts]

        eventually(lambda: states() == ["RUNNING"] * 2, timeout=_START_SECONDS, interval=0.1)

    def serves(self) -> bool:
        """Whether it answers yet; it does once it has read its internal topics."""
        try:
            return self._ask("GET", "/connectors") is not None
        except OSError:
            return False

    def log_tail(self) -> str:
        """The end of what it has complained of."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-3000:]

    def _ask(self, method: str, path: str, body: dict[str, str] | None = None) -> Any:
        """What the worker answers; None while it says that it is busy or knows of nothing."""
        request = urllib.request.Request(
            self._address + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_START_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code not in {404, 409, 503}:
                raise AssertionError(f"{path}: {error.read()!r}") from error
            return None


@contextlib.contextmanager
def worker(cluster: Cluster, group: str, directory: Path) -> Iterator[Worker]:
    """A worker of a group; leaving the block stops it in good order."""
    (port,) = free_ports(1)
    settings = directory / "worker.properties"
    properties = _properties(cluster, group, port)
    settings.write_text(
        "".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8"
    )
    log = directory / "worker.log"
    main_class = "org.apache.kafka.connect.cli.ConnectDistributed"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [java_program(), *JAVA_FLAGS, "-cp", classpath(CONNECT), main_class, str(settings)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    with process:
        try:
            running = Worker(port, log)
            eventually(running.serves, timeout=_START_SECONDS, interval=0.1)
            yield running
        except BaseException as error:
            error.add_note(f"the worker's log ends with:\n{running.log_tail()}")
            raise
        finally:
            process.terminate()
            try:
                process.wait(_START_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def internal_topics(group: str) -> list[str]:
    """Where workers of the group keep what they know."""
    return [f"{group}-{content}" for content in ("config", "offset", "status")]


def _properties(cluster: Cluster, group: str, port: int) -> dict[str, str]:
    storage = {
        f"{topic.removeprefix(f'{group}-')}.storage.topic": topic
        for topic in internal_topics(group)
    }
    factors = {name.replace(".topic", ".replication.factor"): "1" for name in storage}
    text = "org.apache.kafka.connect.storage.StringConverter"
    return {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": group,
        "listeners": f"HTTP://127.0.0.1:{port}",
        "key.converter": text,
        "value.converter": text,
        # Offsets of the source and what was read from it are written in one transaction.
        "exactly.once.source.support": "enabled",
        "plugin.discovery": "service_load",
        **storage,
        **factors,
    }
