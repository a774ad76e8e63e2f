"""Debezium on a Kafka Connect worker, which is how people run it: the peer of captures."""

import contextlib
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from benchmarks.peers import stop
from headrace.errors import HeadraceError
from headrace.testing.apache_kafka import SERVER_FLAGS
from headrace.testing.kafka_jars import CONNECT, Jars, classpath, java_program
from headrace.testing.probe import free_ports

VERSION = "3.6.0.Final"
DEBEZIUM = f"Debezium {VERSION.removesuffix('.Final')}"

JARS = Jars(
    f"debezium-{VERSION}",
    (*CONNECT.artifacts, ("io.debezium", "debezium-connector-postgres", VERSION)),
)
"""Debezium's connector for PostgreSQL and the worker that runs it."""

_HEAP = ("-Xms256M", "-Xmx1G")
"""What a worker's start script gives it, but for the limit, which is 2 GB there."""

_JSON = "org.apache.kafka.connect.json.JsonConverter"


class DebeziumFailed(HeadraceError):
    """Debezium ended by itself; the message carries what it printed last."""


class Debezium:
    """One worker with one connector, for as long as a `with` block.

    Args:
        url: The PostgreSQL database.
        bootstrap: The cluster.
        prefix: How the names of its topics begin.
        slot: What its replication slot and its publication are called.
        tables: As "schema.table", separated by commas.
        schemas: Whether records carry their schema.
        options: Of the connector, beyond its defaults.
    """

    def __init__(
        self,
        url: str,
        bootstrap: str,
        *,
        prefix: str,
        slot: str,
        tables: str,
        schemas: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> None:
        parts = urlsplit(url)
        self._connector = {
            "name": prefix,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "database.hostname": parts.hostname or "",
            "database.port": str(parts.port),
            "database.user": parts.username or "",
            "database.dbname": parts.path.strip("/"),
            "topic.prefix": prefix,
            "table.include.list": tables,
            "plugin.name": "pgoutput",
            "slot.name": slot,
            "publication.name": slot,
            "publication.autocreate.mode": "filtered",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
            **(options or {}),
        }
        enabled = str(schemas).lower()
        self._worker = {
            "bootstrap.servers": bootstrap,
            "key.converter": _JSON,
            "value.converter": _JSON,
            "key.converter.schemas.enable": enabled,
            "value.converter.schemas.enable": enabled,
            "plugin.discovery": "service_load",
        }
        self._resources = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._log = Path()

    @property
    def pid(self) -> int:
        """The worker's process id."""
        assert self._process is not None
        return self._process.pid

    def check(self) -> None:
        """DebeziumFailed if it does not run any more, or says that its task does not."""
        said = self._log.read_text(errors="replace")
        assert self._process is not None
        if self._process.poll() is not None or "Task threw an uncaught" in said:
            raise DebeziumFailed(f"Debezium does not run any more:\n{said[-4000:]}")

    def __enter__(self) -> Self:
        """Start it; returns at once."""
        with contextlib.ExitStack() as resources:
            directory = Path(
                resources.enter_context(tempfile.TemporaryDirectory(prefix="debezium-"))
            )
            (port,) = free_ports(1)
            place = {
                "offset.storage.file.filename": str(directory / "offsets"),
                "listeners": f"HTTP://127.0.0.1:{port}",
            }
            files = [
                _written(directory / "worker.properties", self._worker | place),
                _written(directory / "connector.properties", self._connector),
            ]
            self._log = directory / "log"
            output = resources.enter_context(self._log.open("wb"))
            main_class = "org.apache.kafka.connect.cli.ConnectStandalone"
            self._process = subprocess.Popen(
                [java_program(), *_HEAP, *SERVER_FLAGS, "-cp", classpath(JARS), main_class, *files],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            resources.callback(stop, self._process)
            self._resources = resources.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it, and remove what it kept."""
        self._resources.close()


def _written(path: Path, properties: Mapping[str, str]) -> str:
    lines = "".join(f"{name}={value}\n" for name, value in properties.items())
    path.write_text(lines, encoding="utf-8")
    return str(path)
