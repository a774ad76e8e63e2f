"""A member of a consumer group."""

from dataclasses import dataclass, field, replace
from typing import Any

from headrace.broker.groups.consumer.messages import JOIN, Heartbeat
from headrace.broker.groups.consumer.partitions import Share
from headrace.broker.groups.consumer.reconciliation import Holding
from headrace.broker.groups.timers import Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a member has told about itself."""

    instance_id: str | None = None
    """The lasting name of a static member."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = 0
    """How long the member may take to give up partitions."""
    topic_names: frozenset[str] = frozenset()
    topic_expression: str = ""
    """A regular expression for the names of topics; empty for none."""
    assignor: str | None = None

    def updated(self, heartbeat: Heartbeat) -> "Profile":
        """The profile after a heartbeat, which tells what is new; who joins tells all."""
        told = {
            "instance_id": heartbeat.instance_id,
            "rack_id": heartbeat.rack_id,
            "rebalance_timeout_ms": heartbeat.rebalance_timeout_ms,
            "topic_names": heartbeat.topic_names,
            "topic_expression": heartbeat.topic_expression,
            "assignor": heartbeat.assignor,
            "client_id": heartbeat.client_id,
            "client_host": heartbeat.client_host,
        }
        if heartbeat.epoch == JOIN:
            told["topic_names"] = heartbeat.topic_names or frozenset()
            told["topic_expression"] = heartbeat.topic_expression or ""
        news: dict[str, Any] = {name: value for name, value in told.items() if value is not None}
        return replace(self, **news)

    def reads_the_same_as(self, other: "Profile") -> bool:
        """Whether both ask for the same topics in the same words."""
        return (self.topic_names, self.topic_expression) == (
            other.topic_names,
            other.topic_expression,
        )


@dataclass(slots=True, kw_only=True, eq=False)
class ConsumerMember:
    """One consumer that shares a group's work."""

    id: str
    session: Deadline
    """When the member counts as dead unless it is heard from."""
    revocation: Deadline
    """When it counts as stuck unless it has given up what it was asked to."""
    profile: Profile = field(default_factory=Profile)
    holding: Holding = field(default_factory=Holding)
    target: Share = frozenset()
    """What it should have in the group's current epoch."""
