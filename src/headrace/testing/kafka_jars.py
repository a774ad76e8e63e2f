"""Apache Kafka's jars and its ecosystem's: fetched once by the machine's Maven, kept in a cache.

Only artifact coordinates are named here. Where they come from is Maven's business, so a mirror
or a proxy in its settings is honoured.
"""

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError

KAFKA_VERSION = "4.3.1"
"""The Apache Kafka release that Headrace is compared with."""

_LOG4J = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")


@dataclass(frozen=True, slots=True)
class Jars:
    """Artifacts that are fetched together with all they depend on, and kept under a name."""

    name: str
    artifacts: tuple[tuple[str, str, str], ...]
    """Group, artifact and version of each."""


KAFKA = Jars(
    f"apache-kafka-{KAFKA_VERSION}",
    (
        ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
        ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
        _LOG4J,
    ),
)
"""The broker, the clients and the command-line tools."""

STREAMS = Jars(
    f"kafka-streams-{KAFKA_VERSION}", (("org.apache.kafka", "kafka-streams", KAFKA_VERSION), _LOG4J)
)
"""Kafka Streams with its RocksDB."""

CONNECT = Jars(
    f"kafka-connect-{KAFKA_VERSION}",
    (
        ("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
        ("org.apache.kafka", "connect-file", KAFKA_VERSION),
        _LOG4J,
    ),
)
"""Kafka Connect's workers and its file connectors."""

_FETCH_TIMEOUT_SECONDS = 600
_TOOL_FLAGS = (
    # A tool lives for a second or two: starting fast matters more than peak speed.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-Dorg.apache.logging.log4j.level=ERROR",
)


class KafkaUnavailable(HeadraceError):
    """Apache Kafka cannot run on this machine; the message names what is missing."""


@functools.cache
def unavailable(jars: Jars = KAFKA) -> str | None:
    """Why the jars cannot be used here, or None if they can; fetches them on the first call."""
    try:
        classpath(jars)
    except KafkaUnavailable as error:
        return str(error)
    return None


@functools.cache
def classpath(jars: Jars = KAFKA) -> str:
    """The Java class path of the jars, which are fetched into the cache if they are not there.

    Raises `KafkaUnavailable` without Java or, for the first fetch, without Maven or a repository.
    """
    java_program()
    directory = _cache_directory() / jars.name
    if not directory.is_dir():
        _fetch(jars, directory)
    return str(directory / "*")


def java_program() -> str:
    """Where `java` is; raises `KafkaUnavailable` if it is not on the PATH."""
    program = shutil.which("java")
    if program is None:
        raise KafkaUnavailable("Apache Kafka needs Java 17 or newer: put `java` on the PATH")
    return program


def java_tool(
    main_class: str, arguments: Sequence[str], *, stdin: str | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's command-line tools against any cluster and return what it printed.

    The caller judges the return code. Raises `KafkaUnavailable` if the jars cannot be had and
    `subprocess.TimeoutExpired` if the tool is still running after `timeout` seconds.
    """
    return subprocess.run(
        [java_program(), *_TOOL_FLAGS, "-cp", classpath(), main_class, *arguments],
        input=stdin if stdin is not None else "",
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def _cache_directory() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "headrace"


def _fetch(jars: Jars, directory: Path) -> None:
    """Copy the jars with their dependencies to `directory`, which appears only when complete."""
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable(
            f"{jars.name} is not in the cache: put Maven's `mvn` on the PATH to fetch its jars"
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        project = Path(scratch) / "pom.xml"
        fetched = Path(scratch) / "jars"
        project.write_text(_project(jars), encoding="utf-8")
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={fetched}"]
        try:
            subprocess.run(
                [maven, "-q", "-B", "-f", str(project), "-DincludeScope=runtime", *goal],
                capture_output=True,
                text=True,
                timeout=_FETCH_TIMEOUT_SECONDS,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            reason = (error.stdout + error.stderr).strip()[-600:]
            raise KafkaUnavailable(f"Maven could not resolve {jars.name}: {reason}") from error
        except subprocess.TimeoutExpired as error:
            raise KafkaUnavailable(
                f"Maven did not resolve {jars.name} within {_FETCH_TIMEOUT_SECONDS} s: "
                "check its repository settings"
            ) from error
        try:
            fetched.rename(directory)
        except OSError:
            # Another process fetched them at the same time, and its copy is as good as ours.
            if not directory.is_dir():
                raise


def _project(jars: Jars) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, artifact, version in jars.artifacts
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>headrace</groupId>"
        "<artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
