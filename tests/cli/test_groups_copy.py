"""`headrace groups copy` on both clusters: a second group, placed where another is or was."""

import json
import time
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cli.conftest import Headrace
from tests.clusters import Cluster
from tests.conftest import TopicFactory

START = (int(time.time()) - 7200) * 1000
"""Two hours ago: Kafka's retention may remove what is older than a week at any moment."""


@pytest.fixture
def topic(cluster: Cluster, new_topic: TopicFactory) -> str:
    """Two partitions with ten records each, a second apart."""
    name = new_topic(2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(20):
        moment = START + number // 2 * 1000
        producer.produce(name, str(number), partition=number % 2, timestamp=moment)
    assert producer.flush(20) == 0
    return name


@pytest.fixture
def source(cluster: Cluster, topic: str, group: str) -> str:
    """A group that has read 4 and 6 records of the partitions."""
    place(cluster, group, topic, 4, 6)
    return group


@pytest.fixture
def target(group: str) -> str:
    return f"{group}-copy"


def place(cluster: Cluster, group: str, topic: str, *offsets: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    places = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def offsets(on_cluster: Headrace, group: str) -> list[int]:
    shown = on_cluster("groups", "describe", group, "--no-time", "--json")
    if shown.exit_code != 0:
        return []
    return [each["committed"] for each in json.loads(shown.stdout)["partitions"]]


@pytest.mark.parametrize(
    ("position", "placed"),
    [
        ("", [4, 6]),
        ("--to earliest", [0, 0]),
        ("--to latest", [10, 10]),
        ("--to {fifth}", [5, 5]),
        ("--to -1h", [10, 10]),
        ("--shift-by -5", [0, 1]),
    ],
)
def test_a_copy_begins_where_it_is_told(
    on_cluster: Headrace, source: str, target: str, position: str, placed: list[int]
):
    fifth = datetime.fromtimestamp(START // 1000 + 5, UTC).isoformat()
    options = position.format(fifth=fifth).split()
    result = on_cluster("groups", "copy", source, target, *options, "--execute", "--json")
    assert result.exit_code == 0
    assert result.stderr == f"Copied {source} to {target} in 2 partitions.\n"
    planned = json.loads(result.stdout)
    assert [(each["source"], each["replaced"]) for each in planned] == [(4, None), (6, None)]
    assert [(each["target"], each["lag"]) for each in planned] == [(at, 10 - at) for at in placed]
    assert offsets(on_cluster, target) == placed
    assert offsets(on_cluster, source) == [4, 6]


def test_the_copy_reads_what_the_source_would(
    on_cluster: Headrace, cluster: Cluster, source: str, target: str, topic: str
):
    on_cluster("groups", "copy", source, target, "--execute")
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": target, "auto.offset.reset": "error"}
    )
    consumer.subscribe([topic])
    read: list[tuple[int | None, int | None]] = []
    while len(read) < 10:
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        read.append((message.partition(), message.offset()))
    consumer.close()
    assert sorted(read) == [(0, at) for at in range(4, 10)] + [(1, at) for at in range(6, 10)]


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_without_execute_nothing_is_created(
    on_cluster: Headrace, source: str, target: str, options: tuple[str, ...]
):
    result = on_cluster("groups", "copy", source, target, *options)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].split()[-4:] == ["SOURCE", "REPLACED", "TARGET", "LAG"]
    assert "Nothing was changed" in result.stderr
    assert offsets(on_cluster, target) == []


def test_only_the_named_topics_are_copied(
    on_cluster: Headrace,
    cluster: Cluster,
    source: str,
    target: str,
    topic: str,
    new_topic: TopicFactory,
):
    other = new_topic(1)
    place(cluster, source, other, 0)
    on_cluster("groups", "copy", source, target, "--topic", topic, "--execute")
    assert offsets(on_cluster, target) == [4, 6]
    result = on_cluster("groups", "copy", source, f"{target}-2", "--topic", "elsewhere")
    assert result.exit_code == 1
    assert f"{source} has no offsets in elsewhere; it has some in " in result.stderr


def test_offsets_of_the_target_are_replaced_only_by_force(
    on_cluster: Headrace, cluster: Cluster, source: str, target: str, topic: str
):
    place(cluster, target, topic, 9)
    refused = on_cluster("groups", "copy", source, target, "--execute")
    assert refused.exit_code == 1
    assert f"The group {target} has offsets already." in refused.stderr
    assert offsets(on_cluster, target) == [9]
    forced = on_cluster("groups", "copy", source, target, "--execute", "--force", "--json")
    assert [each["replaced"] for each in json.loads(forced.stdout)] == [9, None]
    assert offsets(on_cluster, target) == [4, 6]


def test_a_target_with_members_is_refused_and_a_source_with_members_is_not(
    on_cluster: Headrace, cluster: Cluster, source: str, target: str, topic: str
):
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": source, "enable.auto.commit": False}
    )
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    copied = on_cluster("groups", "copy", source, target, "--execute")
    refused = on_cluster("groups", "copy", target, source, "--execute", "--force")
    consumer.close()
    assert copied.exit_code == 0
    assert offsets(on_cluster, target) == [4, 6]
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"headrace: The group {source} has running members")


def test_a_source_that_is_not_there_or_is_the_target_is_refused(
    on_cluster: Headrace, group: str, target: str
):
    result = on_cluster("groups", "copy", group, target)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"There is no consumer group {group}." in result.stderr
    result = on_cluster("groups", "copy", group, group)
    assert f"{group} cannot be copied to itself" in result.stderr
