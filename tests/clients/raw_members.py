"""Group members driven one request at a time, to see the answers that libraries act upon.

They do not call themselves consumers: Apache Kafka looks into what consumers tell each other, and
here that is just bytes.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from tests.clients.librdkafka import eventually
from tests.clients.wire import Wire
from tests.clusters import Cluster


def await_coordinator(wire: Wire, group: str) -> None:
    """Kafka makes the topic that group offsets live in when somebody first asks for it."""

    def ready() -> bool:
        found = wire.ask("find_coordinator", 2, key=group, key_type=0)
        return (
            found.error_code is ErrorCode.none
            and wire.ask("offset_fetch", 5, group_id=group, topics=[]).error_code is ErrorCode.none
        )

    eventually(ready)


@dataclass
class RawMember:
    """One member: its connection, and who the coordinator says it is."""

    wire: Wire
    group: str
    instance: str | None = None
    member_id: str = ""
    generation: int = -1

    @classmethod
    def connect(cls, cluster: Cluster, group: str, instance: str | None = None) -> "RawMember":
        wire = Wire(cluster)
        await_coordinator(wire, group)
        return cls(wire, group, instance)

    def send_join(
        self,
        *,
        protocols: tuple[str, ...] = ("range",),
        protocol_type: str = "raw",
        session_seconds: float = 10,
        metadata: bytes = b"metadata",
    ) -> Any:
        """Ask to join and return at once; `receive_join` waits for the others to join too."""
        return self.wire.send(
            "join_group",
            5,
            group_id=self.group,
            session_timeout=timedelta(seconds=session_seconds),
            rebalance_timeout=timedelta(seconds=10),
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=protocol_type,
            protocols=[{"name": name, "metadata": metadata} for name in protocols],
        )

    def receive_join(self, request: Any) -> Any:
        answer = self.wire.receive(request)
        if answer.error_code in {ErrorCode.none, ErrorCode.member_id_required}:
            self.member_id = answer.member_id
        if answer.error_code is ErrorCode.none:
            self.generation = answer.generation_id
        return answer

    def join(self, **options: Any) -> Any:
        """One request to join, and its answer."""
        return self.receive_join(self.send_join(**options))

    def join_fully(self, **options: Any) -> Any:
        """Join in as many steps as the coordinator asks for."""
        answer = self.join(**options)
        if answer.error_code is ErrorCode.member_id_required:
            answer = self.join(**options)
        assert answer.error_code is ErrorCode.none
        return answer

    def sync(self, assignments: dict[str, bytes] | None = None) -> Any:
        return self.wire.ask(
            "sync_group",
            3,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            assignments=[
                {"member_id": member_id, "assignment": assignment}
                for member_id, assignment in (assignments or {}).items()
            ],
        )

    def heartbeat(self) -> ErrorCode:
        answer = self.wire.ask(
            "heartbeat",
            3,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        code: ErrorCode = answer.error_code
        return code

    def commit(self, topic: str, offset: int, partition: int = 0) -> ErrorCode:
        place = {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_metadata": None,
        }
        answer = self.wire.ask(
            "offset_commit",
            7,
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=[{"name": topic, "partitions": [place]}],
        )
        code: ErrorCode = answer.topics[0].partitions[0].error_code
        return code

    def leave(self) -> Any:
        identity = {"member_id": self.member_id, "group_instance_id": self.instance}
        return self.wire.ask("leave_group", 3, group_id=self.group, members=[identity])
