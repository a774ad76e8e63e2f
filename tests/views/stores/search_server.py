"""An OpenSearch node of a test's own, from the jars that Maven has."""

import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from headrace.testing.kafka_jars import Jars, classpath
from headrace.testing.kafka_jars import unavailable as no_jars

VERSION = "2.19.1"
"""The last line that runs on Java 17."""

JARS = Jars(
    f"opensearch-{VERSION}",
    (
        ("org.opensearch", "opensearch", VERSION),
        ("org.opensearch.plugin", "transport-netty4-client", VERSION),
        ("org.apache.logging.log4j", "log4j-core", "2.21.0"),
    ),
)


def unavailable() -> str | None:
    """Why there is no OpenSearch here."""
    if shutil.which("javac") is None:
        return "OpenSearch is started by a Java program, which needs a JDK (javac)"
    return no_jars(JARS)


class SearchServer:
    """A node that listens on a port of its own."""

    def __init__(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="headrace-opensearch-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    @property
    def url(self) -> str:
        return f"opensearch://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [
                *("java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", classpath(JARS)),
                str(Path(__file__).with_name("SearchNode.java")),
                *(self._directory, str(self.port)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == b"started":
                return self
        raise AssertionError("OpenSearch did not start")

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            process.kill()
        shutil.rmtree(self._directory, ignore_errors=True)
