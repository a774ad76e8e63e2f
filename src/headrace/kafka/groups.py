"""Consumer groups: who is in them, how far they have read, and moving them elsewhere."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import UnknownGroup
from headrace.kafka.positions import Partition, offset_ranges
from headrace.kafka.topics import list_topics

if TYPE_CHECKING:
    from enum import Enum

    from confluent_kafka.admin import ConsumerGroupDescription, MemberDescription


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A line in a list of groups."""

    name: str
    state: str
    protocol: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A consumer that takes part in a group, and its share of the partitions."""

    id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How far a group has read one partition.

    `committed` is None where the group never committed, `latest` where the topic is gone.
    """

    partition: Partition
    committed: int | None
    latest: int | None
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        """Offsets between the group and the end, where both are known."""
        if self.committed is None or self.latest is None:
            return None
        return max(self.latest - self.committed, 0)


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """A group with its members and its progress in every partition it knows."""

    name: str
    state: str
    assignor: str
    coordinator: int
    members: tuple[GroupMember, ...]
    progress: tuple[GroupProgress, ...]

    @property
    def lag(self) -> int:
        """All partitions' lag together."""
        return sum(each.lag or 0 for each in self.progress)


def list_groups(cluster: Cluster) -> list[GroupSummary]:
    """All consumer groups by name."""
    answer = cluster.admin.list_consumer_groups(request_timeout=cluster.timeout)
    found = cluster.wait(answer, "list consumer groups")
    for error in found.errors:
        raise cluster.failure(error.args[0], "list consumer groups")
    groups = (
        GroupSummary(each.group_id, _word(each.state), _word(each.type)) for each in found.valid
    )
    return sorted(groups, key=lambda each: each.name)


def describe_group(cluster: Cluster, name: str) -> GroupDetail:
    """A group's members, assignment and lag; UnknownGroup if nobody has ever heard of it."""
    found = _describe(cluster, name)
    committed = committed_offsets(cluster, name)
    if found.state.name == "DEAD" and not committed:
        raise UnknownGroup(name)
    members = tuple(_member(each) for each in found.members)
    holders = {partition: member for member in members for partition in member.partitions}
    partitions = sorted({*committed, *holders})
    latest = _latest_offsets(cluster, partitions)
    return GroupDetail(
        name,
        _word(found.state),
        found.partition_assignor,
        found.coordinator.id,
        members,
        tuple(
            GroupProgress(each, committed.get(each), latest.get(each), holders.get(each))
            for each in partitions
        ),
    )


def has_members(cluster: Cluster, name: str) -> bool:
    """Whether any consumer takes part in the group now."""
    return bool(_describe(cluster, name).members)


def committed_offsets(cluster: Cluster, group: str) -> dict[Partition, int]:
    """Where a group continues, in every partition where it has committed."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    answer = cluster.admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], request_timeout=cluster.timeout
    )[group]
    found = cluster.wait(answer, f"read the offsets of {group}")
    return {
        Partition(each.topic, each.partition): each.offset
        for each in found.topic_partitions
        if each.offset >= 0
    }


def _describe(cluster: Cluster, name: str) -> "ConsumerGroupDescription":
    answer = cluster.admin.describe_consumer_groups([name], request_timeout=cluster.timeout)[name]
    found: ConsumerGroupDescription = cluster.wait(answer, f"describe the group {name}")
    return found


def _latest_offsets(cluster: Cluster, partitions: Iterable[Partition]) -> dict[Partition, int]:
    # A group remembers topics that have been deleted since; asking for their offsets would fail.
    known = {topic.name: topic.partitions for topic in list_topics(cluster)}
    alive = [each for each in partitions if each.number < known.get(each.topic, 0)]
    return {each: held.latest for each, held in offset_ranges(cluster, alive).items()}


def _member(found: "MemberDescription") -> GroupMember:
    return GroupMember(
        found.member_id,
        found.client_id,
        found.host.removeprefix("/"),
        found.group_instance_id,
        tuple(
            sorted(
                Partition(each.topic, each.partition) for each in found.assignment.topic_partitions
            )
        ),
    )


def _word(value: "Enum") -> str:
    return value.name.lower().replace("_", "-")
