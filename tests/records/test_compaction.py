"""The compiled side of compaction: which records are the latest, and what is written of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records import (
    Codec,
    CorruptBatch,
    MalformedBatch,
    Record,
    build_batch,
    iterate_headers,
    keyless_records,
    read_header,
    validate_batch,
)
from headrace.records.arrow import decode
from headrace.records.compaction import Compactor, LeftBatches, index_entries
from headrace.records.kernels import keys
from headrace.records.pieces import read_piece
from headrace.records.validate import stamp, stamp_append_time

NOW = 1_700_000_000_000
END = 1 << 40

some_keys = st.one_of(
    st.sampled_from([b"", b"\0", b"\0\0", b"12345678", b"123456789", b"12345678\0"]),
    st.binary(max_size=20),
)
batches = st.lists(
    st.tuples(
        st.lists(st.tuples(some_keys, st.none() | st.binary(max_size=9)), min_size=1, max_size=9),
        st.sampled_from(Codec),
    ),
    min_size=1,
    max_size=6,
)


def compactor(first_dirty: int = 0) -> Compactor:
    return Compactor(
        memory=1 << 20,
        first_dirty=first_dirty,
        dirty_bytes=1 << 20,
        now_ms=NOW,
        horizon_ms=NOW + 1000,
    )


def joined(left: LeftBatches) -> bytes:
    return b"".join(bytes(part) for part in left.parts)


def written(contents: list[tuple[list[tuple[bytes, bytes | None]], Codec]]) -> bytes:
    """Batches one after the other, as a segment holds them."""
    data = bytearray()
    offset = 0
    for rows, codec in contents:
        records = [
            Record(key, value, NOW - n, [("h", b"v")]) for n, (key, value) in enumerate(rows)
        ]
        data += build_batch(records, timestamp=NOW, codec=codec, base_offset=offset)
        offset += len(rows)
    return bytes(data)


def rows(data: bytes) -> list[dict[str, object]]:
    found: list[dict[str, object]] = decode(data, verify_crc=True).to_pylist()
    return found


@settings(deadline=None)
@given(contents=batches)
def test_what_is_left_is_the_last_of_each_key_unchanged(
    contents: list[tuple[list[tuple[bytes, bytes | None]], Codec]],
) -> None:
    data = written(contents)
    round_ = compactor()
    assert round_.learn(read_piece(data, 0, END))
    round_.end = sum(len(each) for each, _ in contents)
    left = round_.filter(read_piece(data, 0, END))
    result = joined(left)
    before = rows(data)
    latest = {row["key"]: row for row in before}
    assert rows(result) == sorted(latest.values(), key=lambda row: int(str(row["offset"])))
    originals = {header.base_offset: header for _, header in iterate_headers(data)}
    for position, header in iterate_headers(result):
        validate_batch(result, header, position, gaps=True)
        original = originals[header.base_offset]
        assert header.last_offset_delta == original.last_offset_delta
        assert header.codec == original.codec or header.record_count == 0
    assert round_.records_kept == len(latest)


@settings(deadline=None)
@given(contents=batches, part=st.integers(0, 6))
def test_the_clean_part_loses_what_the_dirty_part_has(
    contents: list[tuple[list[tuple[bytes, bytes | None]], Codec]], part: int
) -> None:
    # The clean part has each key once, as an earlier round would have left it.
    seen: set[bytes] = set()
    clean = []
    for each, codec in contents[:part]:
        fresh = [(key, value) for key, value in dict(each).items() if key not in seen]
        seen.update(key for key, _ in fresh)
        if fresh:
            clean.append((fresh, codec))
    data = written([*clean, *contents[part:]])
    first_dirty = sum(len(each) for each, _ in clean)
    round_ = compactor(first_dirty)
    round_.learn(read_piece(data, 0, END))
    round_.end = END
    result = joined(round_.filter(read_piece(data, 0, END)))
    latest = {row["key"]: row["offset"] for row in rows(data)}
    assert [row["offset"] for row in rows(result)] == sorted(map(int, map(str, latest.values())))


def test_keys_with_the_same_hash_are_told_apart() -> None:
    table = keys.KeyTable(
        np.zeros(2 * 8, np.uint64),
        np.zeros(1 << 10, np.uint8),
        np.zeros(keys.COUNTS, np.int64),
        np.uint64(0),
    )
    names = [b"a", b"b", b"", b"a longer key, beyond a word", b"a longer key, beyond a worD"]
    hashed = np.uint64(0xABCDEF0000000007)
    places = []
    for name in names:
        data = np.frombuffer(name, np.uint8) if name else np.zeros(0, np.uint8)
        at = keys._find(table, hashed, data, 0, len(name))
        assert table.slots[at] == 0, f"{name!r} was taken for another"
        keys._add(table, at, hashed, data, 0, len(name))
        places.append(at)
    assert len(set(places)) == len(names)
    for name, at in zip(names, places, strict=True):
        data = np.frombuffer(name, np.uint8) if name else np.zeros(0, np.uint8)
        assert keys._find(table, hashed, data, 0, len(name)) == at


def test_records_with_the_brokers_time_keep_it_behind_a_horizon() -> None:
    batch = build_batch([(b"a", b"1"), (b"b", None)], timestamp=NOW - 7)
    stamp_append_time(batch, NOW - 3)
    round_ = compactor()
    round_.learn(read_piece(batch, 0, END))
    round_.end = END
    result = joined(round_.filter(read_piece(batch, 0, END)))
    header = read_header(result)
    assert header.has_delete_horizon
    assert header.has_append_time
    assert rows(result) == rows(bytes(batch))


def test_a_piece_ends_with_the_last_whole_batch() -> None:
    data = written([([(b"a", b"1")], Codec.NONE), ([(b"b", b"2")], Codec.NONE)])
    piece = read_piece(data[:-1], 0, END)
    assert (len(piece.batches), piece.size, piece.end_offset) == (1, len(data) // 2, 1)
    assert read_piece(data[:30], 0, END).size == 0


def test_offsets_out_of_order_are_refused() -> None:
    first = build_batch([(b"a", b"1")] * 3, timestamp=NOW)
    second = build_batch([(b"a", b"1")], timestamp=NOW)
    stamp(second, 2, 0)
    with pytest.raises(MalformedBatch, match="base offset 2"):
        read_piece(bytes(first + second), 0, END)
    with pytest.raises(MalformedBatch):
        read_piece(bytes(first), 1, END)
    with pytest.raises(MalformedBatch):
        read_piece(bytes(first), 0, 2)


def test_a_flipped_bit_is_noticed_before_anything_is_learned() -> None:
    data = bytearray(written([([(b"a", b"1")], Codec.NONE)]))
    data[-2] ^= 1
    with pytest.raises(CorruptBatch):
        compactor().learn(read_piece(bytes(data), 0, END))


def test_index_entries_are_an_interval_apart() -> None:
    ends = np.array([100, 200, 300, 400, 500], np.int64)
    assert index_entries(ends, 0, 0, 250) == ([0, 3], 550)
    assert index_entries(ends, 0, 0, 0) == ([0, 1, 2, 3, 4], 400)


@given(rows=st.lists(st.none() | st.binary(max_size=200), min_size=1, max_size=20))
@pytest.mark.parametrize("codec", Codec)
def test_records_without_key_are_found(rows: list[bytes | None], codec: Codec) -> None:
    batch = build_batch([(key, b"v" * 80) for key in rows], timestamp=NOW, codec=codec)
    found = keyless_records(batch, read_header(batch))
    assert found == [number for number, key in enumerate(rows) if key is None]


def test_a_record_that_does_not_fit_is_refused_when_keys_are_looked_for() -> None:
    batch = build_batch([(b"a", b"1")], timestamp=NOW)
    batch[61] = 0x7E
    with pytest.raises(MalformedBatch):
        keyless_records(batch, read_header(batch))
