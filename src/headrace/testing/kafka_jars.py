"""Apache Kafka's own jars: fetched once by the machine's Maven, kept in a cache directory.

Only artifact coordinates are named here. Where they come from is Maven's business, so a mirror
or a proxy in its settings is honoured.
"""

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import HeadraceError

KAFKA_VERSION = "4.3.1"
"""The Apache Kafka release that Headrace is compared with."""

_LOG4J_VERSION = "2.25.4"
_COORDINATES = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", _LOG4J_VERSION),
)
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
def unavailable() -> str | None:
    """Why Apache Kafka cannot run here, or None if it can; fetches the jars on the first call."""
    try:
        classpath()
    except KafkaUnavailable as error:
        return str(error)
    return None


@functools.cache
def classpath() -> str:
    """The Java class path of Kafka's broker and tools, fetched into the cache if it is not there.

    Raises `KafkaUnavailable` without Java or, for the first fetch, without Maven or a repository.
    """
    java_program()
    directory = _cache_directory() / f"apache-kafka-{KAFKA_VERSION}"
    if not directory.is_dir():
        _fetch(directory)
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


def _fetch(directory: Path) -> None:
    """Copy the jars with their dependencies to `directory`, which appears only when complete."""
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable(
            "Apache Kafka's jars are not in the cache: put Maven's `mvn` on the PATH to fetch them"
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        project = Path(scratch) / "pom.xml"
        jars = Path(scratch) / "jars"
        project.write_text(_project(), encoding="utf-8")
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
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
            raise KafkaUnavailable(
                f"Maven could not resolve Apache Kafka {KAFKA_VERSION}: {reason}"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise KafkaUnavailable(
                f"Maven did not resolve Apache Kafka {KAFKA_VERSION} within "
                f"{_FETCH_TIMEOUT_SECONDS} s: check its repository settings"
            ) from error
        try:
            jars.rename(directory)
        except OSError:
            # Another process fetched them at the same time, and its copy is as good as ours.
            if not directory.is_dir():
                raise


def _project() -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, artifact, version in _COORDINATES
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>headrace</groupId>"
        "<artifactId>apache-kafka</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
