import struct
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records import (
    Codec,
    CorruptBatch,
    DecompressionLimit,
    InvalidBatch,
    MalformedBatch,
    Record,
    TruncatedBatch,
    UnsupportedMagic,
    build_batch,
    read_header,
    stamp_append_time,
)
from headrace.records.arrow import RECORD_SCHEMA, decode, decode_batches, record_schema
from headrace.records.header import CONTROL, LAYOUT
from headrace.records.validate import write_checksum
from tests.records.oracles import Row, rows, rows_by_aiokafka
from tests.records.strategies import codecs, record_lists

SIMPLE = [Record(b"key", b"value", 1000 + n) for n in range(10)]


def log_of(*batches: Sequence[Record], codec: Codec = Codec.NONE) -> bytearray:
    """Batches with consecutive offsets, as in a segment."""
    stored = bytearray()
    offset = 0
    for records in batches:
        stored += build_batch(records, timestamp=0, codec=codec, base_offset=offset)
        offset += len(records)
    return stored


def changed(batch: bytearray, **fields: int) -> bytearray:
    copy = bytearray(batch)
    LAYOUT.pack_into(copy, 0, *read_header(copy)._replace(**fields))
    return copy


def with_records(plain: bytes, count: int = 1) -> bytes:
    """A batch around bytes that may or may not be records."""
    header = read_header(build_batch([(None, None)], timestamp=0, base_offset=42))
    length = 49 + len(plain)
    return LAYOUT.pack(*header._replace(length=length, record_count=count)) + plain


@given(st.lists(st.tuples(record_lists, codecs), max_size=5))
@settings(deadline=None)
def test_any_records_come_out_as_they_went_in(batches: list[tuple[list[Record], Codec]]):
    stored = bytearray()
    expected: list[Row] = []
    for records, codec in batches:
        base_offset = len(expected)
        stored += build_batch(records, timestamp=0, codec=codec, base_offset=base_offset)
        expected += [Row(base_offset + index, record) for index, record in enumerate(records)]
    decoded = decode(stored, verify_crc=True)
    decoded.validate(full=True)
    assert decoded.schema == RECORD_SCHEMA
    assert rows(decoded) == expected
    assert rows_by_aiokafka(stored) == expected


@given(record_lists, st.integers(0, 40), codecs)
@settings(deadline=None)
def test_records_before_the_minimum_offset_are_left_out(
    records: list[Record], min_offset: int, codec: Codec
):
    stored = log_of(records[: len(records) // 2 + 1], records, codec=codec)
    decoded = decode(stored, min_offset=min_offset)
    decoded.validate(full=True)
    assert rows(decoded) == [row for row in rows(decode(stored)) if row.offset >= min_offset]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, pa.py_buffer])
def test_any_buffer_can_be_decoded(kind):
    stored = log_of(SIMPLE, SIMPLE)
    assert decode(kind(stored)).num_rows == 20


def test_nothing_decodes_to_an_empty_table():
    decoded = decode(b"")
    assert decoded.num_rows == 0
    assert decoded.schema == RECORD_SCHEMA
    assert list(decode_batches(b"")) == []


def test_null_and_empty_are_different():
    decoded = decode(log_of([Record(None, b"", 0), Record(b"", None, 0)]))
    assert decoded.column("key").to_pylist() == [None, b""]
    assert decoded.column("value").to_pylist() == [b"", None]
    assert decoded.column("key").null_count == 1
    assert decoded.column("value").null_count == 1


def test_nulls_are_kept_apart_over_many_rows():
    records = [
        Record(None if n % 3 else b"k%d" % n, None if n % 7 == 0 else b"v%d" % n, n)
        for n in range(1000)
    ]
    decoded = decode(log_of(records[:333], records[333:]))
    assert decoded.column("key").to_pylist() == [record.key for record in records]
    assert decoded.column("value").to_pylist() == [record.value for record in records]


def test_records_without_timestamp_have_null_there():
    decoded = decode(log_of([Record(b"a", b"b", -1), Record(b"a", b"b", 5)]))
    assert decoded.column("timestamp").is_null().to_pylist() == [True, False]


def test_append_time_is_the_timestamp_of_every_record():
    stored = build_batch(SIMPLE, timestamp=0)
    stamp_append_time(stored, 7777)
    assert decode(stored).column("timestamp").cast(pa.int64()).to_pylist() == [7777] * 10


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("headers", [True, False])
def test_columns_that_are_not_wanted_are_left_out(keys: bool, headers: bool):
    stored = log_of([Record(b"k", b"v", 1, (("h", b"x"),))], SIMPLE)
    decoded = decode(stored, keys=keys, headers=headers)
    assert decoded.schema == record_schema(keys=keys, headers=headers)
    assert decoded.equals(decode(stored).select(decoded.schema.names))


