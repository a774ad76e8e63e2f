"""Fetch responses on the wire, versions 4 to 18.

Written by hand, because a response is mostly file ranges: the bytes between them are assembled
here, the ranges themselves are only named.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from headrace.broker.handlers.produce_wire import uvarint
from headrace.broker.reply import FileRange, Reply

FIRST_LOG_START = 5
FIRST_SESSIONS = 7
FIRST_PREFERRED_REPLICA = 11
FIRST_FLEXIBLE = 12
FIRST_TOPIC_IDS = 13

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_FRAME = struct.Struct(">ii")
_SESSION = struct.Struct(">hi")
_PARTITION = struct.Struct(">ihqq")
_INT64 = struct.Struct(">q")
_ABORTED = struct.Struct(">qq")
_NO_REPLICA = _INT32.pack(-1)


class PartitionReply(NamedTuple):
    """What a fetch finds in one partition."""

    partition: int
    error: ErrorCode
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: FileRange | None = None
    aborted: Sequence[tuple[int, int]] | None = None
    """Producer and first offset of transactions to skip; None where nobody asked for them."""


TopicReply = tuple[str | UUID, list[PartitionReply]]
"""What a fetch finds in one topic."""


def write(
    topics: list[TopicReply],
    version: int,
    correlation_id: int,
    error: ErrorCode = ErrorCode.none,
) -> Reply:
    """A whole response frame as its parts. Fetch sessions are declined (session id 0)."""
    flexible = version >= FIRST_FLEXIBLE
    parts: list[bytes | FileRange] = []
    head = bytearray(8)
    size = 0
    if flexible:
        head += b"\0"
    head += b"\0\0\0\0"
    if version >= FIRST_SESSIONS:
        head += _SESSION.pack(error, 0)
    head += uvarint(len(topics) + 1) if flexible else _INT32.pack(len(topics))
    first = head
    for topic, partitions in topics:
        if isinstance(topic, UUID):
            head += topic.bytes
        else:
            name = topic.encode()
            head += (uvarint(len(name) + 1) if flexible else _INT16.pack(len(name))) + name
        head += uvarint(len(partitions) + 1) if flexible else _INT32.pack(len(partitions))
        for reply in partitions:
            head += _PARTITION.pack(*reply[:4])
            if version >= FIRST_LOG_START:
                head += _INT64.pack(reply.log_start_offset)
            head += _aborted(reply.aborted, flexible)
            if version >= FIRST_PREFERRED_REPLICA:
                head += _NO_REPLICA
            records = reply.records
            length = 0 if records is None else records.length
            head += uvarint(length + 1) if flexible else _INT32.pack(length)
            if records is not None and length:
                size += len(head) + length
                parts.append(head)  # type: ignore[arg-type]
                parts.append(records)
                head = bytearray()
            if flexible:
                head += b"\0"
        if flexible:
            head += b"\0"
    if flexible:
        head += b"\0"
    size += len(head)
    parts.append(head)  # type: ignore[arg-type]
    _FRAME.pack_into(first, 0, size - 4, correlation_id)
    return [bytes(part) if isinstance(part, bytearray) else part for part in parts]


def _aborted(transactions: Sequence[tuple[int, int]] | None, flexible: bool) -> bytes:
    if not transactions:
        # Like Apache Kafka: no list at all for readers who take everything.
        if transactions is None:
            return b"\0" if flexible else b"\xff\xff\xff\xff"
        return b"\x01" if flexible else b"\0\0\0\0"
    count = len(transactions)
    rows = bytearray(uvarint(count + 1) if flexible else _INT32.pack(count))
    for transaction in transactions:
        rows += _ABORTED.pack(*transaction)
        if flexible:
            rows += b"\0"
    return bytes(rows)
