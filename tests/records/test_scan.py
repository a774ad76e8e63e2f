import pytest
from hypothesis import given, settings

from headrace.records import (
    Codec,
    DecompressionLimit,
    InvalidBatch,
    InvalidRecords,
    Record,
    RecordPosition,
    TruncatedBatch,
    UnsupportedMagic,
    build_batch,
    first_at_or_after,
    read_header,
    stamp_append_time,
    validate_batch,
)
from headrace.records.header import LAYOUT
from tests.records.oracles import Row, rows_by_aiokafka, rows_by_kafka_python
from tests.records.strategies import codecs, record_lists, timestamps

OUT_OF_ORDER = [Record(b"k", b"v", moment) for moment in (1000, 1005, 997, 1010)]


def raw_batch(records: bytes, **fields: int) -> bytes:
    """A batch around bytes that may or may not be records."""
    header = read_header(build_batch([(None, None)], timestamp=0))
    changed = header._replace(length=49 + len(records), **fields)
    return LAYOUT.pack(*changed) + records


@given(record_lists, codecs)
@settings(deadline=None)
def test_a_built_batch_is_valid_and_read_alike_by_other_readers(
    records: list[Record], codec: Codec
):
    batch = build_batch(records, timestamp=0, codec=codec, base_offset=500)
    validate_batch(batch, read_header(batch))
    expected = [Row(500 + index, record) for index, record in enumerate(records)]
    assert rows_by_aiokafka(batch) == expected
    assert rows_by_kafka_python(batch) == expected


def test_a_batch_carries_what_it_is_given():
    header = read_header(
        build_batch(
            [*OUT_OF_ORDER, (b"pair", None)],
            timestamp=1003,
            base_offset=9,
            leader_epoch=4,
            producer_id=11,
            producer_epoch=2,
            base_sequence=30,
            transactional=True,
            control=True,
        )
    )
    assert header.base_offset == 9
    assert header.leader_epoch == 4
    assert header.record_count == 5
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1010)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (11, 2, 30)
    assert header.is_transactional
    assert header.is_control


def test_an_empty_batch_is_not_built():
    with pytest.raises(InvalidRecords, match="at least one"):
        build_batch([], timestamp=0)


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (0, RecordPosition(50, 1000)),
        (1000, RecordPosition(50, 1000)),
        (1001, RecordPosition(51, 1005)),
        (1006, RecordPosition(53, 1010)),
        (1010, RecordPosition(53, 1010)),
        (1011, None),
    ],
)
@pytest.mark.parametrize("codec", Codec)
def test_the_first_record_in_offset_order_is_found(
    codec: Codec, timestamp: int, found: RecordPosition | None
):
    batch = build_batch(OUT_OF_ORDER, timestamp=0, codec=codec, base_offset=50)
    assert first_at_or_after(batch, timestamp) == found
    assert first_at_or_after(memoryview(b"before" + batch), timestamp, 6) == found


@given(record_lists, timestamps, codecs)
@settings(deadline=None)
def test_the_search_agrees_with_looking_at_every_record(
    records: list[Record], timestamp: int, codec: Codec
):
    batch = build_batch(records, timestamp=0, codec=codec)
    expected = next(
        (
            RecordPosition(index, record.timestamp)
            for index, record in enumerate(records)
            if record.timestamp is not None and record.timestamp >= timestamp
        ),
        None,
    )
    assert first_at_or_after(batch, timestamp) == expected


def test_with_append_time_the_first_record_is_the_answer():
    batch = build_batch(OUT_OF_ORDER, timestamp=0, base_offset=5)
    stamp_append_time(batch, 2000)
    assert first_at_or_after(batch, 2000) == RecordPosition(5, 2000)
    assert first_at_or_after(batch, 2001) is None


def test_offsets_may_have_gaps_after_compaction():
    batch = build_batch(OUT_OF_ORDER, timestamp=0)
    header = read_header(batch)
    LAYOUT.pack_into(batch, 0, *header._replace(last_offset_delta=20))
    assert first_at_or_after(batch, 1010) == RecordPosition(3, 1010)


def test_a_batch_that_expands_beyond_the_limit_is_not_searched():
    batch = build_batch([(None, bytes(100_000))], timestamp=5, codec=Codec.GZIP)
    assert first_at_or_after(batch, 5) == RecordPosition(0, 5)
    with pytest.raises(DecompressionLimit):
        first_at_or_after(batch, 5, limit=50_000)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x80" * 50, id="endless length"),
        pytest.param(b"\x01" + bytes(20), id="negative length"),
        pytest.param(b"\xfe\xff\xff\xff\x0f" + bytes(20), id="length of two gigabytes"),
        pytest.param(b"\x00", id="empty record"),
        pytest.param(b"\x02\x00", id="record without timestamp"),
        pytest.param(b"\x04\x00\x00", id="record without offset"),
        pytest.param(b"\x04\x00\x80\x00\x01\x01\x00", id="timestamp beyond its record"),
        pytest.param(b"\x0c\x00\x00\x01\x01\x01\x00", id="negative offset"),
        pytest.param(b"\x0c\x00\x00\x14\x01\x01\x00", id="offset of another batch"),
        pytest.param(b"\x1e\x00" + b"\xff" * 9 + b"\x02" + b"\x00" * 4, id="number of 65 bits"),
        pytest.param(
            b"\x1e\x00" + b"\xfe" + b"\xff" * 8 + b"\x01" + b"\x00" * 4,
            id="timestamp beyond the end of time",
        ),
    ],
)
def test_records_that_are_none_are_refused(records: bytes):
    with pytest.raises(InvalidBatch) as caught:
        first_at_or_after(raw_batch(records, base_offset=77, base_timestamp=10), 1 << 62)
    assert caught.value.base_offset == 77


def test_fewer_records_than_announced_are_noticed():
    batch = build_batch(OUT_OF_ORDER, timestamp=0)
    LAYOUT.pack_into(batch, 0, *read_header(batch)._replace(record_count=1 << 30))
    with pytest.raises(InvalidBatch):
        first_at_or_after(batch, 1011)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD, 5, 7])
def test_records_that_do_not_decompress_are_refused(codec: int):
    with pytest.raises(InvalidBatch):
        first_at_or_after(raw_batch(b"nonsense", attributes=codec), 0)


def test_a_batch_must_be_whole_to_be_searched():
    batch = build_batch(OUT_OF_ORDER, timestamp=0)
    with pytest.raises(TruncatedBatch):
        first_at_or_after(batch[:-1], 0)
    with pytest.raises(UnsupportedMagic):
        first_at_or_after(raw_batch(b"", magic=0), 0)
    with pytest.raises(InvalidBatch):
        first_at_or_after(LAYOUT.pack(*read_header(batch)._replace(length=3)), 0)
