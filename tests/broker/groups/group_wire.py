"""The group APIs byte for byte, in any version; each request takes what the newest version can say.

Versions that cannot say something leave it out, as clients do.
"""

import time
import uuid
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any

from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from tests.clients.wire import Wire

SUBSCRIPTION = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"
"""The metadata of a consumer that reads the topic `orders`."""


class GroupWire(Wire):
    """One connection of one client."""

    def group_request(self, api: str, version: int, **content: Any) -> Any:
        """Ask, saying only what the version can say."""
        return self.ask(api, version, **sayable(api, version, content))

    def begin(self, api: str, version: int, **content: Any) -> Any:
        """Ask without waiting; `receive` has the answer."""
        return self.send(api, version, **sayable(api, version, content))

    def find_coordinator(self, group: str) -> None:
        """Wait until the group has a coordinator that knows its part.

        Kafka makes one when it is first asked, and names it before it has loaded its groups.
        """
        deadline = time.monotonic() + 20
        while not self._is_coordinated(group):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _is_coordinated(self, group: str) -> bool:
        if self.ask("find_coordinator", 1, key=group, key_type=0).error_code:
            return False
        (described,) = self.ask("describe_groups", 0, groups=[group]).groups
        return described.error_code is ErrorCode.none

    def join(self, version: int, group: str, **changes: Any) -> Any:
        """Join; in versions that ask for it, twice."""
        answer = self.group_request("join_group", version, **joining(group, **changes))
        if answer.error_code is not ErrorCode.member_id_required:
            return answer
        changes["member_id"] = answer.member_id
        return self.group_request("join_group", version, **joining(group, **changes))

    def sync(self, version: int, group: str, joined: Any, shares: dict[str, bytes]) -> Any:
        return self.group_request("sync_group", version, **syncing(group, joined, shares))

    def stable(self, group: str, **changes: Any) -> Any:
        """Join alone and sync."""
        joined = self.join(9, group, **changes)
        synced = self.group_request(
            "sync_group",
            5,
            **syncing(group, joined, {joined.member_id: b"everything"})
            | {"group_instance_id": changes.get("group_instance_id")},
        )
        assert synced.error_code is ErrorCode.none
        return joined

    def heartbeat(self, group: str, member_id: str, generation: int, **more: Any) -> ErrorCode:
        answer = self.group_request(
            "heartbeat",
            4,
            group_id=group,
            member_id=member_id,
            generation_id=generation,
            **more,
        )
        return ErrorCode(answer.error_code)

    def topic_id(self, topic: str) -> uuid.UUID:
        (found,) = self.group_request(
            "metadata",
            12,
            topics=[{"topic_id": None, "name": topic}],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        ).topics
        return uuid.UUID(int=found.topic_id.int)


def joining(group: str, **changes: Any) -> dict[str, Any]:
    """A request to join."""
    return {
        "group_id": group,
        "session_timeout": timedelta(seconds=10),
        "rebalance_timeout": timedelta(seconds=30),
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        "reason": None,
    } | changes


def syncing(group: str, joined: Any, shares: dict[str, bytes] | None = None) -> dict[str, Any]:
    """A request to sync for the generation that was joined."""
    return {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": joined.protocol_name,
        "assignments": [
            {"member_id": member_id, "assignment": share}
            for member_id, share in (shares or {}).items()
        ],
    }


def committing(
    group: str, topic: str | uuid.UUID, offsets: dict[int, int], **changes: Any
) -> dict[str, Any]:
    """A request to commit offsets of one topic."""
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "retention_time": timedelta(milliseconds=-1),
        "topics": [
            {
                "name": topic,
                "topic_id": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": -1,
                        "committed_metadata": f"note {offset}",
                    }
                    for partition, offset in offsets.items()
                ],
            }
        ],
    } | changes


def sayable(api: str, version: int, content: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request, without those that the version does not have."""
    return _known(load_entity_schema(api, version, EntityType.request), content)


def _known(schema: Any, content: dict[str, Any]) -> dict[str, Any]:
    return {
        field.name: _nested(field.type, content[field.name])
        for field in fields(schema)
        if field.name in content
    }


def _nested(kind: Any, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    if not value or not isinstance(value[0], dict):
        return tuple(value)
    schema = _structure(kind)
    return tuple(schema(**_known(schema, item)) for item in value)


def _structure(kind: Any) -> Any:
    """The class of the structures in a field's list."""
    while not is_dataclass(kind):
        kind = kind.__args__[0]
    return kind
