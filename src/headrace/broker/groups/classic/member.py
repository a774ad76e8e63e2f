"""A member of a group."""

from collections.abc import Collection
from dataclasses import dataclass, field

from headrace.broker.groups.classic.messages import Joined, MemberProtocol, Synced
from headrace.broker.groups.classic.parked import Parked
from headrace.broker.groups.timers import Deadline


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """One consumer, worker or other client that shares a group's work."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    session: Deadline
    """When the member counts as dead unless it is heard from."""
    assignment: bytes = b""
    is_new: bool = False
    """Whether it waits for its first generation: it then has no id to send heartbeats with."""
    joining: Parked[Joined] = field(default_factory=Parked)
    syncing: Parked[Synced] = field(default_factory=Parked)

    @property
    def is_static(self) -> bool:
        """Whether the member has a lasting name and may be away for a while."""
        return self.instance_id is not None

    @property
    def excused(self) -> bool:
        """Whether it need not send heartbeats, because its request waits for the group."""
        return not self.is_new and (self.joining.waiting or self.syncing.waiting)

    def vote(self, candidates: Collection[str]) -> str:
        """The candidate that the member likes best; it supports them all."""
        return next(name for name, _ in self.protocols if name in candidates)

    def metadata(self, protocol_name: str | None) -> bytes:
        """What the member has to say for a protocol."""
        return dict(self.protocols).get(protocol_name or "", b"")
