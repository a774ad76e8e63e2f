"""Offsets by raw requests: where partitions begin and end, and how far groups have got.

`positions` does the same with a client library, for people; this is for those who ask many times a
second.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.kafka.connection import (
    PATIENCE_SECONDS,
    Connection,
    GroupCoordinator,
    Node,
    refused,
)
from headrace.kafka.errors import ClusterError, ClusterUnreachable
from headrace.kafka.messages import request
from headrace.kafka.positions import Isolation, Partition

EARLIEST: Final = -2
"""Instead of a time: the first record that is there."""

LATEST: Final = -1
"""Instead of a time: behind the last record; with READ_COMMITTED, the last stable offset."""

_PAUSE_SECONDS: Final = 0.02
_NOT_NOW: Final = frozenset({3, 5, 6, 7, 9, 56, 74, 75, 78})
"""Codes that a fresh look at the cluster settles; the topics were there a moment ago."""


def list_offsets(
    connection: Connection,
    partitions: Iterable[Partition],
    timestamp: int,
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    patience: float = PATIENCE_SECONDS,
) -> dict[Partition, int]:
    """The offset of a time, of EARLIEST or of LATEST in each partition; one request per broker.

    A partition that has no record of that time or later gets -1. Raises `UnknownTopic`.
    """
    found: dict[Partition, int] = {}
    missing = set(partitions)
    deadline = time.monotonic() + patience
    fresh = False
    while missing:
        failure: ClusterError = refused(f"find the leader of {min(missing)}", 5)
        for node, led in connection.leaders(missing, fresh=fresh).items():
            try:
                answers = _ask_leader(connection, node, led, timestamp, isolation)
            except ClusterUnreachable as error:
                failure = error
                continue
            for partition, answer in answers:
                if not answer.error_code:
                    found[partition] = answer.offset
                    continue
                failure = refused(f"find offsets in {partition}", answer.error_code)
                if answer.error_code not in _NOT_NOW:
                    raise failure
        missing -= found.keys()
        if missing and time.monotonic() > deadline:
            raise failure
        if missing:
            fresh = True
            time.sleep(_PAUSE_SECONDS)
    return found


def committed(
    connection: Connection, group: str, partitions: Iterable[Partition]
) -> dict[Partition, int]:
    """Where a group goes on, in those of the partitions where it has committed."""
    topics = [
        {"name": topic, "partition_indexes": numbers}
        for topic, numbers in by_topic(partitions).items()
    ]
    asked = request("offset_fetch", 5, group_id=group, topics=topics)
    answer = connection.ask(
        GroupCoordinator(group), asked, code_of=lambda answer: int(answer.error_code)
    )
    if answer.error_code:
        raise refused(f"read the offsets of {group}", answer.error_code)
    return {
        Partition(topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }


def commit(connection: Connection, group: str, offsets: Mapping[Partition, int]) -> None:
    """Commit offsets for a group that has no members; `RequestRefused` if it has."""
    topics = [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": number,
                    "committed_offset": offsets[Partition(topic, number)],
                    "committed_leader_epoch": -1,
                    "committed_metadata": "",
                }
                for number in numbers
            ],
        }
        for topic, numbers in by_topic(offsets).items()
    ]
    asked = request(
        "offset_commit",
        7,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=topics,
    )
    answer = connection.ask(GroupCoordinator(group), asked, code_of=_first_code)
    if code := _first_code(answer):
        raise refused(f"commit offsets of {group}", code)


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """The numbers of each topic's partitions, in order."""
    numbers: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        numbers.setdefault(partition.topic, []).append(partition.number)
    return numbers


def _ask_leader(
    connection: Connection,
    node: Node,
    partitions: list[Partition],
    timestamp: int,
    isolation: Isolation,
) -> list[tuple[Partition, Any]]:
    topics = [
        {
            "name": topic,
            "partitions": [
                {"partition_index": number, "current_leader_epoch": -1, "timestamp": timestamp}
                for number in numbers
            ],
        }
        for topic, numbers in by_topic(partitions).items()
    ]
    level = 1 if isolation is Isolation.READ_COMMITTED else 0
    asked = request("list_offsets", 5, replica_id=-1, isolation_level=level, topics=topics)
    # A broker that is gone may have left its partitions to another, so look again at once.
    answer = connection.ask(node, asked, patience=0)
    return [
        (Partition(topic.name, each.partition_index), each)
        for topic in answer.topics
        for each in topic.partitions
    ]


def _first_code(answer: Any) -> int:
    """The first error of an answer that has one for each partition."""
    codes = (each.error_code for topic in answer.topics for each in topic.partitions)
    return next((int(code) for code in codes if code), 0)
