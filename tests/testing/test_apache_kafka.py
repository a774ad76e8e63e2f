"""A real Apache Kafka, or a reason why there is none."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from headrace.testing import kafka_jars
from headrace.testing.apache_kafka import ApacheKafka, ApacheKafkaFailed, java_tool

needs_kafka = pytest.mark.apache_kafka


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A machine with an empty cache, and a directory for its programs."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    forget()
    yield programs
    forget()


@pytest.fixture
def _runnable() -> None:
    if reason := ApacheKafka.unavailable():
        pytest.skip(reason)


def forget() -> None:
    kafka_jars.classpath.cache_clear()
    kafka_jars.unavailable.cache_clear()


def install(programs: Path, name: str, script: str) -> None:
    program = programs / name
    shell = shutil.which("sh", path=os.defpath)
    program.write_text(f"#!{shell}\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def test_without_java_the_reason_says_so(bare_machine: Path):
    assert "put `java` on the PATH" in str(ApacheKafka.unavailable())


def test_without_maven_the_reason_says_so(bare_machine: Path):
    install(bare_machine, "java", "exit 0")
    assert "put Maven's `mvn` on the PATH" in str(ApacheKafka.unavailable())


def test_what_maven_could_not_resolve_is_in_the_reason(bare_machine: Path, tmp_path: Path):
    install(bare_machine, "java", "exit 0")
    install(bare_machine, "mvn", "echo 'no repository answers'; exit 1")
    assert "no repository answers" in str(ApacheKafka.unavailable())
    assert list((tmp_path / "cache" / "headrace").iterdir()) == []


def test_jars_are_fetched_once_and_then_found_in_the_cache(bare_machine: Path):
    install(bare_machine, "java", "exit 0")
    install(
        bare_machine,
        "mvn",
        'for argument; do case "$argument" in -DoutputDirectory=*) '
        "directory=${argument#*=};; esac; done; "
        f'{shutil.which("mkdir", path=os.defpath)} "$directory"; : > "$directory/kafka.jar"',
    )
    assert ApacheKafka.unavailable() is None
    first = kafka_jars.classpath()
    forget()
    install(bare_machine, "mvn", "exit 1")
    assert kafka_jars.classpath() == first
    assert Path(first).parent.joinpath("kafka.jar").exists()


def test_each_set_of_jars_is_fetched_by_its_own_coordinates(bare_machine: Path):
    install(bare_machine, "java", "exit 0")
    copy = shutil.which("cp", path=os.defpath)
    install(
        bare_machine,
        "mvn",
        'for argument; do case "$argument" in -DoutputDirectory=*) directory=${argument#*=};; '
        "*pom.xml) project=$argument;; esac; done; "
        f'{shutil.which("mkdir", path=os.defpath)} "$directory"; {copy} "$project" "$directory"',
    )
    for jars in (kafka_jars.STREAMS, kafka_jars.CONNECT):
        project = Path(kafka_jars.classpath(jars)).parent / "pom.xml"
        assert all(artifact in project.read_text() for _, artifact, _ in jars.artifacts)


@needs_kafka
@pytest.mark.usefixtures("_runnable")
def test_a_node_serves_clients_with_the_properties_it_was_given():
    with ApacheKafka(properties={"num.partitions": "3"}) as kafka:
        running = Path("/proc") / str(kafka.pid)
        assert running.exists()
        assert kafka.start_seconds > 0
        resource = ConfigResource(ResourceType.BROKER, "1")
        with AdminClient({"bootstrap.servers": kafka.bootstrap}) as admin:
            settings = admin.describe_configs([resource])[resource].result(20)
        assert settings["num.partitions"].value == "3"
        data = Path(settings["log.dirs"].value)
        listed = java_tool(
            "org.apache.kafka.tools.TopicCommand",
            ["--bootstrap-server", kafka.bootstrap, "--list"],
        )
        assert (listed.returncode, listed.stdout.strip()) == (0, "")
    assert not running.exists()
    assert not data.exists()


@needs_kafka
@pytest.mark.usefixtures("_runnable")
def test_a_node_that_cannot_start_says_what_its_log_says():
    with (
        pytest.raises(ApacheKafkaFailed, match=r"num\.partitions"),
        ApacheKafka(properties={"num.partitions": "many"}),
    ):
        pass
