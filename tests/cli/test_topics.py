"""`headrace topics` against both clusters."""

import json
import time
from collections.abc import Callable

import pytest

from tests.cli.conftest import Headrace
from tests.conftest import TopicFactory


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for what Apache Kafka's controller has decided to reach the broker that is asked."""
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline


def test_a_topic_is_created_described_and_deleted(on_cluster: Headrace, fresh_name: str):
    created = on_cluster(
        "topics", "create", fresh_name, "-p", "3", "-r", "1", "-c", "retention.ms=60000"
    )
    assert (created.exit_code, created.stderr) == (0, f"Created {fresh_name}.\n")

    described = json.loads(on_cluster("topics", "describe", fresh_name, "--json").stdout)
    assert described["topic"] == fresh_name
    assert described["config"] == {"retention.ms": "60000"}
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2]
    assert {(each["earliest"], each["latest"]) for each in described["partitions"]} == {(0, 0)}

    deleted = on_cluster("topics", "delete", fresh_name, "--yes")
    assert (deleted.exit_code, deleted.stderr) == (0, f"Deleted {fresh_name}.\n")
    assert on_cluster("topics", "describe", fresh_name).exit_code == 1


def test_the_list_is_a_table_for_people_and_json_for_programs(on_cluster: Headrace, topic: str):
    lines = on_cluster("topics", "list").stdout.splitlines()
    assert lines[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS"]
    assert [topic, "1", "1"] in [line.split() for line in lines]
    listed = json.loads(on_cluster("topics", "list", "--json").stdout)
    assert {"topic": topic, "partitions": 1, "replicas": 1, "internal": False} in listed


def test_an_existing_topic_is_an_error_unless_that_is_fine(on_cluster: Headrace, topic: str):
    refused = on_cluster("topics", "create", topic)
    assert refused.exit_code == 1
    assert f"The topic {topic} exists already" in refused.stderr
    accepted = on_cluster("topics", "create", topic, "--if-not-exists")
    assert (accepted.exit_code, accepted.stderr) == (0, f"{topic} exists already.\n")


def test_what_does_not_exist_is_said_to_be_missing(on_cluster: Headrace, fresh_name: str):
    for command in (
        ("describe", fresh_name),
        ("config", fresh_name),
        ("config", fresh_name, "retention.ms=1"),
        ("config", fresh_name, "--partitions", "2"),
        ("delete", fresh_name, "--yes"),
    ):
        result = on_cluster("topics", *command)
        assert result.exit_code == 1, command
        assert f"There is no topic {fresh_name}." in result.stderr


def test_asking_about_a_topic_does_not_create_it(on_cluster: Headrace, fresh_name: str):
    on_cluster("topics", "describe", fresh_name)
    on_cluster("tail", fresh_name)
    listed = json.loads(on_cluster("topics", "list", "--json").stdout)
    assert fresh_name not in [each["topic"] for each in listed]


def test_a_name_that_is_no_topic_name_is_refused(on_cluster: Headrace):
    result = on_cluster("topics", "create", "not/allowed")
    assert result.exit_code == 1
    assert result.stderr.startswith("headrace: Cannot create the topic not/allowed: ")


def test_configuration_is_shown_changed_and_reset(on_cluster: Headrace, topic: str):
    def entry(name: str) -> dict[str, str]:
        shown = json.loads(on_cluster("topics", "config", topic, "--json").stdout)
        found: dict[str, str] = shown[name]
        return found

    default = entry("retention.ms")
    assert default["from"] != "topic"
    changed = on_cluster("topics", "config", topic, "retention.ms=1234", "segment.bytes=2000000")
    assert changed.exit_code == 0
    eventually(lambda: entry("retention.ms") == {"value": "1234", "from": "topic"})
    assert on_cluster("topics", "config", topic, "--reset", "retention.ms").exit_code == 0
    eventually(lambda: entry("retention.ms") == default)
    assert entry("segment.bytes") == {"value": "2000000", "from": "topic"}
    table = [line.split() for line in on_cluster("topics", "config", topic).stdout.splitlines()]
    assert table[0] == ["NAME", "VALUE", "FROM"]
    assert ["segment.bytes", "2000000", "topic"] in table


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("retension.ms", "did you mean retention.ms?"), ("colour", "`headrace topics config` on any")],
)
def test_unknown_configuration_is_refused_with_a_suggestion(
    on_cluster: Headrace, topic: str, fresh_name: str, name: str, remedy: str
):
    for command in (
        ("config", topic, f"{name}=1"),
        ("create", fresh_name, "-c", f"{name}=1"),
    ):
        result = on_cluster("topics", *command)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"headrace: Topics have no configuration {name}; {remedy}")


def test_an_impossible_value_is_refused_in_the_cluster_s_words(on_cluster: Headrace, topic: str):
    result = on_cluster("topics", "config", topic, "retention.ms=soon")
    assert result.exit_code == 1
    assert f"Cannot change the configuration of {topic}" in result.stderr


def test_a_topic_grows_but_does_not_shrink(on_cluster: Headrace, new_topic: TopicFactory):
    topic = new_topic(2)
    assert on_cluster("topics", "config", topic, "--partitions", "3").exit_code == 0
    described = json.loads(on_cluster("topics", "describe", topic, "--json").stdout)
    assert len(described["partitions"]) == 3
    assert on_cluster("topics", "config", topic, "--partitions", "1").exit_code == 1


def test_people_see_partitions_and_configuration(on_cluster: Headrace, new_topic: TopicFactory):
    topic = new_topic(1, {"cleanup.policy": "compact"})
    on_cluster("produce", topic, "a", "b", "-k", "x")
    lines = on_cluster("topics", "describe", topic).stdout.splitlines()
    assert lines[0].split() == ["Topic", topic]
    assert lines[2].split() == ["Config", "cleanup.policy=compact"]
    assert lines[4].split()[-3:] == ["EARLIEST", "LATEST", "OFFSETS"]
    assert lines[5].split()[-3:] == ["0", "2", "2"]
