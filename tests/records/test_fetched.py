"""The batches of a Fetch response, and which of them count."""

import pyarrow as pa
import pytest

from headrace.records import (
    Marker,
    Record,
    TruncatedBatch,
    UnsupportedMagic,
    build_batch,
    build_marker,
    stamp,
)
from headrace.records.arrow import committed_parts, decode, fetched


def batch(offset: int, producer_id: int = -1, records: int = 2) -> bytes:
    """Records that say who wrote them; of a transaction if a producer is named."""
    transactional = producer_id >= 0
    return bytes(
        build_batch(
            [Record(None, f"{producer_id}@{offset}".encode(), 0, ())] * records,
            timestamp=0,
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0 if transactional else -1,
            base_sequence=0 if transactional else -1,
            transactional=transactional,
        )
    )


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    built = build_marker(Marker(producer_id, 0, 0, commit), 0)
    stamp(built, offset, 0)
    return bytes(built)


def values(parts: list[memoryview]) -> list[str]:
    decoded = pa.concat_tables(decode(part) for part in parts)
    return [value.decode() for value in decoded["value"].to_pylist()[::2]]


def test_reading_goes_on_behind_the_last_whole_batch() -> None:
    whole = batch(10) + batch(12, records=3)
    found = fetched(memoryview(whole + batch(15)[:-1]))
    assert found is not None
    assert found.next_offset == 15
    assert bytes(found.batches) == whole


def test_nothing_and_less_than_a_batch_are_no_batches() -> None:
    assert fetched(memoryview(b"")) is None
    with pytest.raises(TruncatedBatch):
        fetched(memoryview(batch(0)[:40]))


def test_an_older_format_is_refused() -> None:
    old = bytearray(batch(0))
    old[16] = 1
    with pytest.raises(UnsupportedMagic):
        fetched(memoryview(old))


def test_only_the_batches_of_aborted_transactions_are_left_out() -> None:
    log = (
        batch(0, 1)
        + batch(2, 2)
        + batch(4)
        + marker(6, 1, commit=False)
        + batch(7, 1)
        + batch(9, 2)
        + marker(11, 2, commit=True)
        + marker(12, 1, commit=True)
    )
    assert values(committed_parts(memoryview(log), [(1, 0)])) == ["2@2", "-1@4", "1@7", "2@9"]


def test_a_producer_can_abort_again_and_again() -> None:
    log = (
        batch(0, 1)
        + marker(2, 1, commit=False)
        + batch(3, 1)
        + marker(5, 1, commit=True)
        + batch(6, 1)
        + marker(8, 1, commit=False)
    )
    assert values(committed_parts(memoryview(log), [(1, 6), (1, 0)])) == ["1@3"]


def test_what_began_before_the_bytes_is_aborted_in_them_too() -> None:
    log = batch(5, 1) + marker(7, 1, commit=False) + batch(8)
    assert values(committed_parts(memoryview(log), [(1, 1)])) == ["-1@8"]


def test_without_aborted_transactions_nothing_is_looked_at() -> None:
    log = memoryview(b"anything")
    assert committed_parts(log, []) == [log]
