"""What goes in and out of classic groups: requests, answers and descriptions as values."""

from dataclasses import dataclass
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic.state import GroupState


class MemberProtocol(NamedTuple):
    """One way of sharing work that a member supports, with what it has to say for it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A member wants to be part of the group's next generation."""

    group_id: str
    member_id: str = ""
    """Empty for a member that has no id yet."""
    instance_id: str | None = None
    """The lasting name of a static member (KIP-345)."""
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    """In the member's order of preference."""
    reason: str | None = None
    requires_member_id: bool = True
    """Whether a newcomer has to join twice, the second time with the id it was given."""
    may_skip_assignment: bool = True
    """Whether a leader that has been replaced can be told that assignments stand (KIP-814)."""


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A member is part of a generation; the leader also learns who else is."""

    member_id: str
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A member asks for its assignment; the leader brings everybody's."""

    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()
    """Member id and assignment; only the leader's are used."""


class Synced(NamedTuple):
    """A member's assignment in the current generation."""

    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


class Departure(NamedTuple):
    """A member that leaves; an administrator names a static member by its instance id alone."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class Departed(NamedTuple):
    """What came of a departure."""

    departure: Departure
    code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member as an administrator sees it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group as an administrator sees it."""

    group_id: str
    state: GroupState
    protocol_type: str
    protocol_name: str
    members: tuple[MemberDescription, ...]
