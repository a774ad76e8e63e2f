"""Requests that no client library sends: refused by the same codes as Apache Kafka refuses them."""

import time
import uuid
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headrace.records import build_batch
from tests.clients.wire import Wire
from tests.clusters import Cluster

SECONDS = timedelta(seconds=10)
DAY_MS = 24 * 3_600_000


def produced(cluster: Cluster, topic: str, timestamp: int) -> Any:
    records = bytes(build_batch([(b"key", b"value")], timestamp=timestamp))
    with Wire(cluster) as wire:
        answer = wire.ask(
            "produce",
            9,
            transactional_id=None,
            acks=-1,
            timeout=SECONDS,
            topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": records}]}],
        )
    return answer.responses[0].partition_responses[0]


def test_a_timestamp_too_far_ahead_has_an_error_of_its_own(cluster: Cluster, topic: str):
    result = produced(cluster, topic, int(time.time() * 1000) + 3 * DAY_MS)
    assert result.error_code is ErrorCode.invalid_timestamp


@pytest.mark.parametrize("offset", [-5, 400])
def test_a_fetch_out_of_range_tells_no_offsets(cluster: Cluster, topic: str, offset: int):
    wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1000}
    with Wire(cluster) as wire:
        answer = wire.ask(
            "fetch",
            12,
            max_wait=timedelta(0),
            min_bytes=1,
            max_bytes=1000,
            topics=[{"topic": topic, "partitions": [wanted]}],
            forgotten_topics_data=[],
        )
    (found,) = answer.responses[0].partitions
    assert found.error_code is ErrorCode.offset_out_of_range
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (-1, -1, -1)


@pytest.mark.parametrize(
    ("version", "timestamp"), [(6, -3), (7, -4), (8, -5), (9, -6), (11, -7), (1, -3)]
)
def test_special_moments_exist_only_from_a_version_on(
    cluster: Cluster, topic: str, version: int, timestamp: int
):
    assert offsets(cluster, topic, version, [timestamp]) == [ErrorCode.unsupported_version]


def test_a_partition_is_asked_for_one_moment_at_a_time(cluster: Cluster, topic: str):
    assert set(offsets(cluster, topic, 7, [-1, -2])) == {ErrorCode.invalid_request}


def offsets(cluster: Cluster, topic: str, version: int, timestamps: list[int]) -> list[ErrorCode]:
    wanted = [{"partition_index": 0, "timestamp": timestamp} for timestamp in timestamps]
    content = {"timeout": SECONDS} if version >= 10 else {}
    with Wire(cluster) as wire:
        answer = wire.ask(
            "list_offsets",
            version,
            replica_id=-1,
            **({"isolation_level": 0} if version >= 2 else {}),
            topics=[{"name": topic, "partitions": wanted}],
            **content,
        )
    return [found.error_code for found in answer.topics[0].partitions]


def test_a_topic_is_created_grown_and_deleted_once_per_request(
    cluster: Cluster, topic: str, fresh_name: str
):
    new = {"name": fresh_name, "num_partitions": 1, "replication_factor": 1}
    new |= {"assignments": [], "configs": []}
    grown = {"name": topic, "count": 4, "assignments": None}
    gone = {"name": topic, "topic_id": None}
    with Wire(cluster) as wire:
        created = wire.ask("create_topics", 7, topics=[new, new], timeout=SECONDS).topics
        added = wire.ask(
            "create_partitions", 3, topics=[grown, grown], timeout=SECONDS, validate_only=False
        ).results
        deleted = wire.ask("delete_topics", 6, topics=[gone, gone], timeout=SECONDS).responses
    for results in (created, added, deleted):
        assert [result.error_code for result in results] == [ErrorCode.invalid_request]


def test_a_topic_is_deleted_by_its_name_or_by_its_id_but_not_by_both(cluster: Cluster, topic: str):
    both = {"name": topic, "topic_id": uuid.uuid4()}
    neither = {"name": None, "topic_id": None}
    with Wire(cluster) as wire:
        for wanted in (both, neither):
            answer = wire.ask("delete_topics", 6, topics=[wanted], timeout=SECONDS)
            assert answer.responses[0].error_code is ErrorCode.invalid_request


def test_what_cannot_be_a_name_is_told_apart_from_what_is_missing(cluster: Cluster):
    topic = {"name": "a b", "topic_id": None}
    with Wire(cluster) as wire:
        metadata = wire.ask(
            "metadata",
            12,
            topics=[topic],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        described = wire.ask(
            "describe_topic_partitions",
            0,
            topics=[{"name": "a b"}],
            response_partition_limit=10,
            cursor=None,
        )
        resource = {"resource_type": 2, "resource_name": "a b", "configuration_keys": None}
        configs = wire.ask("describe_configs", 4, resources=[resource])
    for result in (metadata.topics[0], described.topics[0], configs.results[0]):
        assert result.error_code is ErrorCode.invalid_topic_exception


@pytest.mark.parametrize(
    ("changes", "times"),
    [
        ([("retention.ms", "1000000"), ("retention.ms", "2000000")], 1),
        ([("retention.ms", "1000000")], 2),
        ([("retention.ms", None)], 1),
    ],
    ids=["one key twice", "one topic twice", "no value"],
)
def test_a_configuration_is_changed_once_and_to_something(
    cluster: Cluster, topic: str, changes: list[tuple[str, str | None]], times: int
):
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in changes]
    resource = {"resource_type": 2, "resource_name": topic, "configs": configs}
    with Wire(cluster) as wire:
        answer = wire.ask(
            "incremental_alter_configs", 1, resources=[resource] * times, validate_only=False
        )
    assert {result.error_code for result in answer.responses} == {ErrorCode.invalid_request}


def test_an_empty_list_of_keys_means_all_keys(cluster: Cluster, topic: str):
    resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": []}
    with Wire(cluster) as wire:
        answer = wire.ask("describe_configs", 4, resources=[resource])
    assert len(answer.results[0].configs) > 10


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
def test_a_producer_has_an_id_and_an_epoch_or_neither(
    cluster: Cluster, producer_id: int, epoch: int
):
    with Wire(cluster) as wire:
        answer = wire.ask(
            "init_producer_id",
            4,
            transactional_id=None,
            transaction_timeout=SECONDS,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
    assert answer.error_code is ErrorCode.invalid_request
