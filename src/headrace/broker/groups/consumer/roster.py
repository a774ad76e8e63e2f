"""Who is in a consumer group, who has which partition, and what of that is not stored yet."""

from collections.abc import Iterator

from headrace.broker.groups.consumer.member import ConsumerMember
from headrace.broker.groups.consumer.partitions import PartitionId
from headrace.broker.groups.consumer.reconciliation import Holding


class ConsumerRoster:
    """The members of one group, in the order in which they came.

    A partition has at most one owner: the member that may work on it, or that has been asked to
    give it up and has not said that it did.
    """

    def __init__(self) -> None:
        self._members: dict[str, ConsumerMember] = {}
        self._instances: dict[str, ConsumerMember] = {}
        self._owners: dict[PartitionId, ConsumerMember] = {}
        self.changed: set[str] = set()
        """The members that are not stored as they are."""
        self.gone: set[str] = set()
        """The members that are stored and have left."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[ConsumerMember]:
        return iter(tuple(self._members.values()))

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def get(self, member_id: str) -> ConsumerMember | None:
        """The member with an id, if there is one."""
        return self._members.get(member_id)

    def instance(self, instance_id: str | None) -> ConsumerMember | None:
        """The static member with a lasting name, if there is one."""
        return None if instance_id is None else self._instances.get(instance_id)

    def is_free(self, partition: PartitionId) -> bool:
        """Whether nobody has a partition."""
        return partition not in self._owners

    def add(self, member: ConsumerMember) -> None:
        """Add a member with what it has."""
        self._members[member.id] = member
        self.gone.discard(member.id)
        self._own(member)
        self.touch(member)

    def remove(self, member: ConsumerMember) -> None:
        """Remove a member; what it had is free."""
        del self._members[member.id]
        if self._instances.get(member.profile.instance_id or "") is member:
            del self._instances[member.profile.instance_id or ""]
        self._disown(member)
        self.changed.discard(member.id)
        self.gone.add(member.id)

    def hold(self, member: ConsumerMember, holding: Holding) -> None:
        """A member has other partitions now, or is in another epoch."""
        if holding != member.holding:
            self._disown(member)
            member.holding = holding
            self._own(member)
            self.touch(member)

    def touch(self, member: ConsumerMember) -> None:
        """Something about a member has changed."""
        if member.profile.instance_id is not None:
            self._instances[member.profile.instance_id] = member
        self.changed.add(member.id)

    def _own(self, member: ConsumerMember) -> None:
        for each in (*member.holding.assigned, *member.holding.revoking):
            assert self._owners.setdefault(each, member) is member, f"{each} has two owners"

    def _disown(self, member: ConsumerMember) -> None:
        for each in (*member.holding.assigned, *member.holding.revoking):
            del self._owners[each]
