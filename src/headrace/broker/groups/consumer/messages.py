"""What goes in and out of consumer groups: heartbeats, answers and descriptions as values."""

from dataclasses import dataclass
from enum import StrEnum

from headrace.broker.groups.consumer.partitions import Share

JOIN = 0
"""The epoch of a member that joins, or joins again after it was fenced."""

LEAVE = -1
"""The epoch of a member that leaves."""

LEAVE_FOR_A_WHILE = -2
"""The epoch of a static member that leaves and means to come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A member says that it lives; fields that are None have not changed since the last time."""

    group_id: str
    member_id: str
    """Empty for a member that wants to be given one."""
    epoch: int
    """The epoch that the member is in, or `JOIN`, `LEAVE` or `LEAVE_FOR_A_WHILE`."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topic_names: frozenset[str] | None = None
    topic_expression: str | None = None
    """A regular expression for the names of topics; empty for none."""
    assignor: str | None = None
    owned: Share | None = None
    """The partitions that the member works on."""
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """Whether the member says everything, which it does when it may have missed an answer."""
        subscribed = self.topic_names is not None or self.topic_expression is not None
        return self.rebalance_timeout_ms is not None and subscribed and self.owned is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """What a member is told: its epoch, when to call again, and what to work on."""

    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Share | None = None
    """All partitions that the member may work on now; None if that is what it works on."""
    stored: bool = False
    """Whether something was written to the journal, which must be safe before the answer goes."""


class ConsumerGroupState(StrEnum):
    """How far a group has come; the values are the names that clients show."""

    EMPTY = "Empty"
    """No members; the group may have committed offsets."""
    ASSIGNING = "Assigning"
    """Something has changed, and the target of the new epoch is not there yet."""
    RECONCILING = "Reconciling"
    """Members are on their way to the target."""
    STABLE = "Stable"
    """Every member has what it should have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberDescription:
    """A member as an administrator sees it."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    epoch: int
    topic_names: frozenset[str]
    topic_expression: str
    assignment: Share
    target: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescription:
    """A group as an administrator sees it."""

    group_id: str
    state: ConsumerGroupState
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ConsumerMemberDescription, ...]
