"""Records with keys, many a second: batches are encoded whole and sent as they are.

A client library would spend most of a benchmark's time making messages. The bytes are the same for
everybody, since they come from the same seed.
"""

import socket
import struct
from collections.abc import Iterator
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa

from benchmarks.librdkafka import LoadFailed
from benchmarks.peers import Server
from headrace.records import iterate_headers, stamp
from headrace.records.arrow import encode

BLOCK: Final = 500_000
"""How many records are made at once."""

BATCH_BYTES: Final = 16_384
"""What producers fill a batch to unless told otherwise."""

IN_FLIGHT: Final = 5
"""How many requests may wait for their answers, as a producer's default is."""

_START_MS: Final = 1_700_000_000_000
_PRODUCE: Final = struct.pack(">hhi", 0, 9, 0) + struct.pack(">h", -1) + b"\0"
_AFTER_CODE: Final = 3 * 8 + 1 + 1 + 1 + 1 + 4 + 1
_ACKS_AND_TIMEOUT: Final = struct.pack(">hi", 1, 30_000)


def send(server: Server, topic: str, *, count: int, keys: int, value_bytes: int) -> None:
    """Produce `count` records to partition 0, with keys chosen at random."""
    host, _, port = server.bootstrap.rpartition(":")
    name = topic.encode()
    head = _PRODUCE + b"\0" + _ACKS_AND_TIMEOUT + b"\2" + _uvarint(len(name) + 1) + name + b"\2"
    waiting = 0
    with socket.create_connection((host, int(port))) as connection:
        replies = connection.makefile("rb")
        for batch in _batches(count, keys, value_bytes):
            body = struct.pack(">i", 0) + _uvarint(len(batch) + 1)
            size = struct.pack(">i", len(head) + len(body) + len(batch) + 3)
            connection.sendall(b"".join((size, head, body, batch, b"\0\0\0")))
            waiting += 1
            if waiting > IN_FLIGHT:
                _receive(replies)
                waiting -= 1
        for _ in range(waiting):
            _receive(replies)


def _receive(replies: BinaryIO) -> None:
    """Take one answer in; what matters of it is the error code."""
    (size,) = struct.unpack(">i", replies.read(4))
    answer = replies.read(size)
    # From the end: tags, throttle time, tags of topic and partition, message, record errors (both
    # absent), three numbers of eight bytes, and before them the code.
    (code,) = struct.unpack_from(">h", answer, len(answer) - _AFTER_CODE - 2)
    if code:
        raise LoadFailed(f"a batch was refused with error {code}")


def _batches(count: int, keys: int, value_bytes: int) -> Iterator[bytes]:
    random = np.random.default_rng(1)
    for first in range(0, count, BLOCK):
        size = min(BLOCK, count - first)
        values = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(value_bytes), size, [None, pa.py_buffer(random.bytes(size * value_bytes))]
        )
        table = pa.table(
            {
                "key": pa.array(random.integers(0, keys, size)).cast(pa.string()),
                "value": values.cast(pa.binary()),
                "timestamp": pa.array(np.arange(first, first + size) + _START_MS),
            }
        )
        data = encode(table, max_bytes=BATCH_BYTES)
        for position, header in iterate_headers(data):
            stamp(data, 0, -1, position)
            yield bytes(data[position : position + header.size])


def _uvarint(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
