import pickle

import pytest

from headrace.records import (
    HEADER_SIZE,
    BatchHeader,
    Codec,
    InvalidBatch,
    TruncatedBatch,
    UnsupportedMagic,
    build_batch,
    iterate_headers,
    read_header,
)
from headrace.records.header import LAYOUT, Readable

HEADER = BatchHeader(
    base_offset=1 << 40,
    length=1000,
    leader_epoch=7,
    magic=2,
    crc=0xFEDCBA98,
    attributes=0b11_1100,
    last_offset_delta=9,
    base_timestamp=1_700_000_000_000,
    max_timestamp=1_700_000_000_123,
    producer_id=1 << 41,
    producer_epoch=300,
    base_sequence=70_000,
    record_count=10,
)


def with_length(batch: bytearray, length: int) -> bytes:
    return bytes(batch[:8]) + length.to_bytes(4, "big", signed=True) + bytes(batch[12:])


@pytest.fixture
def three_batches() -> bytes:
    return b"".join(
        build_batch([(None, b"x" * size)] * 2, timestamp=0, base_offset=offset)
        for size, offset in ((1, 0), (50, 2), (300, 4))
    )


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_header_is_read_from_any_buffer_at_any_position(kind: type[Readable]):
    stored = kind(b"before" + LAYOUT.pack(*HEADER))
    assert read_header(stored, 6) == HEADER


def test_a_header_names_what_its_fields_mean():
    assert HEADER.size == 1012
    assert HEADER.last_offset == HEADER.base_offset + 9
    assert HEADER.next_offset == HEADER.base_offset + 10
    assert HEADER.codec == Codec.ZSTD
    assert HEADER.has_append_time
    assert HEADER.is_transactional
    assert HEADER.is_control


def test_a_plain_batch_has_no_attributes():
    header = read_header(build_batch([(None, b"")], timestamp=0))
    assert header.codec == Codec.NONE
    assert not header.has_append_time
    assert not header.is_transactional
    assert not header.is_control


@pytest.mark.parametrize("available", [0, 1, 16, 60])
def test_less_than_a_header_is_a_truncated_batch(available: int):
    with pytest.raises(TruncatedBatch) as caught:
        read_header(bytes(5) + LAYOUT.pack(*HEADER)[:available], 5)
    assert caught.value.position == 5
    assert caught.value.base_offset is None


def test_a_position_behind_the_buffer_is_a_truncated_batch():
    with pytest.raises(TruncatedBatch):
        read_header(b"", 1000)


def test_a_short_message_of_an_older_format_is_named_as_such():
    message_of_format_1 = bytes(16) + b"\x01" + bytes(20)
    with pytest.raises(UnsupportedMagic, match="message format 1"):
        read_header(message_of_format_1)


def test_headers_are_found_one_after_the_other(three_batches: bytes):
    found = list(iterate_headers(three_batches))
    assert [header.base_offset for _, header in found] == [0, 2, 4]
    assert [position for position, _ in found] == [
        0,
        found[0][1].size,
        sum(header.size for _, header in found[:2]),
    ]


def test_iteration_begins_and_ends_where_it_is_told(three_batches: bytes):
    (_, first), (second_at, second), _ = iterate_headers(three_batches)
    assert list(iterate_headers(three_batches, second_at, second_at + second.size)) == [
        (first.size, second)
    ]


def test_iteration_over_nothing_finds_nothing():
    assert list(iterate_headers(b"")) == []


@pytest.mark.parametrize("cut", [1, 300, 360])
def test_a_cut_off_batch_ends_the_iteration_and_says_where(three_batches: bytes, cut: int):
    with pytest.raises(TruncatedBatch) as caught:
        list(iterate_headers(three_batches[:-cut]))
    *_, (last_at, _) = iterate_headers(three_batches)
    assert caught.value.position == last_at


@pytest.mark.parametrize("length", [-(1 << 31), -12, -1, 0, 48])
def test_a_length_that_cannot_be_is_refused(length: int):
    batch = build_batch([(None, b"")], timestamp=0, base_offset=3)
    with pytest.raises(InvalidBatch, match="base offset 3") as caught:
        list(iterate_headers(with_length(batch, length)))
    assert caught.value.base_offset == 3


def test_the_shortest_length_covers_the_header_alone():
    empty = LAYOUT.pack(*HEADER._replace(length=HEADER_SIZE - 12, record_count=0))
    assert len(list(iterate_headers(empty * 3))) == 3


def test_errors_survive_pickling():
    error = pickle.loads(pickle.dumps(TruncatedBatch("it ends", 10, 5)))
    assert (error.position, error.base_offset) == (10, 5)
    assert str(error) == "record batch at byte 10 with base offset 5: it ends"
