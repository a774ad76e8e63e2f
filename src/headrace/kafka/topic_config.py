"""A topic's configuration: what holds, where it comes from, and changing it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import ClusterError, RequestRefused, UnknownTopicConfig

if TYPE_CHECKING:
    from confluent_kafka.admin import ConfigEntry, ConfigSource


TOPIC_CONFIGS = (
    "cleanup.policy",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
)
"""What Kafka's topics can be configured with: where suggestions for a misspelt name come from."""


class ConfigOrigin(StrEnum):
    """Who decided a value."""

    TOPIC = "topic"
    BROKER = "broker"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One entry of a topic's configuration; the value of a secret one is None."""

    name: str
    value: str | None
    origin: ConfigOrigin


def topic_config(cluster: Cluster, topic: str) -> list[ConfigValue]:
    """Everything that holds for the topic, by name; UnknownTopic if there is none."""
    from confluent_kafka.admin import ConfigResource, ResourceType

    resource = ConfigResource(ResourceType.TOPIC, topic)
    answers = cluster.admin.describe_configs([resource], request_timeout=cluster.timeout)
    found: dict[str, ConfigEntry] = cluster.wait(
        answers[resource], f"read the configuration of {topic}", topic=topic
    )
    return [
        ConfigValue(name, found[name].value, _origin(found[name].source)) for name in sorted(found)
    ]


def change_topic_config(
    cluster: Cluster,
    topic: str,
    *,
    assign: Mapping[str, str] | None = None,
    reset: Collection[str] = (),
) -> None:
    """Assign values to some entries and return others to the default, all or none of it."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    changes = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in (assign or {}).items()
    ] + [ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in reset]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    answers = cluster.admin.incremental_alter_configs([resource], request_timeout=cluster.timeout)
    try:
        cluster.wait(answers[resource], f"change the configuration of {topic}", topic=topic)
    except RequestRefused as refused:
        raise explain_refusal(refused, [*(assign or {}), *reset]) from None


def explain_refusal(refused: RequestRefused, names: Collection[str]) -> ClusterError:
    """The refusal itself, or which of the names was misspelt and what it should have been."""
    from difflib import get_close_matches

    if refused.reason == "INVALID_CONFIG":
        for name in names:
            # Both brokers name the key they do not know at the end of the message.
            if f"Unknown topic config name: {name} " in str(refused):
                close = get_close_matches(name, TOPIC_CONFIGS, n=1, cutoff=0.5)
                return UnknownTopicConfig(name, close[0] if close else None)
    return refused


def _origin(source: "ConfigSource | int") -> ConfigOrigin:
    from confluent_kafka.admin import ConfigSource

    # The client library hands out the number of the source, whatever its annotation says.
    match ConfigSource(source):
        case ConfigSource.DYNAMIC_TOPIC_CONFIG:
            return ConfigOrigin.TOPIC
        case ConfigSource.DEFAULT_CONFIG:
            return ConfigOrigin.DEFAULT
        case _:
            return ConfigOrigin.BROKER
