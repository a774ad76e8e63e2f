"""One consumer group in full: who is in it, who reads what, and how far behind it is."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import UnknownGroup
from headrace.kafka.groups import ask_about_group, word_of
from headrace.kafka.lag import LagMeter, PartitionLag
from headrace.kafka.lag_source import ClusterLagSource
from headrace.kafka.positions import Isolation, Partition

if TYPE_CHECKING:
    from confluent_kafka.admin import MemberDescription


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
    """How far a group has read one partition, and who reads it now."""

    lag: PartitionLag
    member: GroupMember | None


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """A group with its members and its progress in every partition it knows."""

    name: str
    state: str
    protocol: str
    assignor: str
    coordinator: int
    isolation: Isolation
    members: tuple[GroupMember, ...]
    progress: tuple[GroupProgress, ...]

    @property
    def lag(self) -> int:
        """All partitions' lag in records together."""
        return sum(each.lag.records or 0 for each in self.progress)

    @property
    def time_lag_ms(self) -> int | None:
        """The lag in time of the partition that is furthest behind; None if none is known."""
        known = [each.lag.time_ms for each in self.progress if each.lag.time_ms is not None]
        return max(known, default=None)

    @property
    def lost(self) -> int:
        """Offsets that were removed before the group had read them."""
        return sum(each.lag.lost for each in self.progress)


def describe_group(
    cluster: Cluster,
    name: str,
    *,
    isolation: Isolation = Isolation.READ_COMMITTED,
    time: bool = True,
) -> GroupDetail:
    """A group's members, assignment and lag; UnknownGroup if nobody has ever heard of it.

    Without `time` no record is read; see LagMeter for what that costs in accuracy.
    """
    found = ask_about_group(cluster, name)
    members = tuple(_member(each) for each in found.members)
    holders = {partition: member for member in members for partition in member.partitions}
    with ClusterLagSource(cluster) as source:
        alive = source.partitions()
        committed = source.committed(name, alive)
        if found.state.name == "DEAD" and not committed:
            raise UnknownGroup(name)
        meter = LagMeter(source, isolation_of=lambda group: isolation, time=time)
        lags = {each.partition: each for each in meter.lags({name: committed})[name]}
        unread = [each for each in holders if each not in lags]
        ranges = source.ranges([each for each in unread if each in alive], isolation)
    for each in unread:
        earliest, latest = ranges.get(each, (None, None))
        lags[each] = PartitionLag(each, None, earliest, latest, None, None)
    return GroupDetail(
        name,
        word_of(found.state),
        word_of(found.type),
        found.partition_assignor,
        found.coordinator.id,
        isolation,
        members,
        tuple(GroupProgress(lags[each], holders.get(each)) for each in sorted(lags)),
    )


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
