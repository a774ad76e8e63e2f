"""Record batches of a range of offsets, as their broker stores them.

    for chunk in fetch_range(connect(settings), Partition("orders", 0), 1_000, 2_000):
        table = decode(chunk, min_offset=1_000)

While one chunk is being decoded, the next is on its way.
"""

import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Final, NamedTuple

from headrace.kafka.connection import PATIENCE_SECONDS, Connection, Leader, refused
from headrace.kafka.errors import ClusterError
from headrace.kafka.gaps import OffsetsBeyondEnd, OffsetsGone, RecordsMissing
from headrace.kafka.messages import Request, request
from headrace.kafka.positions import Isolation, Partition
from headrace.kafka.raw_positions import EARLIEST, LATEST, list_offsets
from headrace.records.arrow import committed_parts, fetched

FETCH_BYTES: Final = 8 << 20
"""Most bytes to ask for at once; a single larger batch comes whole all the same."""

_LEAST_FETCH_BYTES: Final = 64 << 10
_USUAL_RECORD_BYTES: Final = 1024
"""What a record is taken to need until the first ones are there."""

_WAIT: Final = timedelta(milliseconds=500)
"""How long a broker may look for records that it has said it has, as in an archive."""

_VERSION: Final = 11
"""The last one whose layout has no variable lengths before the records, and that knows zstd."""

_OFFSET_OUT_OF_RANGE: Final = 1
_TOPIC_HEAD: Final = struct.Struct(">iihiih")
_PARTITION_HEAD: Final = struct.Struct(">iihqqqi")
_ABORTED: Final = struct.Struct(">qq")
_TAIL: Final = struct.Struct(">ii")


class Response(NamedTuple):
    """What a Fetch response says of one partition."""

    error_code: int
    aborted: list[tuple[int, int]]
    records: memoryview


def fetch_range(
    connection: Connection,
    partition: Partition,
    start: int,
    end: int,
    *,
    isolation: Isolation = Isolation.READ_COMMITTED,
    fetch_bytes: int = FETCH_BYTES,
    patience: float = PATIENCE_SECONDS,
) -> Iterator[memoryview]:
    """Whole record batches that together hold the records from `start` up to, not including, `end`.

    The first may begin before `start` and the last reach beyond `end`: who decodes them leaves out
    the rest. Transaction markers are among them; with READ_COMMITTED, records of aborted
    transactions are not.

    Raises:
        OffsetsGone: The partition begins after `start`; says what is missing.
        OffsetsBeyondEnd: It ends before `start`.
        RecordsMissing: There is nothing before `end`, for longer than `patience`.
    """
    reader = _Reader(connection, partition, end, isolation, fetch_bytes, patience)
    with ThreadPoolExecutor(1, "headrace-fetch") as ahead:
        coming = ahead.submit(reader.next_chunk, start) if start < end else None
        while coming is not None:
            parts, offset = coming.result()
            coming = ahead.submit(reader.next_chunk, offset) if offset < end else None
            yield from parts


class _Reader:
    """Fetches one chunk after the other."""

    def __init__(
        self,
        connection: Connection,
        partition: Partition,
        end: int,
        isolation: Isolation,
        fetch_bytes: int,
        patience: float,
    ) -> None:
        self._connection = connection
        self._partition = partition
        self._end = end
        self._isolation = isolation
        self._fetch_bytes = fetch_bytes
        self._patience = patience
        self._bytes_per_offset = float(_USUAL_RECORD_BYTES)

    def next_chunk(self, offset: int) -> tuple[list[memoryview], int]:
        """The batches from `offset` on that one response holds, and where they end."""
        deadline = time.monotonic() + self._patience
        while True:
            response: Response = self._connection.ask_frame(
                Leader(self._partition),
                self._request(offset),
                read=read_response,
                code_of=lambda response: response.error_code,
                patience=self._patience,
            )
            if response.error_code == _OFFSET_OUT_OF_RANGE:
                raise self._out_of_range(offset)
            if response.error_code:
                raise refused(f"read {self._partition}", response.error_code)
            found = fetched(response.records)
            if found is not None:
                self._bytes_per_offset = len(found.batches) / (found.next_offset - offset)
                return committed_parts(found.batches, response.aborted), found.next_offset
            if time.monotonic() > deadline:
                raise RecordsMissing(self._partition, offset, self._end)

    def _request(self, offset: int) -> Request:
        # A range may be a small part of what is there, and the rest would come for nothing.
        needed = round((self._end - offset) * self._bytes_per_offset)
        size = min(max(needed, _LEAST_FETCH_BYTES), self._fetch_bytes)
        return request(
            "fetch",
            _VERSION,
            replica_id=-1,
            max_wait=_WAIT,
            min_bytes=1,
            max_bytes=size,
            isolation_level=1 if self._isolation is Isolation.READ_COMMITTED else 0,
            session_id=0,
            session_epoch=-1,
            topics=[
                {
                    "topic": self._partition.topic,
                    "partitions": [
                        {
                            "partition": self._partition.number,
                            "current_leader_epoch": -1,
                            "fetch_offset": offset,
                            "log_start_offset": -1,
                            "partition_max_bytes": size,
                        }
                    ],
                }
            ],
            forgotten_topics_data=[],
            rack_id="",
        )

    def _out_of_range(self, offset: int) -> ClusterError:
        wanted = [self._partition]
        earliest = list_offsets(self._connection, wanted, EARLIEST)[self._partition]
        if offset < earliest:
            return OffsetsGone(self._partition, offset, min(earliest, self._end) - 1, earliest)
        latest = list_offsets(self._connection, wanted, LATEST)[self._partition]
        return OffsetsBeyondEnd(self._partition, offset, latest)


def read_response(frame: memoryview) -> Response:
    """Read a response to a request for one partition, without copying its records."""
    _, _, error_code, _, topics, name_length = _TOPIC_HEAD.unpack_from(frame)
    if error_code or not topics:
        return Response(error_code, [], frame[:0])
    position = _TOPIC_HEAD.size + name_length
    _, _, error_code, _, _, _, count = _PARTITION_HEAD.unpack_from(frame, position)
    position += _PARTITION_HEAD.size
    aborted = [
        _ABORTED.unpack_from(frame, position + index * _ABORTED.size) for index in range(count)
    ]
    position += max(count, 0) * _ABORTED.size
    _, length = _TAIL.unpack_from(frame, position)
    position += _TAIL.size
    return Response(error_code, aborted, frame[position : position + max(length, 0)])
