"""The messages written and read by hand are byte for byte what kio writes and reads."""

import io
import random
import struct
import uuid
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from headrace.broker.guard import MAX_ITEMS, ProtocolError
from headrace.broker.handlers import fetch_wire, produce_wire
from tests.broker.random_messages import encoded, random_entity, request_class
from tests.broker.raw_client import response_class


def response_of(api: str, version: int, frame: bytes, correlation_id: int) -> Any:
    """What kio reads from a response frame, after its header has been checked."""
    entity = response_class(api, version)
    assert struct.unpack_from(">ii", frame) == (len(frame) - 4, correlation_id)
    position = 8
    if entity.__header_schema__.__version__ == 1:
        assert frame[8] == 0
        position = 9
    message, end = entity_reader(entity)(frame, position)
    assert position + end == len(frame) or end == len(frame)
    return message


class Range:
    """A range of a file, in memory."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.length = len(content)

    def read(self, start: int, count: int) -> bytes:
        return self.content[start : start + count]

    def send(self, socket: int, start: int, count: int) -> int:
        raise AssertionError("there is no socket")


def joined(parts: Any) -> bytes:
    out = io.BytesIO()
    for part in parts:
        out.write(part if isinstance(part, bytes) else part.content)
    return out.getvalue()


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_requests_are_read_as_kio_reads_them(version: int) -> None:
    source = random.Random(version)
    entity = request_class("produce", version)
    for _ in range(50):
        message = random_entity(entity, source)
        frame = memoryview(bytearray(b"header" + encoded(message)))
        request = produce_wire.read(frame, 6, version)
        assert request.transactional_id == message.transactional_id
        assert request.acks == message.acks
        assert len(request.topics) == len(message.topic_data)
        for mine, theirs in zip(request.topics, message.topic_data, strict=True):
            key = theirs.topic_id if version >= 13 else theirs.name
            assert mine.topic == (key if key is not None else uuid.UUID(int=0))
            assert [part.partition for part in mine.partitions] == [
                part.index for part in theirs.partition_data
            ]
            for part, other in zip(mine.partitions, theirs.partition_data, strict=True):
                assert (None if part.records is None else bytes(part.records)) == other.records


@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_a_cut_produce_request_is_refused_wherever_it_is_cut(version: int) -> None:
    source = random.Random(7)
    message = b""
    while len(message) < 300:
        message = encoded(random_entity(request_class("produce", version), source))
    for end in range(len(message) - 1):
        try:
            produce_wire.read(memoryview(bytearray(message[:end])), 0, version)
        except ProtocolError:
            continue
        # Only tagged fields and trailing zeros may be missing without harm.
        assert not any(message[end:])


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_responses_are_written_as_kio_expects_them(version: int) -> None:
    topic = uuid.UUID(int=77) if version >= 13 else "clicks"
    results = [
        (
            topic,
            [
                produce_wire.PartitionResult(0, ErrorCode.none, 12, 5, 3),
                produce_wire.PartitionResult(1, ErrorCode.message_too_large, message="x" * 200),
            ],
        )
    ]
    frame = produce_wire.write(results, version, 99)
    response = response_of("produce", version, frame, 99)
    (answered,) = response.responses
    good, bad = answered.partition_responses
    assert (good.index, good.error_code, good.base_offset) == (0, ErrorCode.none, 12)
    assert bad.error_code is ErrorCode.message_too_large
    if version >= 5:
        assert good.log_start_offset == 3
    if version >= 8:
        assert (good.error_message, bad.error_message) == (None, "x" * 200)


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_responses_are_written_as_kio_expects_them(version: int) -> None:
    topic = uuid.UUID(int=78) if version >= 13 else "clicks"
    records = b"r" * 1000
    topics = [
        (
            topic,
            [
                fetch_wire.PartitionReply(0, ErrorCode.none, 10, 9, 2, Range(records)),
                fetch_wire.PartitionReply(1, ErrorCode.offset_out_of_range, 4, 4, 1),
                fetch_wire.PartitionReply(2, ErrorCode.none, 5, 5, 0, Range(b"s")),
            ],
        ),
        (topic, []),
    ]
    frame = joined(fetch_wire.write(topics, version, 7))
    response = response_of("fetch", version, frame, 7)
    first, _ = response.responses
    full, wrong, small = first.partitions
    assert (full.partition_index, full.high_watermark, full.last_stable_offset) == (0, 10, 9)
    assert full.records == records
    assert wrong.error_code is ErrorCode.offset_out_of_range
    assert not wrong.records
    assert small.records == b"s"
    if version >= 5:
        assert full.log_start_offset == 2
    if version >= 7:
        assert (response.error_code, response.session_id) == (ErrorCode.none, 0)


def test_a_produce_request_with_more_partitions_than_a_broker_can_look_at_is_refused() -> None:
    partitions = struct.pack(">ii", 0, -1) * (MAX_ITEMS // 2)
    topic = b"\0\1t" + struct.pack(">i", MAX_ITEMS // 2) + partitions
    none = b"\0\1t" + struct.pack(">i", -(2**31))
    request = struct.pack(">hhii", -1, 1, 1000, 3) + none + topic + topic
    with pytest.raises(ProtocolError, match="ask in several requests"):
        produce_wire.read(memoryview(request), 0, 8)
