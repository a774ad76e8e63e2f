"""What a cluster says about itself."""

import struct
from typing import Any

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer
from kio.schema.errors import ErrorCode

from tests.clients.librdkafka import consumer, producer, send
from tests.clients.wire import Wire
from tests.clusters import APACHE_KAFKA, Cluster
from tests.conftest import TopicFactory


def test_every_client_learns_the_same_cluster_id(cluster: Cluster, admin: AdminClient, group: str):
    described = admin.describe_cluster().result(20)
    assert described.cluster_id
    assert producer(cluster).cluster_id(20) == described.cluster_id
    with consumer(cluster, group) as asking:
        assert asking.cluster_id(20) == described.cluster_id
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        assert client.describe_cluster()["cluster_id"] == described.cluster_id
    finally:
        client.close()


def test_the_one_node_is_broker_and_controller(cluster: Cluster, admin: AdminClient):
    described = admin.describe_cluster().result(20)
    (node,) = described.nodes
    assert f"{node.host}:{node.port}" == cluster.bootstrap
    assert described.controller.id == node.id


def test_kafka_python_takes_the_cluster_for_a_recent_kafka(cluster: Cluster):
    asking = KafkaConsumer(bootstrap_servers=cluster.bootstrap)
    try:
        asking.topics()
        assert asking.config["api_version"] >= (2, 6)
    finally:
        asking.close()


def test_log_directories_tell_the_size_of_every_partition(
    cluster: Cluster, new_topic: TopicFactory
):
    topic = new_topic(partitions=2)
    send(cluster, topic, [b"x" * 10_000] * 5, partition=1)
    with Wire(cluster) as wire:
        wanted = [{"topic": topic, "partitions": [0, 1]}]
        (directory,) = wire.ask("describe_log_dirs", 4, topics=wanted).results
    assert directory.error_code is ErrorCode.none
    assert directory.log_dir
    assert directory.total_bytes > directory.usable_bytes > 0
    (found,) = directory.topics
    sizes = {one.partition_index: one.partition_size for one in found.partitions}
    assert found.name == topic
    assert sizes[0] == 0
    assert 50_000 < sizes[1] < 52_000
    assert not any(one.is_future_key for one in found.partitions)


def test_log_directories_of_everything_include_this_topic(cluster: Cluster, topic: str):
    with Wire(cluster) as wire:
        (directory,) = wire.ask("describe_log_dirs", 1, topics=None).results
    assert topic in {found.name for found in directory.topics}


def test_an_unknown_version_question_is_answered_in_the_oldest_version(cluster: Cluster):
    with Wire(cluster) as wire:
        wire.send_frame(struct.pack(">hhihb", 18, 1_000, 9, -1, 0))
        correlation, error, ranges = struct.unpack_from(">ihi", wire.receive_frame())
        assert (correlation, error) == (9, ErrorCode.unsupported_version.value)
        assert ranges > 0
        assert wire.ask("api_versions", 0).error_code is ErrorCode.none


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_every_advertised_range_is_one_that_apache_kafka_has(cluster: Cluster, version: int):
    software = {"client_software_name": "wire", "client_software_version": "1"}
    with Wire(cluster) as wire:
        answer = wire.ask("api_versions", version, **(software if version >= 3 else {}))
    advertised = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    needed = {0: 10, 1: 16, 2: 7, 3: 13, 8: 9, 9: 9, 10: 2, 11: 5, 12: 3, 13: 1, 14: 3, 22: 4}
    assert {key: last for key, last in needed.items() if advertised[key][1] < last} == {}
    # Older librdkafka stops compressing if it does not find the versions it never uses.
    assert advertised[0][0] == 0
    assert cluster.name == APACHE_KAFKA or set(advertised) <= KNOWN_TO_APACHE_KAFKA


KNOWN_TO_APACHE_KAFKA = frozenset(range(93)) - {4, 5, 6, 7}
"""API keys of Kafka 4.3 without those that only brokers ever sent each other."""


def test_a_client_that_asks_is_told_that_it_may_do_everything(
    cluster: Cluster, admin: AdminClient, topic: str
):
    described = admin.describe_topics(TopicCollection([topic]), include_authorized_operations=True)
    assert {operation.name for operation in described[topic].result(20).authorized_operations} == {
        *("READ", "WRITE", "CREATE", "DELETE", "ALTER"),
        *("DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    }
    whole = admin.describe_cluster(include_authorized_operations=True).result(20)
    assert {operation.name for operation in whole.authorized_operations} == {
        *("CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION"),
        *("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE"),
    }


def test_a_client_that_does_not_ask_is_not_told_what_it_may_do(
    cluster: Cluster, admin: AdminClient, topic: str
):
    described = admin.describe_topics(TopicCollection([topic]))
    assert not described[topic].result(20).authorized_operations
    assert not admin.describe_cluster().result(20).authorized_operations


def test_described_partitions_come_with_what_may_be_done_to_their_topic(
    cluster: Cluster, topic: str
):
    with Wire(cluster) as wire:
        (found,) = wire.ask(
            "describe_topic_partitions",
            0,
            topics=[{"name": topic}],
            response_partition_limit=10,
            cursor=None,
        ).topics
    assert found.topic_authorized_operations == sum(1 << code for code in (*range(3, 9), 10, 11))


def test_features_are_told_at_their_levels(cluster: Cluster):
    software = {"client_software_name": "test", "client_software_version": "1"}
    expected = {"group.version": 1, "transaction.version": 2}
    with Wire(cluster) as wire:
        older = wire.ask("api_versions", 3, **software)
        newer = wire.ask("api_versions", 4, **software)
    for answer in (older, newer):
        levels = {one.name: one.max_version_level for one in answer.finalized_features}
        assert levels | expected == levels
        assert answer.finalized_features_epoch >= 0
    assert not any(one.min_version == 0 for one in older.supported_features)
    supported = {one.name: one.max_version for one in newer.supported_features}
    assert supported | expected == supported


def test_the_one_node_decides_about_the_cluster(cluster: Cluster):
    def ask(topic: str, version: int) -> Any:
        asked = [{"topic_name": topic, "partitions": [{"partition_index": 0}]}]
        return wire.ask("describe_quorum", version, topics=asked).topics[0].partitions[0]

    with Wire(cluster) as wire:
        for version in range(3):
            quorum = ask("__cluster_metadata", version)
            assert (quorum.error_code, quorum.leader_id) == (ErrorCode.none, 1)
            assert [voter.replica_id for voter in quorum.current_voters] == [1]
            assert ask("orders", version).error_code is ErrorCode.unknown_topic_or_partition


def test_nobody_has_quotas_or_passwords(cluster: Cluster):
    with Wire(cluster) as wire:
        assert wire.ask("describe_client_quotas", 1, components=[], strict=False).entries == ()
        everybody = wire.ask("describe_user_scram_credentials", 0, users=None)
        assert (everybody.error_code, everybody.results) == (ErrorCode.none, ())
        named = wire.ask("describe_user_scram_credentials", 0, users=[{"name": "bob"}])
        assert [one.error_code for one in named.results] == [ErrorCode.resource_not_found]
