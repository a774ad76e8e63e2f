import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records import (
    BatchHeader,
    Codec,
    InvalidRecords,
    Record,
    iterate_headers,
    stamp,
    validate_batch,
)
from headrace.records.arrow import RECORD_SCHEMA, decode, encode
from tests.records.oracles import Row, rows, rows_by_aiokafka, rows_by_kafka_python
from tests.records.strategies import codecs, record_lists, timestamps

VALUES = pa.table({"value": [b"v%d" % n for n in range(100)]})


def table_of(records: list[Record]) -> pa.Table:
    columns = {
        "key": [record.key for record in records],
        "value": [record.value for record in records],
        "timestamp": [record.timestamp for record in records],
        "headers": [
            [{"key": name, "value": value} for name, value in record.headers] for record in records
        ],
    }
    schema = pa.schema([RECORD_SCHEMA.field(name) for name in columns])
    return pa.table(columns, schema=schema)


def headers_of(batches: bytes | bytearray) -> list[BatchHeader]:
    """The headers of batches that are all valid."""
    found = list(iterate_headers(batches))
    for position, header in found:
        validate_batch(batches, header, position)
    return [header for _, header in found]


@given(record_lists, codecs, st.integers(1, 40), st.integers(1, 2_000))
@settings(deadline=None)
def test_any_table_is_read_alike_by_every_reader(
    records: list[Record], codec: Codec, max_records: int, max_bytes: int
):
    batches = encode(
        table_of(records),
        codec=codec,
        base_offset=1000,
        max_records=max_records,
        max_bytes=max_bytes,
    )
    expected = [Row(1000 + index, record) for index, record in enumerate(records)]
    assert rows(decode(batches, verify_crc=True)) == expected
    assert rows_by_aiokafka(batches) == expected
    assert rows_by_kafka_python(batches) == expected


@given(record_lists, st.integers(1, 10), st.integers(1, 1_000))
@settings(deadline=None)
def test_batches_keep_to_their_limits_and_are_as_full_as_they_can_be(
    records: list[Record], max_records: int, max_bytes: int
):
    batches = encode(table_of(records), max_records=max_records, max_bytes=max_bytes)
    headers = headers_of(batches)
    assert sum(header.record_count for header in headers) == len(records)
    for header in headers:
        assert header.record_count <= max_records
        assert header.size <= max_bytes or header.record_count == 1
    for header in headers[:-1]:
        larger = table_of(records[header.base_offset :][: header.record_count + 1])
        (whole,) = headers_of(encode(larger))
        assert whole.record_count > max_records or whole.size > max_bytes


def test_an_empty_table_is_no_batch():
    assert encode(VALUES.slice(0, 0)) == b""
    assert encode(RECORD_SCHEMA.empty_table(), codec=Codec.ZSTD) == b""


def test_headers_of_batches_count_on():
    headers = headers_of(
        encode(
            VALUES,
            base_offset=7,
            max_records=40,
            leader_epoch=3,
            producer_id=12,
            producer_epoch=1,
            base_sequence=(1 << 31) - 50,
            transactional=True,
        )
    )
    assert [header.base_offset for header in headers] == [7, 47, 87]
    assert [header.record_count for header in headers] == [40, 40, 20]
    assert {header.leader_epoch for header in headers} == {3}
    assert {(header.producer_id, header.producer_epoch) for header in headers} == {(12, 1)}
    assert all(header.is_transactional for header in headers)
    assert [header.base_sequence for header in headers] == [(1 << 31) - 50, (1 << 31) - 10, 30]


def test_without_a_producer_there_is_no_sequence():
    headers = headers_of(encode(VALUES, max_records=60))
    assert [header.base_sequence for header in headers] == [-1, -1]
    assert not any(header.is_transactional for header in headers)


def test_each_batch_knows_its_time():
    table = pa.table({"value": [b""] * 4, "timestamp": [5, 9, 2, 1]})
    headers = headers_of(encode(table, max_records=2))
    assert [(header.base_timestamp, header.max_timestamp) for header in headers] == [(5, 9), (2, 2)]


@given(timestamps)
@settings(deadline=None, max_examples=20)
def test_records_without_timestamp_get_the_one_that_is_given(timestamp: int):
    table = pa.table({"value": [b"a", b"b"], "timestamp": pa.array([3, None], pa.int64())})
    decoded = decode(encode(table, timestamp=timestamp)).column("timestamp").cast(pa.int64())
    assert decoded.to_pylist() == [3, timestamp]


