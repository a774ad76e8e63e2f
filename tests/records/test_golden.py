"""What real clients wrote, byte for byte, is read as what they were asked to write."""

from pathlib import Path

import pytest

from headrace.records import (
    BatchHeader,
    RecordPosition,
    first_at_or_after,
    iterate_headers,
    validate_batch,
)
from headrace.records.arrow import decode
from tests.records.golden.records import BEGAN, EDGES, expected
from tests.records.oracles import Row, rows

GOLDEN = Path(__file__).parent / "golden"
NAMES = [path.stem for path in sorted(GOLDEN.glob("*.hex"))]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def golden(name: str) -> bytes:
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text())


def only_header(batch: bytes) -> BatchHeader:
    ((_, header),) = iterate_headers(batch)
    return header


def test_every_client_and_codec_is_there():
    clients = ["aiokafka", "java", "librdkafka"]
    batches = [f"{client}-{codec}" for client in clients for codec in CODECS]
    assert sorted([*batches, "librdkafka-transaction"]) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_batch_is_valid(name: str):
    batches = golden(name)
    for position, header in iterate_headers(batches):
        validate_batch(batches, header, position)


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_batch_is_decoded(name: str):
    _, _, codec = name.partition("-")
    records = EDGES if codec == "transaction" else expected(codec)
    decoded = decode(golden(name), verify_crc=True)
    decoded.validate(full=True)
    assert rows(decoded) == [Row(offset, record) for offset, record in enumerate(records)]


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_batch_is_searched_by_time(name: str):
    assert first_at_or_after(golden(name), BEGAN + 6) == RecordPosition(3, BEGAN + 10)


@pytest.mark.parametrize("client", ["aiokafka", "java", "librdkafka"])
@pytest.mark.parametrize(("codec", "name"), list(enumerate(CODECS)))
def test_a_golden_header_says_what_was_asked_for(client: str, codec: int, name: str):
    header = only_header(golden(f"{client}-{name}"))
    assert header.codec == codec
    assert header.base_offset == 0
    assert header.record_count == len(expected(name))
    assert header.base_timestamp == BEGAN
    assert header.max_timestamp == max(record.timestamp or 0 for record in expected(name))


def test_a_golden_transaction_ends_with_its_marker():
    batches = golden("librdkafka-transaction")
    (_, data), (_, marker) = iterate_headers(batches)
    assert data.is_transactional
    assert not data.is_control
    assert marker.is_control
    assert marker.producer_id == data.producer_id
    assert marker.base_offset == data.next_offset
    assert decode(batches).num_rows == data.record_count
    assert decode(batches, control=True).num_rows == data.record_count + 1