def test_header_names_that_are_not_utf_8_are_shown_with_replacements():
    body = b"\x00\x00\x00\x01\x01\x02" + b"\x04\xff\xfe" + b"\x02x"
    decoded = decode(with_records(bytes([len(body) * 2]) + body))
    decoded.validate(full=True)
    assert decoded.column("headers").to_pylist() == [[{"key": "��", "value": b"x"}]]


def test_markers_are_records_only_on_demand():
    marker = build_batch(
        [(b"\0\0\0\1", b"\0\0\0\0\0\0")], timestamp=5, control=True, base_offset=10
    )
    stored = log_of(SIMPLE) + marker
    assert decode(stored).num_rows == 10
    assert decode(stored, control=True).num_rows == 11
    assert read_header(marker).attributes & CONTROL


def test_batches_that_compaction_has_emptied_are_passed_over():
    empty = changed(build_batch(SIMPLE, timestamp=0), length=49, record_count=0)[:61]
    assert decode(empty + build_batch(SIMPLE, timestamp=0, base_offset=10)).num_rows == 10


def test_offsets_may_have_gaps_after_compaction():
    stored = changed(build_batch(SIMPLE, timestamp=0), last_offset_delta=100)
    assert decode(stored).column("offset").to_pylist() == list(range(10))


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("chunk_bytes", [1, 100, 3_000, 1 << 40])
def test_chunks_change_nothing_but_the_pieces(codec: Codec, chunk_bytes: int):
    batches = [[Record(b"k", b"v" * (n % 200), n)] * (n % 11 + 1) for n in range(60)]
    stored = log_of(*batches, codec=codec)
    pieces = list(decode_batches(stored, chunk_bytes=chunk_bytes))
    assert pa.Table.from_batches(pieces).equals(decode(stored))
    if chunk_bytes == 1:
        assert len(pieces) == len(batches)
    if chunk_bytes == 1 << 40:
        assert len(pieces) == 1


def test_compressed_batches_end_a_chunk_by_what_they_expand_to():
    stored = log_of(*[[Record(None, bytes(50_000), 0)]] * 10, codec=Codec.ZSTD)
    assert len(stored) < 10_000
    assert len(list(decode_batches(stored, chunk_bytes=100_000))) == 5


@pytest.mark.parametrize("cut", [1, 50, 110, 160])
def test_a_cut_off_tail_is_an_error_or_ignored(cut: int):
    stored = log_of(SIMPLE, SIMPLE[:3], SIMPLE[:5])
    last = len(stored) - len(log_of(SIMPLE[:5]))
    cut = min(cut, len(stored) - last - 1)
    with pytest.raises(TruncatedBatch) as caught:
        decode(stored[:-cut])
    assert caught.value.position == last
    assert decode(stored[:-cut], partial_tail="ignore").num_rows == 13


def test_ignoring_a_tail_does_not_hide_other_damage():
    stored = log_of(SIMPLE, SIMPLE)
    with pytest.raises(UnsupportedMagic):
        decode(stored + changed(build_batch(SIMPLE, timestamp=0), magic=1), partial_tail="ignore")
    with pytest.raises(InvalidBatch):
        decode(stored + changed(build_batch(SIMPLE, timestamp=0), length=-1), partial_tail="ignore")


def test_checksums_are_verified_on_demand():
    stored = log_of(SIMPLE, SIMPLE)
    stored[-2] ^= 1
    assert decode(stored).num_rows == 20
    with pytest.raises(CorruptBatch) as caught:
        decode(stored, verify_crc=True)
    assert caught.value.base_offset == 10


def test_a_checksum_is_verified_before_anything_is_decompressed():
    stored = log_of(SIMPLE, codec=Codec.GZIP)
    stored[-20] ^= 0xFF
    with pytest.raises(CorruptBatch):
        decode(stored, verify_crc=True)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_refused_with_its_place(codec: Codec):
    stored = log_of(SIMPLE) + build_batch(
        [(None, bytes(100_000))], timestamp=0, codec=codec, base_offset=10
    )
    with pytest.raises(DecompressionLimit, match="base offset 10"):
        decode(stored, limit=50_000)
    assert decode(stored, limit=200_000).num_rows == 11


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"attributes": 5}, id="codec 5"),
        pytest.param({"attributes": 7}, id="codec 7"),
        pytest.param({"attributes": Codec.ZSTD}, id="not compressed after all"),
        pytest.param({"base_offset": -1}, id="negative offset"),
        pytest.param({"base_offset": (1 << 63) - 3}, id="offsets beyond the last"),
        pytest.param({"last_offset_delta": -1}, id="negative last offset"),
        pytest.param({"last_offset_delta": 3}, id="records beyond the last offset"),
        pytest.param({"record_count": -1}, id="negative count"),
        pytest.param({"record_count": 11}, id="more records than offsets"),
        pytest.param({"record_count": 9}, id="bytes left over"),
        pytest.param(
            {"record_count": (1 << 31) - 1, "last_offset_delta": (1 << 31) - 1}, id="huge count"
        ),
        pytest.param({"base_timestamp": (1 << 63) - 1}, id="timestamps beyond the last"),
    ],
)
def test_a_batch_that_contradicts_itself_is_refused_with_its_place(fields: dict[str, int]):
    good = build_batch(SIMPLE, timestamp=0, base_offset=10)
    bad = changed(good, **fields)
    write_checksum(bad)
    with pytest.raises(InvalidBatch) as caught:
        decode(good + bad)
    assert caught.value.position == len(good)
    assert caught.value.base_offset == fields.get("base_offset", 10)


