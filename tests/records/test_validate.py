import struct

import pytest

from headrace.records import (
    BatchHeader,
    Codec,
    CorruptBatch,
    InvalidBatch,
    Record,
    TruncatedBatch,
    UnsupportedMagic,
    build_batch,
    read_header,
    stamp,
    stamp_append_time,
    validate_batch,
)
from headrace.records.header import LAYOUT
from headrace.records.validate import write_checksum
from tests.records.oracles import rows_by_aiokafka

RECORDS = [Record(b"key", b"value" * 10, 1000 + n) for n in range(5)]


def altered(**changes: int) -> bytearray:
    """A valid batch with other header fields, and a checksum that covers them."""
    batch = build_batch(RECORDS, timestamp=0, producer_id=8, producer_epoch=0, base_sequence=0)
    header = read_header(batch)._replace(**changes)
    LAYOUT.pack_into(batch, 0, *header)
    write_checksum(batch)
    return batch


def check(batch: bytes | bytearray) -> None:
    validate_batch(batch, read_header(batch))


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_as_written_is_valid(codec: Codec):
    check(build_batch(RECORDS, timestamp=0, codec=codec))


def test_a_batch_is_validated_where_it_lies():
    first = build_batch(RECORDS, timestamp=0)
    second = build_batch(RECORDS[:2], timestamp=0)
    both = first + second
    header = read_header(both, len(first))
    validate_batch(both, header, len(first))
    both[-1] ^= 1
    with pytest.raises(CorruptBatch) as caught:
        validate_batch(memoryview(both), header, len(first))
    assert caught.value.position == len(first)


def test_every_bit_behind_the_checksum_is_covered_by_it():
    batch = build_batch(RECORDS[:1], timestamp=0)
    header = read_header(batch)
    for position in range(21, len(batch)):
        for bit in range(8):
            batch[position] ^= 1 << bit
            with pytest.raises(CorruptBatch):
                validate_batch(batch, header)
            batch[position] ^= 1 << bit


def test_a_batch_of_another_format_is_refused():
    with pytest.raises(UnsupportedMagic, match="message format 1"):
        check(altered(magic=1))


def test_a_batch_that_is_cut_off_is_refused():
    batch = build_batch(RECORDS, timestamp=0)
    with pytest.raises(TruncatedBatch):
        check(batch[:-1])


def test_a_negative_length_is_refused():
    header = read_header(build_batch(RECORDS, timestamp=0))._replace(length=-5)
    with pytest.raises(InvalidBatch, match="length"):
        validate_batch(LAYOUT.pack(*header), header)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"record_count": 0, "last_offset_delta": -1}, id="no records"),
        pytest.param({"record_count": -5, "last_offset_delta": -6}, id="negative count"),
        pytest.param({"record_count": 4}, id="fewer records than offsets"),
        pytest.param({"last_offset_delta": 3}, id="more records than offsets"),
        pytest.param({"attributes": 5}, id="codec 5"),
        pytest.param({"attributes": 6}, id="codec 6"),
        pytest.param({"attributes": 7}, id="codec 7"),
        pytest.param({"max_timestamp": -2}, id="negative timestamp"),
        pytest.param({"producer_id": -2}, id="negative producer id"),
        pytest.param({"producer_epoch": -1}, id="producer without epoch"),
        pytest.param({"base_sequence": -1}, id="producer without sequence"),
        pytest.param({"producer_id": -1, "attributes": 1 << 4}, id="transaction of nobody"),
    ],
)
def test_a_batch_that_contradicts_itself_is_refused(changes: dict[str, int]):
    with pytest.raises(InvalidBatch):
        check(altered(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"max_timestamp": -1, "base_timestamp": -1}, id="no timestamp"),
        pytest.param({"max_timestamp": 0}, id="largest timestamp forgotten, as some clients do"),
        pytest.param({"producer_id": -1, "base_sequence": 0}, id="sequence of nobody, as aiokafka"),
        pytest.param({"attributes": 1 << 4}, id="transactional"),
        pytest.param({"attributes": 3 << 4, "base_sequence": -1}, id="transaction marker"),
    ],
)
def test_unusual_batches_are_accepted(changes: dict[str, int]):
    check(altered(**changes))


@pytest.mark.parametrize("prefix", [b"", b"something else"])
def test_a_stamp_changes_offset_and_epoch_and_nothing_else(prefix: bytes):
    stored = bytearray(prefix) + build_batch(RECORDS, timestamp=0)
    before = read_header(stored, len(prefix))
    stamp(stored, 1 << 40, 77, len(prefix))
    after = read_header(stored, len(prefix))
    assert after == before._replace(base_offset=1 << 40, leader_epoch=77)
    validate_batch(stored, after, len(prefix))


def test_a_stamp_can_be_written_through_a_view():
    stored = bytearray(9) + build_batch(RECORDS, timestamp=0)
    stamp(memoryview(stored)[9:], 5, 6)
    stamp_append_time(memoryview(stored)[9:], 123)
    header = read_header(stored, 9)
    assert (header.base_offset, header.leader_epoch, header.max_timestamp) == (5, 6, 123)
    validate_batch(stored, header, 9)


@pytest.mark.parametrize("codec", Codec)
def test_append_time_becomes_the_time_of_every_record(codec: Codec):
    batch = build_batch(RECORDS, timestamp=0, codec=codec)
    stamp_append_time(batch, 5_000)
    header = read_header(batch)
    validate_batch(batch, header)
    assert header.has_append_time
    assert header.codec == codec
    assert {row.record.timestamp for row in rows_by_aiokafka(batch)} == {5_000}


def test_the_layout_is_that_of_the_specification():
    fields = ("q", "i", "i", "b", "I", "h", "i", "q", "q", "q", "h", "i", "i")
    assert struct.calcsize(">" + "".join(fields)) == LAYOUT.size == 61
    assert len(BatchHeader._fields) == len(fields)
