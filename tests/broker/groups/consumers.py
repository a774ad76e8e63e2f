"""Members of consumer groups in simulated time, which behave as real clients do."""

from typing import Any
from uuid import uuid4

from kio.schema.errors import ErrorCode

from headrace.broker.groups.consumer.messages import (
    ConsumerGroupDescription,
    Heartbeat,
    HeartbeatAnswer,
)
from headrace.broker.groups.consumer.partitions import Share
from headrace.broker.groups.errors import GroupError
from tests.broker.groups.simulation import GROUP, Simulation

REBALANCE_MS = 30_000
FENCED = (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id, ErrorCode.group_id_not_found)


class SimulatedConsumer:
    """A client that works on partitions, and gives them up before it says so.

    `working` is what it works on. It takes on new partitions only after it has given up what it
    must; while `busy`, it cannot give up anything.
    """

    def __init__(
        self,
        simulation: Simulation,
        *topics: str,
        expression: str | None = None,
        instance_id: str | None = None,
        assignor: str | None = None,
    ) -> None:
        self.simulation = simulation
        self.member_id = str(uuid4())
        self.instance_id = instance_id
        self.topics = frozenset(topics)
        self.expression = expression
        self.assignor = assignor
        self.epoch = 0
        self.working: Share = frozenset()
        self.assigned: Share = frozenset()
        self.lost: set[Any] = set()
        """Every partition that it has ever been asked to give up."""
        self.busy = False
        self._full = True

    def beat(self, *, hears_the_answer: bool = True) -> None:
        """Send a heartbeat and do what the answer says; one that is fenced joins anew later."""
        try:
            answer = self.send()
        except GroupError as error:
            if error.code not in FENCED:
                raise
            self.epoch, self._full = 0, True
            self.working = self.assigned = frozenset()
            return
        if not hears_the_answer:
            self._full = True
            return
        self.epoch, self._full = answer.epoch, False
        if answer.assignment is not None:
            self.lost |= self.assigned - answer.assignment
            self.assigned = answer.assignment
        self.adapt()

    def adapt(self) -> None:
        """Give up what it must, then take on what it may."""
        if not self.busy:
            self.working = self.assigned

    def send(self, **changes: Any) -> HeartbeatAnswer:
        """One heartbeat, with other fields than usual where given."""
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": self.member_id,
            "epoch": self.epoch,
            "instance_id": self.instance_id,
            "owned": self.working,
            "client_id": "client",
            "client_host": "/127.0.0.1",
        }
        if self._full:
            fields |= {
                "rebalance_timeout_ms": REBALANCE_MS,
                "topic_names": self.topics,
                "topic_expression": self.expression,
                "assignor": self.assignor,
            }
        return self.simulation.groups.beat(Heartbeat(**fields | changes))

    def subscribe(self, *topics: str) -> None:
        """Read other topics, from the next heartbeat on."""
        self.topics = frozenset(topics)
        self._full = True

    def leave(self, epoch: int = -1) -> None:
        """Stop working and leave, for good or (-2) for a while."""
        self.working = self.assigned = frozenset()
        self.send(epoch=epoch)


def settle(*consumers: SimulatedConsumer, rounds: int = 20) -> None:
    """Exchange heartbeats until nothing changes any more."""
    for _ in range(rounds):
        before = [(each.epoch, each.working) for each in consumers]
        for each in consumers:
            each.beat()
        if before == [(each.epoch, each.working) for each in consumers]:
            return
    raise AssertionError("the group does not settle")


def described(simulation: Simulation) -> ConsumerGroupDescription:
    return simulation.groups.describe_consumer_group(GROUP)
