"""Moving replicas and electing leaders: refused or not needed, in the words tools understand."""

import datetime

import pytest
from kio.schema.errors import ErrorCode

from tests.clients.librdkafka import send
from tests.clients.wire import Wire
from tests.clusters import Cluster

NODE = 1
SOON = datetime.timedelta(seconds=10)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_no_leader_has_to_be_elected(cluster: Cluster, topic: str, version: int):
    kind = {} if version == 0 else {"election_type": 0}
    wanted = [{"topic": topic, "partitions": [0, 9]}, {"topic": "nowhere", "partitions": [0]}]
    with Wire(cluster) as wire:
        answer = wire.ask(
            "elect_leaders", version, topic_partitions=wanted, timeout=SOON, **kind
        ).replica_election_results
    results = {
        (one.topic, part.partition_id): part.error_code
        for one in answer
        for part in one.partition_result
    }
    assert results == {
        (topic, 0): ErrorCode.election_not_needed,
        (topic, 9): ErrorCode.unknown_topic_or_partition,
        ("nowhere", 0): ErrorCode.unknown_topic_or_partition,
    }


def test_an_election_for_all_partitions_names_every_topic_and_changes_none(
    cluster: Cluster, topic: str
):
    with Wire(cluster) as wire:
        answer = wire.ask(
            "elect_leaders", 2, election_type=0, topic_partitions=None, timeout=SOON
        ).replica_election_results
    assert {one.topic: one.partition_result for one in answer}[topic] == ()


def test_an_election_of_an_unknown_kind_is_refused(cluster: Cluster, topic: str):
    wanted = [{"topic": topic, "partitions": [0]}]
    with Wire(cluster) as wire:
        answer = wire.ask(
            "elect_leaders", 2, election_type=7, topic_partitions=wanted, timeout=SOON
        )
    assert answer.error_code is ErrorCode.invalid_request
    ((refused,),) = [one.partition_result for one in answer.replica_election_results]
    assert refused.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ([NODE], ErrorCode.none),
        ([NODE + 1], ErrorCode.invalid_replica_assignment),
        ([NODE, NODE + 1], ErrorCode.invalid_replica_assignment),
        ([NODE, NODE], ErrorCode.invalid_replica_assignment),
        ([], ErrorCode.invalid_replica_assignment),
        (None, ErrorCode.no_reassignment_in_progress),
    ],
)
def test_a_partition_can_only_stay_where_it_is(
    cluster: Cluster, topic: str, version: int, replicas: list[int] | None, code: ErrorCode
):
    assert reassign(cluster, topic, 0, replicas, version) is code
    with Wire(cluster) as wire:
        moving = wire.ask("list_partition_reassignments", 0, timeout=SOON, topics=None).topics
    assert moving == ()


def test_a_partition_that_does_not_exist_cannot_be_reassigned(cluster: Cluster, topic: str):
    assert reassign(cluster, topic, 9, [NODE]) is ErrorCode.unknown_topic_or_partition
    assert reassign(cluster, "nowhere", 0, [NODE]) is ErrorCode.unknown_topic_or_partition


def test_partitions_stay_in_their_directory(cluster: Cluster, topic: str):
    with Wire(cluster) as wire:
        (directory,) = wire.ask("describe_log_dirs", 4, topics=None).results
        assert place(wire, directory.log_dir, topic) == {
            0: ErrorCode.none,
            9: ErrorCode.unknown_topic_or_partition,
        }
        assert set(place(wire, "/no/such/place", topic).values()) == {ErrorCode.log_dir_not_found}


def test_a_partition_names_its_idempotent_producers(cluster: Cluster, topic: str):
    send(cluster, topic, [b"x"] * 3, config={"enable.idempotence": True})
    wanted = [{"name": topic, "partition_indexes": [0, 9]}]
    with Wire(cluster) as wire:
        (answer,) = wire.ask("describe_producers", 0, topics=wanted).topics
    found, missing = answer.partitions
    (producer,) = found.active_producers
    assert found.error_code is ErrorCode.none
    assert (producer.producer_epoch, producer.last_sequence) == (0, 2)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)
    assert producer.producer_id >= 0
    assert producer.last_timestamp > 0
    assert missing.error_code is ErrorCode.unknown_topic_or_partition


def reassign(
    cluster: Cluster, topic: str, partition: int, replicas: list[int] | None, version: int = 1
) -> ErrorCode:
    partitions = [{"partition_index": partition, "replicas": replicas}]
    with Wire(cluster) as wire:
        answer = wire.ask(
            "alter_partition_reassignments",
            version,
            timeout=SOON,
            topics=[{"name": topic, "partitions": partitions}],
        )
    assert answer.error_code is ErrorCode.none
    ((result,),) = [one.partitions for one in answer.responses]
    code: ErrorCode = result.error_code
    return code


def place(wire: Wire, directory: str, topic: str) -> dict[int, ErrorCode]:
    """What comes of asking for the first partition, and one that is not there, in a directory."""
    wanted = [{"path": directory, "topics": [{"name": topic, "partitions": [0, 9]}]}]
    (answer,) = wire.ask("alter_replica_log_dirs", 2, dirs=wanted).results
    return {one.partition_index: one.error_code for one in answer.partitions}
