"""Produce requests and responses on the wire, versions 3 to 13.

Read and written by hand: record batches are never copied, and a reply costs a few microseconds.
From version 9 on lengths are variable-length integers and every structure ends with tagged fields;
from version 13 on topics are named by id.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from headrace.broker.guard import (
    MAX_ITEMS,
    ProtocolError,
    read_uvarint,
    skip_tagged_fields,
    spend,
)

FIRST_FLEXIBLE = 9
FIRST_TOPIC_IDS = 13

_ACKS_TIMEOUT = struct.Struct(">hi")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
RESULT = struct.Struct(">ihqqq")
"""Partition, error code, base offset, append time and log start offset of a result."""


class PartitionData(NamedTuple):
    """The records for one partition: a view into the request."""

    partition: int
    records: memoryview | None
    position: int
    """Where in the request the partition's number stands."""


class TopicData(NamedTuple):
    """The records for one topic, which is named or, in newer versions, identified."""

    topic: str | UUID
    partitions: list[PartitionData]


class ProduceRequest(NamedTuple):
    """A produce request."""

    transactional_id: str | None
    acks: int
    topics: list[TopicData]


class PartitionResult(NamedTuple):
    """What became of the records for one partition."""

    partition: int
    error: ErrorCode
    base_offset: int = -1
    append_time: int = -1
    log_start_offset: int = -1
    message: str | None = None
    record_errors: Sequence[tuple[int, str]] = ()
    """The records at fault, by their place in the batch, and what is wrong with each."""


TopicResult = tuple[str | UUID, list[PartitionResult]]
"""What became of the records for one topic."""


def read(frame: memoryview, position: int, version: int) -> ProduceRequest:
    """The request in a frame, from the position where its body begins."""
    try:
        if version >= FIRST_FLEXIBLE:
            return _read_flexible(frame, position, version)
        return _read_legacy(frame, position)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise ProtocolError("a produce request ends in the middle of a field") from error


def _read_flexible(frame: memoryview, position: int, version: int) -> ProduceRequest:
    transactional_id, position = _compact_string(frame, position)
    acks, _ = _ACKS_TIMEOUT.unpack_from(frame, position)
    topic_count, position = read_uvarint(frame, position + 6)
    budget = [MAX_ITEMS]
    spend(budget, topic_count)
    topics = []
    for _ in range(topic_count - 1):
        topic: str | UUID | None
        if version >= FIRST_TOPIC_IDS:
            topic = UUID(bytes=bytes(_slice(frame, position, 16)))
            position += 16
        else:
            topic, position = _compact_string(frame, position)
        partition_count, position = read_uvarint(frame, position)
        spend(budget, partition_count)
        partitions = []
        for _ in range(partition_count - 1):
            began = position
            (index,) = _INT32.unpack_from(frame, position)
            size, position = read_uvarint(frame, position + 4)
            records = _slice(frame, position, size - 1) if size else None
            position = skip_tagged_fields(frame, position + max(size - 1, 0))
            partitions.append(PartitionData(index, records, began))
        position = skip_tagged_fields(frame, position)
        topics.append(TopicData(topic or "", partitions))
    return ProduceRequest(transactional_id, acks, topics)


def _read_legacy(frame: memoryview, position: int) -> ProduceRequest:
    transactional_id, position = _legacy_string(frame, position)
    acks, _ = _ACKS_TIMEOUT.unpack_from(frame, position)
    (topic_count,) = _INT32.unpack_from(frame, position + 6)
    position += 10
    budget = [MAX_ITEMS]
    spend(budget, topic_count)
    topics = []
    for _ in range(topic_count):
        topic, position = _legacy_string(frame, position)
        (partition_count,) = _INT32.unpack_from(frame, position)
        position += 4
        spend(budget, partition_count)
        partitions = []
        for _ in range(partition_count):
            began = position
            (index,) = _INT32.unpack_from(frame, position)
            (size,) = _INT32.unpack_from(frame, position + 4)
            position += 8
            records = None
            if size >= 0:
                records = _slice(frame, position, size)
                position += size
            partitions.append(PartitionData(index, records, began))
        topics.append(TopicData(topic or "", partitions))
    return ProduceRequest(transactional_id, acks, topics)


def write(results: list[TopicResult], version: int, correlation_id: int) -> bytes:
    """A whole response frame."""
    if version >= FIRST_FLEXIBLE:
        body = _write_flexible(results, version)
        # The header's and the response's own tagged fields are both empty.
        return _INT32.pack(len(body) + 5) + _INT32.pack(correlation_id) + b"\0" + body
    body = _write_legacy(results, version)
    return _INT32.pack(len(body) + 4) + _INT32.pack(correlation_id) + body


def _write_flexible(results: list[TopicResult], version: int) -> bytes:
    body = bytearray()
    body += uvarint(len(results) + 1)
    for topic, partitions in results:
        if isinstance(topic, UUID):
            body += topic.bytes
        else:
            body += _compact(topic.encode())
        body += uvarint(len(partitions) + 1)
        for result in partitions:
            body += RESULT.pack(*result[:5])
            body += uvarint(len(result.record_errors) + 1)
            for index, problem in result.record_errors:
                body += _INT32.pack(index) + _compact(problem.encode()) + b"\0"
            body += b"\0" if result.message is None else _compact(result.message.encode())
            body += b"\0"
        body += b"\0"
    body += b"\0\0\0\0\0"
    return bytes(body)


def _write_legacy(results: list[TopicResult], version: int) -> bytes:
    body = bytearray(_INT32.pack(len(results)))
    for topic, partitions in results:
        name = str(topic).encode()
        body += _INT16.pack(len(name)) + name + _INT32.pack(len(partitions))
        for result in partitions:
            packed = RESULT.pack(*result[:5])
            body += packed if version >= 5 else packed[:22]
            if version >= 8:
                body += _INT32.pack(len(result.record_errors))
                for index, problem in result.record_errors:
                    encoded = problem.encode()
                    body += _INT32.pack(index) + _INT16.pack(len(encoded)) + encoded
                message = None if result.message is None else result.message.encode()
                body += b"\xff\xff" if message is None else _INT16.pack(len(message)) + message
    body += b"\0\0\0\0"
    return bytes(body)


def uvarint(value: int) -> bytes:
    """An unsigned variable-length integer."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _compact(text: bytes) -> bytes:
    return uvarint(len(text) + 1) + text


def _compact_string(frame: memoryview, position: int) -> tuple[str | None, int]:
    size, position = read_uvarint(frame, position)
    if size == 0:
        return None, position
    return str(_slice(frame, position, size - 1), "utf-8"), position + size - 1


def _legacy_string(frame: memoryview, position: int) -> tuple[str | None, int]:
    (size,) = _INT16.unpack_from(frame, position)
    position += 2
    if size < 0:
        return None, position
    return str(_slice(frame, position, size), "utf-8"), position + size


def _slice(frame: memoryview, position: int, size: int) -> memoryview:
    if size < 0 or position + size > len(frame):
        raise ProtocolError("a field of a produce request reaches beyond it")
    return frame[position : position + size]
