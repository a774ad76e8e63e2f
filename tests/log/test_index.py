"""The sparse index against a search through everything."""

from bisect import bisect_right
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.errors import CorruptFile, UnsupportedFormat
from headrace.log.framing import FileFormat, write_framed
from headrace.log.index import Place, RecentBatches, SparseIndex
from headrace.log.index_file import INDEX_FORMAT, IndexFile
from tests.log.batches import new_disk

BASE = 5_000_000_000
PATH = Path("/data/00000000005000000000.index")

rows = st.lists(
    st.tuples(st.integers(1, 1000), st.integers(61, 5000), st.integers(-1, 1000)), max_size=30
)


def build(steps: list[tuple[int, int, int]]) -> tuple[SparseIndex, list[tuple[int, int, int]]]:
    """An index of batches with these record counts, sizes and timestamps, and the same in full."""
    index = SparseIndex(BASE)
    offset, position, newest = BASE, 0, -1
    entries = []
    for count, size, timestamp in steps:
        index.add(offset, position, newest)
        entries.append((offset, position, newest))
        offset, position, newest = offset + count, position + size, max(newest, timestamp)
    return index, entries


def contents(index: SparseIndex) -> list[tuple[int, int, int]]:
    offsets = [BASE + offset for offset in index.offsets]
    return list(zip(offsets, index.positions, index.timestamps, strict=True))


@given(rows, st.integers(0, 30_000))
def test_offsets_and_positions_are_found(steps: list[tuple[int, int, int]], ahead: int) -> None:
    index, entries = build(steps)
    below = [entry for entry in entries if entry[0] <= BASE + ahead]
    expected = Place(*below[-1][:2]) if below else Place(BASE, 0)
    assert index.at_or_below_offset(BASE + ahead) == expected
    positions = [entry[1] for entry in entries if entry[1] <= ahead]
    assert index.boundary_below(ahead) == (positions[-1] if positions else 0)


@given(rows, st.integers(-1, 1001))
def test_a_time_is_not_before_its_place(steps: list[tuple[int, int, int]], time: int) -> None:
    index, entries = build(steps)
    place = index.before_time(time)
    newest = list(accumulate((step[2] for step in steps), max, initial=-1))
    before = [entry for entry, old in zip(entries, newest, strict=False) if old < time]
    assert place == (Place(*before[-1][:2]) if before else Place(BASE, 0))


@given(rows, st.integers(0, 31))
def test_entries_are_stored_and_read_in_runs(steps: list[tuple[int, int, int]], cut: int) -> None:
    index, entries = build(steps)
    cut = min(cut, len(entries))
    read = SparseIndex(BASE)
    read.extend(index.encode(0, cut))
    read.extend(index.encode(cut, len(entries)))
    assert contents(read) == entries == contents(index)
    assert read.is_ordered()


@given(rows, st.integers(0, 40_000))
def test_entries_beyond_a_position_can_be_forgotten(
    steps: list[tuple[int, int, int]], position: int
) -> None:
    index, entries = build(steps)
    kept = [entry for entry in entries if entry[1] < position]
    assert index.truncate(position) == (len(kept) < len(entries))
    assert contents(index) == kept


@pytest.mark.parametrize(
    "entries",
    [
        [(0, 0, -1), (0, 100, 5)],
        [(0, 0, -1), (5, 0, 5)],
        [(0, 0, 9), (5, 100, 8)],
    ],
)
def test_entries_that_go_back_are_noticed(entries: list[tuple[int, int, int]]) -> None:
    index = SparseIndex(BASE)
    for offset, position, timestamp in entries:
        index.add(BASE + offset, position, timestamp)
    assert not index.is_ordered()


def test_a_file_grows_with_its_index_and_is_read_back() -> None:
    disk = new_disk()
    index, entries = build([(1, 100, n) for n in range(50)])
    file = IndexFile(disk, PATH)
    for count in (0, 10, 10, 11, 50):
        file.save(index, count)
        assert file.saved_entries == count
    loaded = IndexFile(disk, PATH)
    assert contents(loaded.load(BASE)) == entries
    assert loaded.saved_entries == 50
    assert disk.open_descriptors == 0


def test_a_file_whose_growth_was_interrupted_is_written_afresh() -> None:
    disk = new_disk()
    index, entries = build([(1, 100, n) for n in range(50)])
    file = IndexFile(disk, PATH)
    file.save(index, 10)
    with disk.full(room=100), pytest.raises(OSError, match="No space"):
        file.save(index, 50)
    with pytest.raises(CorruptFile):
        IndexFile(disk, PATH).load(BASE)
    file.save(index, 50)
    assert contents(IndexFile(disk, PATH).load(BASE)) == entries


def test_a_doubtful_file_is_refused() -> None:
    disk = new_disk()
    file = IndexFile(disk, PATH)
    with pytest.raises(FileNotFoundError):
        file.load(BASE)
    write_framed(disk, PATH, FileFormat(INDEX_FORMAT.magic, 2), [])
    with pytest.raises(UnsupportedFormat):
        file.load(BASE)
    write_framed(disk, PATH, INDEX_FORMAT, [bytes(17)])
    with pytest.raises(CorruptFile, match="part of an entry"):
        file.load(BASE)
    write_framed(disk, PATH, INDEX_FORMAT, [bytes(32)])
    with pytest.raises(CorruptFile, match="out of order"):
        file.load(BASE)


def test_the_latest_batches_are_all_remembered() -> None:
    recent = RecentBatches()
    assert not recent.reaches(0)
    assert not recent.reaches_position(0)
    places = [(number * 3, number * 100) for number in range(1000)]
    for offset, position in places:
        recent.add(offset, position)
        assert len(recent.offsets) <= 2 * RecentBatches.KEPT
    for offset, position in places[-RecentBatches.KEPT :]:
        for inside in range(3):
            assert recent.reaches(offset + inside)
            assert recent.position_of(offset + inside) == position
        assert recent.reaches_position(position + 99)
        assert recent.boundary_below(position + 99) == position
    assert not recent.reaches(0)


def test_a_lookup_agrees_with_bisect_on_a_large_index() -> None:
    index, entries = build([(7, 4096, number) for number in range(10_000)])
    offsets = [entry[0] for entry in entries]
    for ahead in range(0, 70_000, 997):
        expected = entries[bisect_right(offsets, BASE + ahead) - 1][:2]
        assert index.at_or_below_offset(BASE + ahead) == expected
    assert index.memory == 160_000
