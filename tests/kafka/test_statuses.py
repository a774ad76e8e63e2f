"""What runs tell about themselves, and how others read it."""

import orjson
import pytest

from headrace.kafka import Cluster, ensure_topic, topic_config
from headrace.kafka.statuses import TOPIC, VERSION, StatusFollower, StatusReporter
from headrace.settings import KafkaSettings
from tests.clusters import Cluster as Running
from tests.console.stack import eventually


@pytest.fixture
def kafka(cluster: Running) -> Cluster:
    return Cluster(KafkaSettings(bootstrap=cluster.bootstrap))


def test_what_is_told_is_read_until_the_end(kafka: Cluster, fresh_name: str) -> None:
    told = {"state": "running", "read": 1}
    key = f"flow/{fresh_name}"
    reporter = StatusReporter(kafka, key, lambda: {key: dict(told)}, interval_ms=20)
    follower = StatusFollower(kafka)
    reporter.start()
    try:
        found = eventually(lambda: follower.read().get(key))
        assert (found["state"], found["version"]) == ("running", VERSION)
        assert found["process"] > 0
        told["read"] = 2
        eventually(lambda: follower.read()[key]["read"] == 2)
        told["state"] = "stopped"
    finally:
        reporter.close()
    eventually(lambda: follower.read()[key]["state"] == "stopped")
    follower.close()


def test_a_new_reader_finds_everything_at_its_first_look(kafka: Cluster, fresh_name: str) -> None:
    keys = [f"batch/{fresh_name}/{number}" for number in range(50)]
    own = f"flow/{fresh_name}"
    statuses = {key: {"number": number} for number, key in enumerate(keys)} | {own: {}}
    reporter = StatusReporter(kafka, own, lambda: statuses, interval_ms=20)
    reporter.start()
    reporter.close()
    follower = StatusFollower(kafka)
    found = follower.read()
    follower.close()
    assert [found[key]["number"] for key in keys] == list(range(50))


def test_what_has_not_changed_is_not_told_again(kafka: Cluster, fresh_name: str) -> None:
    key, other = f"flow/{fresh_name}", f"batch/{fresh_name}/1"
    looks = []

    def describe() -> dict[str, dict[str, int]]:
        looks.append(1)
        return {key: {"read": 1}, other: {"number": 1}}

    reporter = StatusReporter(kafka, key, describe, interval_ms=10)
    reporter.start()
    eventually(lambda: len(looks) > 5)
    reporter.close()
    follower = StatusFollower(kafka)
    follower.read()
    assert follower.read()[other]["at_ms"] <= follower.read()[key]["at_ms"]
    follower.close()


def test_records_of_a_later_version_and_nonsense_are_left_out(
    kafka: Cluster, fresh_name: str
) -> None:
    ensure_topic(kafka, TOPIC, partitions=1)
    producer = kafka.producer()
    for key, value in (
        (f"later/{fresh_name}", orjson.dumps({"version": VERSION + 1})),
        (f"nonsense/{fresh_name}", b"{"),
        (f"list/{fresh_name}", b"[]"),
        (f"good/{fresh_name}", orjson.dumps({"version": VERSION, "a": 1})),
    ):
        producer.produce(TOPIC, value, key)
    producer.flush(20)
    follower = StatusFollower(kafka)
    found = [key for key in follower.read() if key.endswith(fresh_name)]
    follower.close()
    assert found == [f"good/{fresh_name}"]


def test_the_topic_is_compacted(kafka: Cluster, fresh_name: str) -> None:
    reporter = StatusReporter(kafka, fresh_name, lambda: {fresh_name: {}}, interval_ms=10)
    reporter.start()
    reporter.close()
    config = {each.name: each.value for each in topic_config(kafka, TOPIC)}
    assert config["cleanup.policy"] == "compact"


def test_a_cluster_that_is_not_there_harms_nobody() -> None:
    nowhere = Cluster(KafkaSettings(bootstrap="127.0.0.1:1"))
    reporter = StatusReporter(nowhere, "flow/x", lambda: {"flow/x": {}}, interval_ms=10)
    reporter.start()
    reporter.close()
