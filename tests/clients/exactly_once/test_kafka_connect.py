"""Kafka Connect's file source: lines of a file come to a topic, each once, across a restart."""

import itertools
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from headrace.testing.kafka_jars import CONNECT, unavailable
from tests.clients.exactly_once.connect import internal_topics, worker
from tests.clients.exactly_once.ground import Ground, await_records
from tests.clients.exactly_once.topics import contents, create_topics
from tests.clients.librdkafka import TIMEOUT_SECONDS
from tests.clusters import Cluster

pytestmark = [pytest.mark.apache_kafka, pytest.mark.slow, pytest.mark.timeout(240)]

LINES = 500


@pytest.fixture(autouse=True)
def _connect() -> None:
    if reason := unavailable(CONNECT):
        pytest.skip(reason)


def test_a_file_is_continued_where_it_was_left(ground: Ground, fresh_name: str, tmp_path: Path):
    topic = f"{fresh_name}-lines"
    file = tmp_path / "lines.txt"
    create_topics(ground.cluster, [topic])
    source = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(file),
        "topic": topic,
    }
    _append(file, 0, LINES)
    with worker(ground.cluster, fresh_name, tmp_path) as running:
        running.configure("file", source)
        await_records(ground, topic, LINES, kills=[])
    _append(file, LINES, 2 * LINES)
    if ground.broker is not None:
        ground.broker.kill()
        ground.broker.start()
    with worker(ground.cluster, fresh_name, tmp_path) as running:
        running.await_running("file")
        await_records(ground, topic, 2 * LINES, kills=[])
    found = contents(ground.cluster, topic, "read_committed")
    partitions = [[_number(record.value) for record in records] for records in found.values()]
    assert all(numbers == sorted(numbers) for numbers in partitions)
    assert sorted(itertools.chain.from_iterable(partitions)) == list(range(2 * LINES))
    _check_internal_topics(ground.cluster, fresh_name)


def _append(file: Path, first: int, end: int) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.writelines(f"line {number}\n" for number in range(first, end))


def _number(line: bytes | None) -> int:
    assert line is not None
    return int(line.removeprefix(b"line "))


def _check_internal_topics(cluster: Cluster, group: str) -> None:
    """A worker asks for compacted topics, and refuses others when it starts again."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in internal_topics(group)]
    with AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        described = admin.describe_configs(resources)
        policies = [
            described[one].result(TIMEOUT_SECONDS)["cleanup.policy"].value for one in resources
        ]
    assert policies == ["compact"] * 3
