"""`headrace groups` against both clusters: who reads what, how far behind, and moving them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cli.conftest import Headrace
from tests.clusters import Cluster
from tests.conftest import TopicFactory

START = 1_700_000_000_000
"""When the first record of each partition was made; each is a second later than the one before."""


@pytest.fixture
def topic(cluster: Cluster, new_topic: TopicFactory) -> str:
    """Two partitions with ten records each."""
    name = new_topic(2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(20):
        moment = START + number // 2 * 1000
        producer.produce(name, str(number), partition=number % 2, timestamp=moment)
    assert producer.flush(20) == 0
    return name


@pytest.fixture
def idle(cluster: Cluster, topic: str, group: str) -> str:
    """A group without members that has read 4 and 6 records of the partitions."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    offsets = [TopicPartition(topic, 0, 4), TopicPartition(topic, 1, 6)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    return group


@contextmanager
def member(cluster: Cluster, topic: str, group: str, protocol: str = "classic") -> Iterator[None]:
    """A consumer that takes part in the group and has been given its partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "client.id": "till",
            "enable.auto.commit": False,
            "group.protocol": protocol,
        }
    )
    consumer.subscribe([topic])
    try:
        while not consumer.assignment():
            consumer.poll(0.1)
        yield
    finally:
        consumer.close()


def committed(on_cluster: Headrace, group: str) -> dict[int, int]:
    shown = json.loads(on_cluster("groups", "describe", group, "--json").stdout)
    return {each["partition"]: each["committed"] for each in shown["partitions"]}


def test_groups_are_listed_with_their_state(on_cluster: Headrace, idle: str):
    listed = json.loads(on_cluster("groups", "list", "--json").stdout)
    assert {"group": idle, "state": "empty", "protocol": "classic"} in listed
    table = [line.split() for line in on_cluster("groups", "list").stdout.splitlines()]
    assert table[0] == ["GROUP", "STATE", "KIND"]
    assert [idle, "empty", "classic"] in table


def test_groups_in_which_flows_keep_their_progress_are_shown_if_asked_for(
    on_cluster: Headrace, cluster: Cluster, topic: str, group: str
):
    internal = f"__{group}"
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": internal})
    consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    consumer.close()
    assert internal not in on_cluster("groups", "list").stdout
    assert internal in on_cluster("groups", "list", "--all").stdout
    watched = on_cluster("groups", "watch", "--once").stdout
    assert internal not in watched


def test_an_idle_group_shows_its_lag(on_cluster: Headrace, idle: str, topic: str):
    shown = json.loads(on_cluster("groups", "describe", idle, "--no-time", "--json").stdout)
    assert (shown["group"], shown["state"], shown["lag"]) == (idle, "empty", 10)
    assert (shown["protocol"], shown["isolation"]) == ("classic", "read_committed")
    assert (shown["time_lag_ms"], shown["lost"]) == (None, 0)
    assert shown["members"] == []
    assert shown["partitions"] == [
        {
            "topic": topic,
            "partition": partition,
            "committed": offset,
            "earliest": 0,
            "latest": 10,
            "lag": 10 - offset,
            "time_lag_ms": None,
            "lost": 0,
            "member": None,
        }
        for partition, offset in ((0, 4), (1, 6))
    ]


def test_an_active_group_shows_who_reads_what(
    on_cluster: Headrace, cluster: Cluster, idle: str, topic: str
):
    with member(cluster, topic, idle):
        shown = json.loads(on_cluster("groups", "describe", idle, "--json").stdout)
        table = on_cluster("groups", "describe", idle, "--no-time").stdout.splitlines()
    (only,) = shown["members"]
    assert shown["state"] == "stable"
    assert (only["client"], only["host"]) == ("till", "127.0.0.1")
    assert [each["partition"] for each in only["partitions"]] == [0, 1]
    assert {each["member"] for each in shown["partitions"]} == {only["member"]}
    assert table[0].split() == ["Group", idle]
    assert [topic, "0", "4", "10", "6", only["member"]] in [line.split() for line in table]
    assert f"till    127.0.0.1  {topic}-0, {topic}-1" in table[-1]


def test_a_group_of_the_new_kind_is_shown_as_such(
    on_cluster: Headrace, cluster: Cluster, topic: str, group: str
):
    with member(cluster, topic, group, protocol="consumer"):
        listed = json.loads(on_cluster("groups", "list", "--json").stdout)
        shown = json.loads(on_cluster("groups", "describe", group, "--json").stdout)
        watched = on_cluster("groups", "watch", group, "--once", "--no-history", "--json")
    assert {"group": group, "state": "stable", "protocol": "consumer"} in listed
    assert shown["protocol"] == "consumer"
    assert [(each["committed"], each["latest"]) for each in shown["partitions"]] == [(None, 10)] * 2
    assert json.loads(watched.stdout)["protocol"] == "consumer"


def test_an_unknown_group_is_said_to_be_missing(on_cluster: Headrace, group: str):
    for command in (("describe", group), ("reset", group, "--to", "latest")):
        result = on_cluster("groups", *command)
        assert result.exit_code == 1
        assert f"There is no consumer group {group}." in result.stderr


def test_a_deleted_topic_does_not_hide_the_group(on_cluster: Headrace, idle: str, topic: str):
    on_cluster("topics", "delete", topic, "--yes")
    shown = on_cluster("groups", "describe", idle, "--json")
    # Brokers may forget the offsets of a deleted topic, and then the group with them.
    if shown.exit_code == 0:
        assert json.loads(shown.stdout)["lag"] == 0
    else:
        assert f"There is no consumer group {idle}." in shown.stderr


@pytest.mark.parametrize(
    ("target", "first", "second"),
    [
        ("--to earliest", 0, 0),
        ("--to latest", 10, 10),
        ("--to 3", 3, 3),
        ("--to 99", 10, 10),
        ("--to -1", 9, 9),
        ("--to 2023-11-14T22:13:25Z", 5, 5),
        ("--to -1h", 10, 10),
        ("--shift-by 2", 6, 8),
        ("--shift-by -5", 0, 1),
        ("--shift-by 5", 9, 10),
    ],
)
def test_a_reset_moves_the_group(
    on_cluster: Headrace, idle: str, target: str, first: int, second: int
):
    result = on_cluster("groups", "reset", idle, *target.split(), "--execute", "--json")
    assert (result.exit_code, result.stderr) == (0, f"Moved {idle} in 2 partitions.\n")
    planned: list[dict[str, Any]] = json.loads(result.stdout)
    assert [(each["before"], each["after"]) for each in planned] == [(4, first), (6, second)]
    assert [each["lag"] for each in planned] == [10 - first, 10 - second]
    assert committed(on_cluster, idle) == {0: first, 1: second}


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_without_execute_nothing_changes(on_cluster: Headrace, idle: str, options: tuple[str, ...]):
    result = on_cluster("groups", "reset", idle, "--to", "earliest", *options)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].split()[:4] == ["TOPIC", "PARTITION", "BEFORE", "AFTER"]
    assert "Nothing was changed" in result.stderr
    assert committed(on_cluster, idle) == {0: 4, 1: 6}


def test_only_the_named_topic_moves(
    on_cluster: Headrace, idle: str, topic: str, new_topic: TopicFactory
):
    other = new_topic(1)
    on_cluster("groups", "reset", idle, "--to", "earliest", "--topic", other, "--execute")
    shown = json.loads(on_cluster("groups", "describe", idle, "--json").stdout)
    positions = {
        (each["topic"], each["partition"]): each["committed"] for each in shown["partitions"]
    }
    assert positions == {(topic, 0): 4, (topic, 1): 6, (other, 0): 0}


def test_a_group_can_be_placed_before_it_first_runs(on_cluster: Headrace, group: str, topic: str):
    result = on_cluster("groups", "reset", group, "--to", "7", "-t", topic, "--execute")
    assert result.exit_code == 0
    assert committed(on_cluster, group) == {0: 7, 1: 7}


def test_a_group_with_members_is_refused(
    on_cluster: Headrace, cluster: Cluster, idle: str, topic: str
):
    with member(cluster, topic, idle):
        result = on_cluster("groups", "reset", idle, "--to", "earliest", "--execute")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"headrace: The group {idle} has running members")
    assert committed(on_cluster, idle) == {0: 4, 1: 6}


def test_a_topic_that_is_not_there_cannot_be_moved_in(
    on_cluster: Headrace, idle: str, fresh_name: str
):
    result = on_cluster("groups", "reset", idle, "--to", "earliest", "-t", fresh_name)
    assert result.exit_code == 1
    assert f"There is no topic {fresh_name}." in result.stderr


def test_a_group_is_deleted_with_its_offsets(on_cluster: Headrace, idle: str):
    asked = on_cluster("groups", "delete", idle)
    assert asked.exit_code == 2
    assert f"say --yes to delete {idle} and all offsets" in asked.stderr
    deleted = on_cluster("groups", "delete", idle, "--yes")
    assert (deleted.exit_code, deleted.stderr) == (0, f"Deleted {idle}.\n")
    again = on_cluster("groups", "delete", idle, "-y")
    assert again.exit_code == 1
    assert f"There is no consumer group {idle}." in again.stderr


def test_a_group_with_members_is_not_deleted(
    on_cluster: Headrace, cluster: Cluster, topic: str, group: str
):
    with member(cluster, topic, group):
        refused = on_cluster("groups", "delete", group, "--yes")
    assert refused.exit_code == 1
    assert f"The group {group} has running members and cannot be deleted." in refused.stderr
