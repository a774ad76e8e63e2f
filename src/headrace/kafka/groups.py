"""Consumer groups: which there are, whether they run, and the offsets they continue from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import CommittedOffsets
from headrace.kafka.errors import GroupActive, GroupInUse, RequestRefused, UnknownGroup
from headrace.kafka.positions import Partition
from headrace.kafka.topics import list_topics

if TYPE_CHECKING:
    from enum import Enum

    from confluent_kafka import KafkaError
    from confluent_kafka.admin import ConsumerGroupDescription


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A line in a list of groups; `protocol` is "classic", or "consumer" for the new kind."""

    name: str
    state: str
    protocol: str

    @property
    def internal(self) -> bool:
        """Whether no consumer belongs to it: the sinks of flows keep their progress in groups."""
        return self.name.startswith("__")


def list_groups(cluster: Cluster) -> list[GroupSummary]:
    """All consumer groups by name."""
    answer = cluster.admin.list_consumer_groups(request_timeout=cluster.timeout)
    found = cluster.wait(answer, "list consumer groups")
    for problem in found.errors:
        # The client library's annotation says that they are exceptions; they are the errors in it.
        error = cast("KafkaError", problem)
        raise cluster.failure(error, "list consumer groups")
    groups = (
        GroupSummary(each.group_id, word_of(each.state), word_of(each.type)) for each in found.valid
    )
    return sorted(groups, key=lambda each: each.name)


def has_members(cluster: Cluster, name: str) -> bool:
    """Whether any consumer takes part in the group now."""
    return bool(ask_about_group(cluster, name).members)


def committed_offsets(cluster: Cluster, group: str) -> dict[Partition, int]:
    """Where a group continues, in every partition where it has committed."""
    partitions = [
        Partition(topic.name, number)
        for topic in list_topics(cluster)
        for number in range(topic.partitions)
    ]
    with CommittedOffsets(cluster) as committed:
        return committed.of(group, partitions)


def set_offsets(cluster: Cluster, group: str, offsets: Mapping[Partition, int]) -> None:
    """Let a group continue elsewhere; GroupActive if it has members, who would object."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    request = ConsumerGroupTopicPartitions(
        group,
        [TopicPartition(each.topic, each.number, offset) for each, offset in offsets.items()],
    )
    attempt = f"move the group {group}"
    answer = cluster.admin.alter_consumer_group_offsets([request], request_timeout=cluster.timeout)[
        group
    ]
    for each in cluster.wait(answer, attempt).topic_partitions:
        if each.error is not None and each.error.name() == "UNKNOWN_MEMBER_ID":
            raise GroupActive(group)
        if each.error is not None:
            raise cluster.failure(each.error, attempt, topic=each.topic)


def delete_group(cluster: Cluster, name: str) -> None:
    """Forget a group and its offsets; UnknownGroup if there is none, GroupInUse if it runs."""
    request = [name]
    answer = cluster.admin.delete_consumer_groups(request, request_timeout=cluster.timeout)[name]
    try:
        cluster.wait(answer, f"delete the group {name}")
    except RequestRefused as refused:
        if refused.reason == "NON_EMPTY_GROUP":
            raise GroupInUse(name) from None
        if refused.reason == "GROUP_ID_NOT_FOUND":
            raise UnknownGroup(name) from None
        raise


def ask_about_group(cluster: Cluster, name: str) -> "ConsumerGroupDescription":
    """The client library's description of a group, which is of state DEAD if there is none."""
    answer = cluster.admin.describe_consumer_groups([name], request_timeout=cluster.timeout)[name]
    found: ConsumerGroupDescription = cluster.wait(answer, f"describe the group {name}")
    return found


def word_of(value: "Enum") -> str:
    """A state or type as people write it: PREPARING_REBALANCE is preparing-rebalance."""
    return value.name.lower().replace("_", "-")
