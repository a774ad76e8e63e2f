"""Who is in a group: its members, their leader, and what they have in common."""

from collections import Counter
from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic.member import Member
from headrace.broker.groups.classic.messages import MemberProtocol
from headrace.broker.groups.errors import GroupError, unknown_member


class Roster:
    """The members of one group, in the order in which they came.

    The first member leads. When the leader goes, the longest-serving of the others follows.
    """

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._members: dict[str, Member] = {}
        self._instances: dict[str, Member] = {}
        self._supporters: Counter[str] = Counter()
        self.leader: str | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(self._members.values()))

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def get(self, member_id: str) -> Member | None:
        """The member with an id, if there is one."""
        return self._members.get(member_id)

    def instance(self, instance_id: str | None) -> Member | None:
        """The static member with a lasting name, if there is one."""
        return None if instance_id is None else self._instances.get(instance_id)

    def identify(self, member_id: str, instance_id: str | None) -> Member:
        """The member that a request speaks for.

        A static member whose name has been taken over by a newer process is fenced, so that two
        processes with the same name never work at the same time.
        """
        if instance_id is not None:
            current = self._instances.get(instance_id)
            if current is None:
                raise unknown_member(self._group_id, member_id)
            if current.id != member_id:
                raise GroupError(
                    ErrorCode.fenced_instance_id,
                    f"instance {instance_id!r} of group {self._group_id!r} is another process "
                    "now; give every process its own group.instance.id",
                )
        member = self._members.get(member_id)
        if member is None:
            raise unknown_member(self._group_id, member_id)
        return member

    def add(self, member: Member) -> None:
        """Add a member; the first one leads."""
        self._members[member.id] = member
        self._supporters.update(_names(member.protocols))
        if member.instance_id is not None:
            self._instances[member.instance_id] = member
        if self.leader is None:
            self.leader = member.id

    def remove(self, member: Member) -> None:
        """Remove a member; if it led, the next one does."""
        del self._members[member.id]
        self._supporters.subtract(_names(member.protocols))
        if member.instance_id is not None:
            del self._instances[member.instance_id]
        if self.leader == member.id:
            self.leader = next(iter(self._members), None)

    def replace(self, old: Member, new: Member) -> None:
        """Put a static member in the place of an earlier process with the same name."""
        leads = self.leader == old.id
        self.remove(old)
        self.add(new)
        if leads:
            self.leader = new.id

    def change_protocols(self, member: Member, protocols: tuple[MemberProtocol, ...]) -> None:
        """A member supports other protocols, or has something else to say for them."""
        self._supporters.subtract(_names(member.protocols))
        self._supporters.update(_names(protocols))
        member.protocols = protocols

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is one of those who have joined; False if nobody has."""
        leader = self._members.get(self.leader or "")
        if leader is not None and leader.joining.waiting:
            return True
        joined = next((member for member in self if member.joining.waiting), None)
        if joined is None:
            return False
        self.leader = joined.id
        return True

    @property
    def everyone_joined(self) -> bool:
        """Whether every member waits for the next generation."""
        return all(member.joining.waiting for member in self._members.values())

    @property
    def joined_count(self) -> int:
        """How many members wait for the next generation."""
        return sum(member.joining.waiting for member in self._members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance may take: as long as the most patient member allows."""
        return max((member.rebalance_timeout_ms for member in self._members.values()), default=0)

    def common_protocols(self) -> set[str]:
        """The protocols that every member supports."""
        everybody = len(self._members)
        return {name for name, count in self._supporters.items() if count == everybody > 0}

    def elect_protocol(self) -> str:
        """The protocol that most members like best among those that all support.

        Of two with equally many votes, the one that the longer-serving member voted for wins.
        """
        candidates = self.common_protocols()
        votes = Counter(member.vote(candidates) for member in self._members.values())
        return votes.most_common(1)[0][0]


def _names(protocols: tuple[MemberProtocol, ...]) -> set[str]:
    return {protocol.name for protocol in protocols}
