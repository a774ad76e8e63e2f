"""A group's offset used as a place to remember something: a number and a word beside it.

Groups are the one thing that Kafka lets a transaction change together with records, so whoever
wants "these records, and that I wrote them" in one step keeps the latter as an offset.
"""

import time
from dataclasses import dataclass
from typing import Any, Final

from headrace.kafka.connection import Connection, GroupCoordinator, refused
from headrace.kafka.messages import request
from headrace.kafka.positions import Partition

_UNSTABLE: Final = 88
_PATIENCE_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """What a group has committed for a partition."""

    offset: int
    metadata: str


def read_offset(connection: Connection, group: str, partition: Partition) -> StoredOffset | None:
    """What a group has committed, None if nothing; waits for a transaction that changes it."""
    asked = request(
        "offset_fetch",
        7,
        group_id=group,
        topics=[{"name": partition.topic, "partition_indexes": [partition.number]}],
        require_stable=True,
    )
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        answer = connection.ask(GroupCoordinator(group), asked, code_of=_fetch_code)
        code = _fetch_code(answer)
        if code != _UNSTABLE or time.monotonic() > deadline:
            break
        time.sleep(_PAUSE_SECONDS)
    if code:
        raise refused(f"read the offset of {group}", code)
    found = answer.topics[0].partitions[0]
    if found.committed_offset < 0:
        return None
    return StoredOffset(found.committed_offset, found.metadata or "")


def store_offset(
    connection: Connection, group: str, partition: Partition, stored: StoredOffset
) -> None:
    """Commit an offset outside of any transaction, for a group without members."""
    asked = request(
        "offset_commit",
        7,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[offset_entry(partition, stored)],
    )
    answer = connection.ask(GroupCoordinator(group), asked, code_of=commit_code)
    if code := commit_code(answer):
        raise refused(f"commit an offset of {group}", code)


def offset_entry(partition: Partition, stored: StoredOffset) -> dict[str, Any]:
    """The offset as requests that commit one spell it."""
    entry = {
        "partition_index": partition.number,
        "committed_offset": stored.offset,
        "committed_leader_epoch": -1,
        "committed_metadata": stored.metadata,
    }
    return {"name": partition.topic, "partitions": [entry]}


def commit_code(answer: Any) -> int:
    """The error code in the answer to such a request."""
    return int(answer.topics[0].partitions[0].error_code)


def _fetch_code(answer: Any) -> int:
    if answer.error_code:
        return int(answer.error_code)
    return max(int(each.error_code) for topic in answer.topics for each in topic.partitions)
