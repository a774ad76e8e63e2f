"""Members of consumer groups of the new kind, driven one heartbeat at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from tests.clients.raw_members import await_coordinator
from tests.clients.wire import Wire
from tests.clusters import Cluster

LEAVE = -1
"""The epoch of a member that leaves."""

LEAVE_FOR_A_WHILE = -2
"""The epoch of a static member that will be back."""

Share = frozenset[tuple[UUID, int]]
"""Partitions by the ids of their topics."""


def topic_ids(wire: Wire, *topics: str) -> list[UUID]:
    """The ids of topics."""
    asked = [{"name": topic, "topic_id": None} for topic in topics]
    answer = wire.ask(
        "metadata",
        12,
        topics=asked,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    found = {topic.name: topic.topic_id for topic in answer.topics}
    return [found[topic] for topic in topics]


def share_of(assignment: Any) -> Share:
    """The partitions in an assignment."""
    return frozenset(
        (topic.topic_id, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )


@dataclass
class RawConsumer:
    """One member: its connection, its epoch and the partitions that it believes to own."""

    wire: Wire
    group: str
    instance: str | None = None
    member_id: str = field(default_factory=lambda: str(uuid4()))
    epoch: int = 0
    owned: Share = frozenset()

    @classmethod
    def connect(cls, cluster: Cluster, group: str, instance: str | None = None) -> "RawConsumer":
        wire = Wire(cluster)
        await_coordinator(wire, group)
        return cls(wire, group, instance)

    def send(self, epoch: int, version: int = 1, **fields: Any) -> Any:
        """One heartbeat with exactly these fields, and its answer."""
        content = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": epoch,
            "instance_id": self.instance,
            "topic_partitions": None,
            **fields,
        }
        return self.wire.ask("consumer_group_heartbeat", version, **content)

    def join(self, *topics: str, version: int = 1, **fields: Any) -> Any:
        """Ask to join, as clients do it."""
        first = {
            "rebalance_timeout": timedelta(seconds=30),
            "subscribed_topic_names": list(topics),
            "topic_partitions": [],
        }
        if version == 0:
            first["member_id"] = self.member_id
        return self._learn(self.send(0, version, **{**first, **fields}))

    def heartbeat(self, **fields: Any) -> Any:
        """Say that the member lives and what it owns."""
        return self._learn(self.send(self.epoch, topic_partitions=self._listed(), **fields))

    def settle(self, others: Sequence["RawConsumer"] = (), rounds: int = 10) -> None:
        """Exchange heartbeats, revoking and taking what is asked for, until nothing changes."""
        everybody = [self, *others]
        for _ in range(rounds):
            before = [(each.epoch, each.owned) for each in everybody]
            for each in everybody:
                each.heartbeat()
            if before == [(each.epoch, each.owned) for each in everybody]:
                return
        raise AssertionError("the group does not settle")

    def leave(self, epoch: int = LEAVE) -> Any:
        """Leave for good, or for a while."""
        return self.send(epoch)

    def commit(self, topic: str, offset: int, *, version: int = 9, **fields: Any) -> Any:
        """The code with which one commit is answered."""
        place = {"partition_index": 0, "committed_offset": offset, "committed_metadata": None}
        content = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.epoch,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "topics": [{"name": topic, "partitions": [place]}],
            **fields,
        }
        answer = self.wire.ask("offset_commit", version, **content)
        return answer.topics[0].partitions[0].error_code

    def fetch_offsets(self, topic: str, **fields: Any) -> Any:
        """The member's group in the answer to one fetch of offsets."""
        asked = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "topics": [{"name": topic, "partition_indexes": [0]}],
            **fields,
        }
        return self.wire.ask("offset_fetch", 9, groups=[asked], require_stable=False).groups[0]

    def describe(self) -> Any:
        """The group, as administrators see it."""
        return self.wire.ask(
            "consumer_group_describe",
            1,
            group_ids=[self.group],
            include_authorized_operations=False,
        ).groups[0]

    def _learn(self, answer: Any) -> Any:
        if answer.error_code.value == 0:
            self.member_id = answer.member_id
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = share_of(answer.assignment)
        return answer

    def _listed(self) -> list[dict[str, Any]]:
        return [
            {
                "topic_id": topic_id,
                "partitions": sorted(number for each, number in self.owned if each == topic_id),
            }
            for topic_id in sorted({topic_id for topic_id, _ in self.owned})
        ]
