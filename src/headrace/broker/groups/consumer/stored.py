"""A consumer group in the journal: one entry per change, with everything that changed at once.

An entry is applied as a whole or, if a crash tears it, not at all. So after a crash no partition
has two owners, and members go on in the epoch that they know.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from headrace.broker.groups.consumer.partitions import PartitionId, Share, by_topic

if TYPE_CHECKING:
    from headrace.broker.groups.consumer.member import Profile
    from headrace.broker.groups.consumer.reconciliation import Holding

ENTRY_VERSION: Final = 1
"""The form of the entries."""


class StoredMember(NamedTuple):
    """What is known about a member after a restart."""

    profile: "Profile"
    holding: "Holding"
    target: Share


class ConsumerGroupChanged(NamedTuple):
    """A consumer group has moved on."""

    group_id: str
    epoch: int
    assignment_epoch: int
    empty_since_ms: int | None
    """None while the group has members."""
    members: Mapping[str, StoredMember] = MappingProxyType({})
    """Those that came or changed."""
    gone: tuple[str, ...] = ()
    """Those that left."""

    def after(self, before: "ConsumerGroupChanged | None") -> "ConsumerGroupChanged":
        """The whole group, given the whole group before this change."""
        members = dict(before.members) if before else {}
        for member_id in self.gone:
            members.pop(member_id, None)
        return ConsumerGroupChanged(
            self.group_id,
            self.epoch,
            self.assignment_epoch,
            self.empty_since_ms,
            members | dict(self.members),
        )


def to_fields(entry: ConsumerGroupChanged) -> list[Any]:
    """The entry as the fields of a JSON array."""
    return [
        "consumer",
        ENTRY_VERSION,
        entry.group_id,
        entry.epoch,
        entry.assignment_epoch,
        entry.empty_since_ms,
        {member_id: _member_fields(member) for member_id, member in entry.members.items()},
        entry.gone,
    ]


def from_fields(fields: list[Any]) -> ConsumerGroupChanged:
    """The entry that the fields of a JSON array say."""
    _, version, group_id, epoch, assignment_epoch, empty_since_ms, members, gone = fields
    if version != ENTRY_VERSION:
        raise ValueError(f"version {version} of a consumer group's entry")
    return ConsumerGroupChanged(
        group_id,
        epoch,
        assignment_epoch,
        empty_since_ms,
        {member_id: _member(each) for member_id, each in members.items()},
        tuple(gone),
    )


def _member_fields(member: StoredMember) -> dict[str, Any]:
    profile, holding = member.profile, member.holding
    return {
        "instance": profile.instance_id,
        "rack": profile.rack_id,
        "client": profile.client_id,
        "host": profile.client_host,
        "rebalance_ms": profile.rebalance_timeout_ms,
        "topics": sorted(profile.topic_names),
        "expression": profile.topic_expression,
        "assignor": profile.assignor,
        "epoch": holding.epoch,
        "previous_epoch": holding.previous_epoch,
        "phase": holding.phase,
        "assigned": _with_epochs(holding.assigned),
        "revoking": _with_epochs(holding.revoking),
        "target": {topic.hex: numbers for topic, numbers in by_topic(member.target).items()},
    }


def _member(fields: dict[str, Any]) -> StoredMember:
    # Not before there is a member: the store is part of every start, see `headrace.broker.later`.
    from headrace.broker.groups.consumer.member import Profile
    from headrace.broker.groups.consumer.reconciliation import Holding, Phase

    return StoredMember(
        Profile(
            instance_id=fields["instance"],
            rack_id=fields["rack"],
            client_id=fields["client"],
            client_host=fields["host"],
            rebalance_timeout_ms=fields["rebalance_ms"],
            topic_names=frozenset(fields["topics"]),
            topic_expression=fields["expression"],
            assignor=fields["assignor"],
        ),
        Holding(
            epoch=fields["epoch"],
            previous_epoch=fields["previous_epoch"],
            phase=Phase(fields["phase"]),
            assigned=_from_epochs(fields["assigned"]),
            revoking=_from_epochs(fields["revoking"]),
        ),
        frozenset(
            PartitionId(topic_id, number)
            for topic_id, numbers in _by_id(fields["target"])
            for number in numbers
        ),
    )


def _with_epochs(partitions: Mapping[PartitionId, int]) -> dict[str, list[tuple[int, int]]]:
    topics: dict[str, list[tuple[int, int]]] = {}
    for (topic_id, number), epoch in partitions.items():
        topics.setdefault(topic_id.hex, []).append((number, epoch))
    return topics


def _from_epochs(topics: dict[str, list[tuple[int, int]]]) -> dict[PartitionId, int]:
    return {
        PartitionId(topic_id, number): epoch
        for topic_id, numbers in _by_id(topics)
        for number, epoch in numbers
    }


def _by_id(topics: dict[str, list[Any]]) -> Iterator[tuple[UUID, list[Any]]]:
    return ((UUID(topic), numbers) for topic, numbers in topics.items())