def record(body: bytes) -> bytes:
    assert len(body) < 64
    return bytes([len(body) * 2]) + body


@pytest.mark.parametrize(
    "plain",
    [
        pytest.param(b"\x80" * 60, id="endless length"),
        pytest.param(b"\x01" + bytes(30), id="negative length"),
        pytest.param(b"\xfe\xff\xff\xff\x0f" + bytes(30), id="length of two gigabytes"),
        pytest.param(b"\xfe" + b"\xff" * 8 + b"\x01" + bytes(30), id="largest length"),
        pytest.param(b"\xff" * 9 + b"\x02" + bytes(30), id="length of 65 bits"),
        pytest.param(record(b"") + bytes(10), id="empty record"),
        pytest.param(record(b"\0\0\0\x03\x01\0"), id="key length -2"),
        pytest.param(record(b"\0\0\0\x20\x01\0"), id="key beyond its record"),
        pytest.param(record(b"\0\0\0\x01\x05\0"), id="value length -3"),
        pytest.param(record(b"\0\0\0\x01\x20\0"), id="value beyond its record"),
        pytest.param(record(b"\0\0\0\x01\x0c") + bytes(6), id="value in the next record"),
        pytest.param(record(b"\0\0\0\x01\x01"), id="no header count"),
        pytest.param(record(b"\0\0\0\x01\x01\x01"), id="header count -1"),
        pytest.param(record(b"\0\0\0\x01\x01\x02"), id="missing header"),
        pytest.param(record(b"\0\0\0\x01\x01\xfe\xff\xff\xff\x0f"), id="two billion headers"),
        pytest.param(record(b"\0\0\0\x01\x01\x02\x01\x01"), id="header without name"),
        pytest.param(record(b"\0\0\0\x01\x01\x02\x20\x01"), id="header name beyond its record"),
        pytest.param(record(b"\0\0\0\x01\x01\x02\x02a\x05"), id="header value length -3"),
        pytest.param(record(b"\0\0\0\x01\x01\x02\x02a\x20"), id="header value beyond its record"),
        pytest.param(record(b"\0\0\0\x01\x01\0\0"), id="bytes after the headers"),
        pytest.param(record(b"\0\0\x01\x01\x01\0"), id="negative offset"),
        pytest.param(record(b"\0\0\x02\x01\x01\0"), id="offset of another batch"),
        pytest.param(record(b"\0" + b"\xff" * 9 + b"\x01" + b"\0\x01\x01\0") * 2, id="two for one"),
    ],
)
def test_records_that_are_none_are_refused(plain: bytes):
    plain = plain.ljust(7, b"\0")
    with pytest.raises(InvalidBatch) as caught:
        decode(with_records(plain))
    assert caught.value.base_offset == 42


def test_the_number_of_records_is_not_believed_before_memory_is_taken():
    count = (1 << 31) - 1
    claimed = LAYOUT.pack(
        *read_header(build_batch([(None, None)], timestamp=0))._replace(
            length=49 + 100, record_count=count, last_offset_delta=count - 1
        )
    )
    with pytest.raises(InvalidBatch, match="record count"):
        decode(claimed + bytes(100))
    packed = build_batch(SIMPLE, timestamp=0, codec=Codec.GZIP)
    with pytest.raises(InvalidBatch, match="record count"):
        decode(changed(packed, record_count=count, last_offset_delta=count - 1))


def test_errors_are_raised_where_the_bad_batch_is_reached():
    pieces = decode_batches(log_of(SIMPLE) + with_records(b"\x80" * 60), chunk_bytes=1)
    assert next(pieces).num_rows == 10
    with pytest.raises(MalformedBatch):
        next(pieces)


def test_a_field_cut_in_the_middle_of_a_number_is_noticed():
    stored = bytearray(log_of(SIMPLE[:1]))
    struct.pack_into(">i", stored, 8, 49 + 3)
    with pytest.raises(InvalidBatch):
        decode(stored[: 61 + 3])
