"""What the journal of group offsets says: its entries, as values and as bytes.

An entry is a JSON array that begins with its kind. Entries are small and few compared with records,
so that being readable with any tool is worth more than a few bytes.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from headrace.broker.groups.consumer import stored
from headrace.broker.groups.consumer.stored import ConsumerGroupChanged
from headrace.errors import HeadraceError


class UnreadableEntry(HeadraceError):
    """The journal of group offsets says something that this version does not understand."""


class TopicPartition(NamedTuple):
    """A partition of a topic, by name."""

    topic: str
    partition: int


class Committed(NamedTuple):
    """How far a group has read a partition."""

    offset: int
    """The next record to read."""
    leader_epoch: int
    """The epoch of the last record read, or -1 if the client did not say."""
    metadata: str
    """A note of the client's own."""
    committed_at_ms: int
    expires_at_ms: int | None = None
    """Set where the client asked for a retention of its own, as old versions can."""


class OffsetsCommitted(NamedTuple):
    """A group has committed offsets."""

    group_id: str
    offsets: tuple[tuple[TopicPartition, Committed], ...]


class OffsetsPending(NamedTuple):
    """A transaction has sent offsets of a group, which count if it is committed."""

    group_id: str
    producer_id: int
    offsets: tuple[tuple[TopicPartition, Committed], ...]


class PendingEnded(NamedTuple):
    """A producer's transaction was committed or aborted, and with it all offsets it has sent."""

    producer_id: int
    commit: bool


class OffsetsRemoved(NamedTuple):
    """Offsets of a group have been deleted or have expired."""

    group_id: str
    partitions: tuple[TopicPartition, ...]


class GroupSettled(NamedTuple):
    """A group has become stable, or empty.

    After a restart this tells groups that have members, whose offsets stay as long as the members
    do, from consumers that only store offsets, whose offsets expire one by one.
    """

    group_id: str
    protocol_type: str
    generation: int
    empty_since_ms: int | None
    """None while the group has members."""


class GroupDeleted(NamedTuple):
    """A group is gone with everything that belonged to it."""

    group_id: str


class GroupConfigured(NamedTuple):
    """A group has a configuration of its own; it may have no members yet, or none any more."""

    group_id: str
    configs: Mapping[str, str]


Entry = (
    OffsetsCommitted
    | OffsetsPending
    | PendingEnded
    | OffsetsRemoved
    | GroupSettled
    | GroupDeleted
    | GroupConfigured
    | ConsumerGroupChanged
)
"""Anything that the journal can say."""


def encode(entry: Entry) -> bytes:
    """The bytes of an entry.

    >>> encode(GroupSettled("billing", "consumer", 3, None))
    b'["settled","billing","consumer",3,null]'
    """
    fields: list[Any]
    match entry:
        case OffsetsCommitted(group_id, offsets):
            fields = ["committed", group_id, [(*where, *what) for where, what in offsets]]
        case OffsetsPending(group_id, producer_id, offsets):
            rows = [(*where, *what) for where, what in offsets]
            fields = ["pending", group_id, producer_id, rows]
        case PendingEnded(producer_id, commit):
            fields = ["ended", producer_id, commit]
        case OffsetsRemoved(group_id, partitions):
            fields = ["removed", group_id, [tuple(each) for each in partitions]]
        case GroupSettled(group_id, protocol_type, generation, empty_since_ms):
            fields = ["settled", group_id, protocol_type, generation, empty_since_ms]
        case GroupDeleted(group_id):
            fields = ["deleted", group_id]
        case GroupConfigured(group_id, configs):
            fields = ["configured", group_id, configs]
        case ConsumerGroupChanged():
            fields = stored.to_fields(entry)
    return orjson.dumps(fields)


def decode(payload: bytes) -> Entry:
    """The entry that the bytes say; `UnreadableEntry` if they say none."""
    try:
        match orjson.loads(payload):
            case ["committed", group_id, offsets]:
                return OffsetsCommitted(group_id, _offsets(offsets))
            case ["pending", group_id, producer_id, offsets]:
                return OffsetsPending(group_id, producer_id, _offsets(offsets))
            case ["ended", producer_id, commit]:
                return PendingEnded(producer_id, commit)
            case ["removed", group_id, partitions]:
                return OffsetsRemoved(group_id, tuple(TopicPartition(*each) for each in partitions))
            case ["settled", group_id, protocol_type, generation, empty_since_ms]:
                return GroupSettled(group_id, protocol_type, generation, empty_since_ms)
            case ["deleted", group_id]:
                return GroupDeleted(group_id)
            case ["configured", group_id, configs]:
                return GroupConfigured(group_id, configs)
            case ["consumer", *_] as fields:
                return stored.from_fields(fields)
    except (ValueError, TypeError, KeyError) as error:
        raise _unreadable(payload) from error
    raise _unreadable(payload)


def _offsets(rows: list[list[Any]]) -> tuple[tuple[TopicPartition, Committed], ...]:
    return tuple((TopicPartition(*row[:2]), Committed(*row[2:])) for row in rows)


def _unreadable(payload: bytes) -> UnreadableEntry:
    return UnreadableEntry(
        f"the journal of group offsets has an entry that cannot be read: {payload[:80]!r}; "
        "use the Headrace version that wrote it"
    )
