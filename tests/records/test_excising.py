"""Taking records out of batches: those that are meant, all of them, and nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records import (
    HEADER_SIZE,
    BatchHeader,
    Codec,
    CorruptBatch,
    InvalidBatch,
    Record,
    build_batch,
    iterate_headers,
    read_header,
    stamp_append_time,
    validate_batch,
)
from headrace.records.arrow import decode
from headrace.records.excising import excise
from headrace.records.header import LAYOUT
from headrace.records.matching import Criteria
from headrace.records.validate import write_checksum
from tests.records.oracles import Row, rows, rows_by_aiokafka, rows_by_kafka_python
from tests.records.shapes import Shape, is_meant, raw_records, shapes, stored_as


def identity(header: BatchHeader) -> tuple[int, ...]:
    """What a batch says of itself that losing records does not change."""
    return (
        header.base_offset,
        header.leader_epoch,
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )


@given(
    st.lists(shapes, max_size=5),
    st.sets(st.sampled_from([b"", b"a", b"ab", b"customer-7", b"customer-8" * 30, b"nobody"])),
    st.sets(st.tuples(st.just("tenant"), st.sampled_from([b"", b"x", b"yy"])), max_size=1),
)
@settings(deadline=None, max_examples=200)
def test_exactly_the_records_that_are_meant_are_missing(
    given_shapes: list[Shape], keys: set[bytes], headers: set[tuple[str, bytes]]
):
    stored = stored_as(given_shapes)
    criteria = Criteria.of(keys, [(name.encode(), value) for name, value in headers])
    excised = excise(stored, criteria, at_end=True)

    before = rows(decode(stored))
    meant = [row for row in before if is_meant(row.record, keys, headers)]
    left = [row for row in before if row not in meant]
    assert excised.records == len(before)
    assert excised.found["offset"].to_pylist() == [row.offset for row in meant]
    assert excised.found["key"].to_pylist() == [row.record.key for row in meant]
    assert rows(decode(excised.rest, verify_crc=True)) == left
    if not meant:
        assert excised.rest == stored

    gone = {row.offset for row in meant}
    kept = [
        raw for raw, row in zip(raw_records(stored), before, strict=True) if row.offset not in gone
    ]
    assert list(raw_records(excised.rest)) == kept

    originals = {header.base_offset: header for _, header in iterate_headers(stored)}
    for position, header in iterate_headers(excised.rest):
        validate_batch(excised.rest, header, position, gaps=True)
        original = originals[header.base_offset]
        if header.record_count:
            assert identity(header) == identity(original)
        else:
            assert identity(header._replace(attributes=original.attributes)) == identity(original)
    if stored:
        *_, (_, last) = iterate_headers(excised.rest)
        assert last.next_offset == max(each.next_offset for each in originals.values())


@given(st.lists(shapes, min_size=1, max_size=3))
@settings(deadline=None, max_examples=40)
def test_other_peoples_readers_agree_on_what_is_left(given_shapes: list[Shape]):
    rest = excise(stored_as(given_shapes), Criteria.of([b"a", b"customer-7"]), at_end=True).rest
    # Their readers cannot open a batch without records by itself, as their consumers do not either.
    whole = b"".join(
        rest[position : position + header.size]
        for position, header in iterate_headers(rest)
        if header.record_count
    )
    expected: list[Row] = rows(decode(whole))
    assert rows_by_aiokafka(whole) == expected
    assert rows_by_kafka_python(whole) == expected


def test_a_batch_without_records_stays_if_it_tells_of_a_producer_or_ends_the_buffer():
    anonymous = stored_as([Shape([Record(b"a", b"1", 5)], Codec.GZIP, -1, False, False, 0)])
    idempotent = stored_as([Shape([Record(b"a", b"1", 5)], Codec.ZSTD, 7, True, False, 0)])
    criteria = Criteria.of([b"a"])
    assert excise(anonymous, criteria).rest == b""
    for rest in (excise(anonymous, criteria, at_end=True).rest, excise(idempotent, criteria).rest):
        header = read_header(rest)
        assert (header.record_count, header.codec, header.size) == (0, 0, HEADER_SIZE)
        assert header.max_timestamp == -1
    assert read_header(excise(idempotent, criteria).rest).is_transactional


def test_the_newest_timestamp_is_that_of_the_records_that_are_left():
    stored = build_batch(
        [Record(b"a", b"", 10), Record(b"b", b"", 30), Record(b"c", b"", 20)], timestamp=0
    )
    assert read_header(excise(stored, Criteria.of([b"b"])).rest).max_timestamp == 20
    stamp_append_time(stored, 99)
    assert read_header(excise(stored, Criteria.of([b"b"])).rest).max_timestamp == 99


def test_transaction_markers_are_not_looked_at():
    marker = bytes(
        build_batch(
            [(b"\0\0\0\1", b"\0\0\0\0\0\0")],
            timestamp=0,
            producer_id=7,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
    )
    excised = excise(marker, Criteria.of([b"\0\0\0\1"]))
    assert (excised.rest, excised.found.num_rows) == (marker, 0)


def test_many_keys_are_as_good_as_one():
    stored = build_batch([Record(b"%d" % n, b"v", n) for n in range(2000)], timestamp=0)
    rest = excise(stored, Criteria.of(b"%d" % n for n in range(0, 2000, 2))).rest
    assert decode(rest)["offset"].to_pylist() == list(range(1, 2000, 2))


def test_what_cannot_be_read_is_refused():
    batch = build_batch([Record(b"a", b"value", 5, [("tenant", b"x")])] * 3, timestamp=0)
    damaged = bytearray(batch)
    damaged[-2] ^= 1
    with pytest.raises(CorruptBatch):
        excise(damaged, Criteria.of([b"a"]))
    longer = bytearray(batch)
    LAYOUT.pack_into(longer, 0, *read_header(batch)._replace(record_count=2))
    write_checksum(longer)
    with pytest.raises(InvalidBatch, match="left over"):
        excise(longer, Criteria.of([b"a"]))
    cut = bytearray(batch)
    cut[-4:] = b"\x7f\x7f\x7f\x7f"
    write_checksum(cut)
    with pytest.raises(InvalidBatch):
        excise(cut, Criteria.of([], [(b"tenant", b"x")]))
