"""Settings of topics and brokers: never empty, changed by name, checked before they count."""

from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource as KafkaPythonResource
from kafka.admin import ConfigResourceType
from kio.schema.errors import ErrorCode

from tests.clients.librdkafka import error_code, eventually
from tests.clients.wire import Wire
from tests.clusters import Cluster
from tests.conftest import TopicFactory

DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
}

RARELY_SET = {
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "unclean.leader.election.enable": "false",
}


def describe(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(kind, name)
    found: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(20)
    return found


def value_of(admin: AdminClient, topic: str, name: str) -> object:
    return describe(admin, ResourceType.TOPIC, topic)[name].value


def change(
    admin: AdminClient,
    topic: str,
    changes: Sequence[tuple[str, str | None, AlterConfigOpType]],
    *,
    validate_only: bool = False,
) -> int:
    entries = [
        ConfigEntry(name, value, incremental_operation=operation)
        for name, value, operation in changes
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    changed = admin.incremental_alter_configs([resource], validate_only=validate_only)
    return error_code(changed[resource])


def test_a_topic_has_the_settings_that_clients_look_for(
    cluster: Cluster, admin: AdminClient, topic: str
):
    found = describe(admin, ResourceType.TOPIC, topic)
    assert {name: found[name].value for name in DEFAULTS} == DEFAULTS
    # Kafka sets the number of in-sync replicas for the whole cluster when it formats its storage.
    own = [name for name, entry in found.items() if name in DEFAULTS and not entry.is_default]
    assert set(own) <= {"min.insync.replicas"}
    assert not any(found[name].is_read_only for name in DEFAULTS)
    assert not any(found[name].is_sensitive for name in DEFAULTS)


def test_a_topic_has_every_setting_that_kafka_has(cluster: Cluster, admin: AdminClient, topic: str):
    found = describe(admin, ResourceType.TOPIC, topic)
    assert {name: entry.value for name, entry in found.items() if name != "flush"} == {
        **DEFAULTS,
        **RARELY_SET,
    }


def test_a_topic_can_be_created_with_settings_copied_from_another_cluster(
    cluster: Cluster, admin: AdminClient, new_topic: TopicFactory
):
    copied = {**RARELY_SET, "compression.type": "lz4", "flush.ms": "1000", "preallocate": "true"}
    topic = new_topic(config=copied)
    found = describe(admin, ResourceType.TOPIC, topic)
    assert {name: found[name].value for name in copied} == copied


def test_settings_given_at_creation_are_the_topics_own(
    cluster: Cluster, admin: AdminClient, new_topic: TopicFactory
):
    topic = new_topic(config={"retention.ms": "1234567", "cleanup.policy": "compact"})
    found = describe(admin, ResourceType.TOPIC, topic)
    assert found["retention.ms"].value == "1234567"
    assert found["cleanup.policy"].value == "compact"
    assert ConfigSource(found["retention.ms"].source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert not found["retention.ms"].is_default


def test_a_changed_setting_stays_until_it_is_deleted(
    cluster: Cluster, admin: AdminClient, topic: str
):
    assert change(admin, topic, [("retention.ms", "1000000", AlterConfigOpType.SET)]) == 0
    assert change(admin, topic, [("segment.bytes", "2000000", AlterConfigOpType.SET)]) == 0
    eventually(lambda: value_of(admin, topic, "segment.bytes") == "2000000")
    assert value_of(admin, topic, "retention.ms") == "1000000"
    assert change(admin, topic, [("retention.ms", None, AlterConfigOpType.DELETE)]) == 0
    eventually(lambda: value_of(admin, topic, "retention.ms") == DEFAULTS["retention.ms"])
    assert value_of(admin, topic, "segment.bytes") == "2000000"


def test_a_list_is_extended_and_reduced(cluster: Cluster, admin: AdminClient, topic: str):
    assert change(admin, topic, [("cleanup.policy", "compact", AlterConfigOpType.APPEND)]) == 0
    eventually(lambda: value_of(admin, topic, "cleanup.policy") == "delete,compact")
    assert change(admin, topic, [("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)]) == 0
    eventually(lambda: value_of(admin, topic, "cleanup.policy") == "compact")


def test_altering_all_settings_at_once_forgets_those_not_named(
    cluster: Cluster, admin: AdminClient, new_topic: TopicFactory
):
    topic = new_topic(config={"retention.ms": "1000000"})
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.bytes": "2000000"})
    with pytest.warns(DeprecationWarning, match="incremental"):
        altered = admin.alter_configs([resource])[resource]
    assert error_code(altered) == 0
    eventually(lambda: value_of(admin, topic, "segment.bytes") == "2000000")
    assert value_of(admin, topic, "retention.ms") == DEFAULTS["retention.ms"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no.such.setting", "1"),
        ("retention.ms", "soon"),
        ("retention.ms", "-2"),
        ("cleanup.policy", "burn"),
        ("segment.bytes", "1"),
        ("message.timestamp.type", "NoTime"),
        ("compression.type", "brotli"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(
    cluster: Cluster, admin: AdminClient, topic: str, fresh_name: str, name: str, value: str
):
    unborn = NewTopic(fresh_name, 1, 1, config={name: value})
    assert error_code(admin.create_topics([unborn])[fresh_name]) == KafkaError.INVALID_CONFIG
    before = describe(admin, ResourceType.TOPIC, topic)
    refused = change(admin, topic, [(name, value, AlterConfigOpType.SET)])
    assert refused == KafkaError.INVALID_CONFIG
    after = describe(admin, ResourceType.TOPIC, topic)
    assert {key: entry.value for key, entry in after.items()} == {
        key: entry.value for key, entry in before.items()
    }


def test_validation_alone_changes_nothing(cluster: Cluster, admin: AdminClient, topic: str):
    setting = [("retention.ms", "1000000", AlterConfigOpType.SET)]
    assert change(admin, topic, setting, validate_only=True) == 0
    assert value_of(admin, topic, "retention.ms") == DEFAULTS["retention.ms"]


def test_settings_of_a_topic_that_is_not_there(
    cluster: Cluster, admin: AdminClient, fresh_name: str
):
    resource = ConfigResource(ResourceType.TOPIC, fresh_name)
    described = admin.describe_configs([resource])[resource]
    assert error_code(described) == KafkaError.UNKNOWN_TOPIC_OR_PART
    setting = [("retention.ms", "1000000", AlterConfigOpType.SET)]
    assert change(admin, fresh_name, setting) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_broker_has_settings_too(cluster: Cluster, admin: AdminClient):
    (broker,) = admin.list_topics(timeout=20).brokers
    found = describe(admin, ResourceType.BROKER, str(broker))
    expected = {
        "auto.create.topics.enable": "true",
        "default.replication.factor": "1",
        "message.max.bytes": "1048588",
        "num.partitions": "1",
    }
    assert {name: found[name].value for name in expected} == expected


def test_kafka_python_reads_and_changes_settings(cluster: Cluster, topic: str):
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    resource = KafkaPythonResource(ConfigResourceType.TOPIC, topic)
    changing = KafkaPythonResource(
        ConfigResourceType.TOPIC, topic, configs={"retention.ms": "1000000"}
    )

    def setting() -> object:
        found = client.describe_configs([resource], config_filter="all")
        return found["topic"][topic]["retention.ms"]["value"]

    try:
        assert setting() == DEFAULTS["retention.ms"]
        client.alter_configs([changing])
        eventually(lambda: setting() == "1000000")
    finally:
        client.close()


def test_the_broker_says_where_clients_are_told_to_connect(cluster: Cluster, admin: AdminClient):
    found = describe(admin, ResourceType.BROKER, "1")["advertised.listeners"]
    assert found.value == f"PLAINTEXT://{cluster.bootstrap}"
    assert found.is_read_only


def test_topics_and_brokers_are_listed_as_having_settings(cluster: Cluster, topic: str):
    with Wire(cluster) as wire:
        every = wire.ask("list_config_resources", 1, resource_types=[])
        topics = wire.ask("list_config_resources", 1, resource_types=[2])
        brokers = wire.ask("list_config_resources", 1, resource_types=[4])
    assert {(topic, 2), ("1", 4)} <= {
        (one.resource_name, one.resource_type) for one in every.config_resources
    }
    assert {one.resource_type for one in topics.config_resources} == {2}
    (broker,) = brokers.config_resources
    assert broker.resource_name == "1"


def test_resources_of_a_type_that_does_not_exist_cannot_be_listed(cluster: Cluster):
    with Wire(cluster) as wire:
        metrics = wire.ask("list_config_resources", 0)
        refused = wire.ask("list_config_resources", 1, resource_types=[2, 64])
    assert (metrics.error_code, metrics.config_resources) == (ErrorCode.none, ())
    assert refused.error_code is ErrorCode.unsupported_version
    assert refused.config_resources == ()