def test_without_any_timestamp_there_is_none():
    assert decode(encode(VALUES)).column("timestamp").null_count == 100


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["a", None, "ü"]), [b"a", None, "ü".encode()]),
        (pa.array(["a", None, "ü"], pa.large_string()), [b"a", None, "ü".encode()]),
        (pa.array([b"a", None, b""], pa.large_binary()), [b"a", None, b""]),
        (pa.array(["a", None, "x" * 50], pa.string_view()), [b"a", None, b"x" * 50]),
        (pa.array([b"ab", None, b"cd"], pa.binary(2)), [b"ab", None, b"cd"]),
        (pa.array(["a", None, "a"]).dictionary_encode(), [b"a", None, b"a"]),
        (pa.nulls(3), [None, None, None]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_keys_and_values_may_have_any_type_of_text_or_bytes(
    column: pa.Array, expected: list[bytes | None]
):
    decoded = decode(encode(pa.table({"key": column, "value": column})))
    assert decoded.column("key").to_pylist() == expected
    assert decoded.column("value").to_pylist() == expected


@pytest.mark.parametrize(
    "kind",
    [
        pa.timestamp("s"),
        pa.timestamp("us", tz="UTC"),
        pa.timestamp("ns", tz="Europe/Berlin"),
        pa.int64(),
    ],
    ids=str,
)
def test_timestamps_may_have_any_unit(kind: pa.DataType):
    moment = pa.array([1_700_000_000_000], pa.int64())
    column = moment if kind == pa.int64() else moment.cast(pa.timestamp("ms", "UTC")).cast(kind)
    decoded = decode(encode(pa.table({"value": [b""], "timestamp": column})))
    assert decoded.column("timestamp").cast(pa.int64()).to_pylist() == [1_700_000_000_000]


def test_headers_may_be_a_map_or_missing():
    column = pa.array([[("a", b"1"), ("b", None)], None, []], pa.map_(pa.string(), pa.binary()))
    decoded = decode(encode(pa.table({"value": [b""] * 3, "headers": column})))
    assert decoded.column("headers").to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        [],
        [],
    ]


@given(record_lists, st.integers(0, 30), st.integers(0, 30))
@settings(deadline=None)
def test_slices_and_chunks_of_a_table_are_seen_as_they_are(
    records: list[Record], start: int, length: int
):
    table = table_of(records)
    pieces = pa.concat_tables([table.slice(start, length), table, table.slice(start)])
    assert pieces.column("value").num_chunks == 3
    expected = records[start : start + length] + records + records[start:]
    assert [row.record for row in rows(decode(encode(pieces)))] == expected


def test_a_record_batch_will_do():
    (batch,) = VALUES.to_batches()
    assert encode(batch) == encode(VALUES)


def test_what_was_decoded_can_be_encoded():
    batches = encode(VALUES, base_offset=5)
    assert encode(decode(batches), base_offset=5) == batches


def test_the_result_can_be_stamped_in_place():
    batches = encode(VALUES, codec=Codec.LZ4)
    stamp(batches, 90, 2)
    (header,) = headers_of(batches)
    assert (header.base_offset, header.leader_epoch) == (90, 2)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param(pa.table({"key": [b"k"]}), "column `value`", id="no value"),
        pytest.param(pa.table({"value": [b""], "Key": [b"k"]}), "Key", id="unknown column"),
        pytest.param(pa.table({"value": [1.5]}), "`value` is double", id="number for bytes"),
        pytest.param(
            pa.table({"value": [b""], "timestamp": [[1]]}), "`timestamp`", id="list for time"
        ),
        pytest.param(
            pa.table({"value": [b""], "headers": ["h"]}), "`headers`", id="text for headers"
        ),
        pytest.param(
            pa.table({"value": [b""], "timestamp": [-2]}), "before 1970", id="time before time"
        ),
        pytest.param(
            pa.table({"value": [b""], "headers": [[{"key": None, "value": b"x"}]]}),
            "header without a key",
            id="nameless header",
        ),
    ],
)
def test_tables_that_hold_no_records_are_refused(table: pa.Table, problem: str):
    with pytest.raises(InvalidRecords, match=problem):
        encode(table)


def test_a_batch_needs_room():
    with pytest.raises(InvalidRecords, match="at least 1"):
        encode(VALUES, max_records=0)
    with pytest.raises(InvalidRecords, match="at least 1"):
        encode(VALUES, max_bytes=0)


def test_nameless_headers_outside_the_slice_do_no_harm():
    table = pa.table(
        {
            "value": [b"a", b"b"],
            "headers": [[{"key": None, "value": b"x"}], [{"key": "k", "value": b"y"}]],
        }
    )
    assert decode(encode(table.slice(1))).num_rows == 1
