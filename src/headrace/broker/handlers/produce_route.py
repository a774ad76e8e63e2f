"""What a producer says before its records, understood once.

A client that sends one batch at a time repeats itself: but for the correlation id, each of its
requests for a topic begins with the same bytes, and each reply to it has the same form. A `Route`
keeps both, so that such a request is answered without being taken apart again.
"""

import struct
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from headrace.broker.guard import ProtocolError, read_uvarint
from headrace.broker.handlers import produce_wire as wire
from headrace.broker.handlers.produce_wire import PartitionResult, ProduceRequest
from headrace.broker.topics import Topic

FIRST_ROUTED: Final = 9
"""Earlier versions of produce, which only old clients use, have another form."""

ROUTED_ACKS: Final = (-1, 1)
"""Those that are answered; all others are refused, but for 0, which is not answered at all."""

_PREFIX_BEGINS: Final = 8
"""Behind the API key, the version and the correlation id."""

_NO_TAGS: Final = b"\0\0\0"
"""The empty tagged fields of partition, topic and request, which end it."""

_CORRELATION_ID_AT: Final = 4
_REPLY_TAIL: Final = 9
"""Bytes of a reply behind the numbers of its one result."""

_INT32 = struct.Struct(">i")


class Route:
    """The way of one client's batches to a topic and of their acknowledgements back."""

    __slots__ = ("_end", "_prefix", "_reply", "_result_at", "acks", "key", "topic", "version")

    def __init__(
        self, topic: Topic, key: str | UUID, version: int, acks: int, prefix: bytes
    ) -> None:
        self.topic: Final = topic
        self.key: Final = key
        self.version: Final = version
        self.acks: Final = acks
        self._prefix = prefix
        self._end = _PREFIX_BEGINS + len(prefix)
        self._reply = wire.write([(key, [PartitionResult(0, ErrorCode.none)])], version, 0)
        self._result_at = len(self._reply) - _REPLY_TAIL - wire.RESULT.size

    @classmethod
    def of(
        cls, frame: memoryview, request: ProduceRequest, version: int, topic: Topic | None
    ) -> "Route | None":
        """The route that a request for one partition has taken, if others can take it."""
        if topic is None or version < FIRST_ROUTED or request.transactional_id is not None:
            return None
        if request.acks not in ROUTED_ACKS:
            return None
        key, partitions = request.topics[0]
        if len(request.topics) != 1 or len(partitions) != 1:
            return None
        prefix = bytes(frame[_PREFIX_BEGINS : partitions[0].position])
        route = cls(topic, key, version, request.acks, prefix)
        return None if route.match(frame, version) is None else route

    def match(self, frame: memoryview, version: int) -> tuple[int, memoryview] | None:
        """The partition and the batch in a request that takes this route; None in any other."""
        end = self._end
        if version != self.version or bytes(frame[_PREFIX_BEGINS:end]) != self._prefix:
            return None
        try:
            (partition,) = _INT32.unpack_from(frame, end)
            size, begin = read_uvarint(frame, end + _INT32.size)
        except (struct.error, IndexError, ProtocolError):
            return None
        end = begin + size - 1
        if (
            not size
            or bytes(frame[end : end + 4]) != _NO_TAGS
            or not 0 <= partition < len(self.topic.partitions)
        ):
            return None
        return partition, frame[begin:end]

    def reply(
        self, correlation_id: int, partition: int, offset: int, timestamp: int, start_offset: int
    ) -> bytes:
        """The response frame for a batch that was appended."""
        reply = bytearray(self._reply)
        _INT32.pack_into(reply, _CORRELATION_ID_AT, correlation_id)
        wire.RESULT.pack_into(reply, self._result_at, partition, 0, offset, timestamp, start_offset)
        return bytes(reply)
