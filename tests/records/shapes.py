"""Batches of every shape that a log can hold, for tests that take records out of them."""

from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import strategies as st

from headrace.records import (
    HEADER_SIZE,
    Codec,
    Record,
    build_batch,
    decompress,
    iterate_headers,
    stamp_append_time,
)
from tests.records.strategies import codecs, optional_bytes, timestamps

keys = st.sampled_from([None, b"", b"a", b"ab", b"b", b"customer-7", b"customer-8" * 30])
header_lists = st.lists(
    st.tuples(st.sampled_from(["tenant", "trace"]), st.sampled_from([None, b"", b"x", b"yy"])),
    max_size=3,
).map(tuple)
records = st.builds(Record, keys, optional_bytes, timestamps, header_lists)


class Shape(NamedTuple):
    """A batch to be: its records and how they are written."""

    records: list[Record]
    codec: Codec
    producer_id: int
    transactional: bool
    append_time: bool
    gap: int


shapes = st.builds(
    Shape,
    st.lists(records, min_size=1, max_size=12),
    codecs,
    st.sampled_from([-1, 7]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 3),
)


def batch_of(shape: Shape, offset: int, *, sequence: int = 0) -> bytearray:
    """One batch."""
    idempotent = shape.producer_id >= 0
    batch = build_batch(
        shape.records,
        timestamp=0,
        codec=shape.codec,
        base_offset=offset,
        leader_epoch=3,
        producer_id=shape.producer_id,
        producer_epoch=2 if idempotent else -1,
        base_sequence=sequence if idempotent else -1,
        transactional=shape.transactional and idempotent,
    )
    if shape.append_time:
        stamp_append_time(batch, 1_000)
    return batch


def stored_as(shapes: list[Shape]) -> bytes:
    """Batches one after the other, with gaps between them as compaction leaves."""
    stored = bytearray()
    offset = 0
    for shape in shapes:
        offset += shape.gap
        stored += batch_of(shape, offset, sequence=offset)
        offset += len(shape.records)
    return bytes(stored)


def is_meant(record: Record, keys: set[bytes], headers: set[tuple[str, bytes]]) -> bool:
    return record.key in keys or any(header in headers for header in record.headers)


def raw_records(batches: bytes) -> Iterator[bytes]:
    """The bytes of every record, as they are after decompression."""
    for position, header in iterate_headers(batches):
        stored = batches[position + HEADER_SIZE : position + header.size]
        plain = bytes(decompress(header.codec, stored)) if header.record_count else b""
        cursor = 0
        for _ in range(header.record_count):
            length = shift = 0
            start = cursor
            while True:
                byte = plain[cursor]
                length |= (byte & 0x7F) << shift
                shift += 7
                cursor += 1
                if byte < 0x80:
                    break
            cursor += length >> 1
            yield plain[start:cursor]
        assert cursor == len(plain)
