"""Segments that are no longer what was written: what is found, and what is still believed."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headrace.log import SYSTEM_DISK
from headrace.log.epochs import EpochStart, LeaderEpochs
from headrace.log.verification import Extent, Verdict, Written, verify
from headrace.records import iterate_headers, stamp
from tests.log.batches import NOW, make_batch
from tests.log.simulated_disk import SimulatedDisk

PATH = Path("/log/00000000000000000000.log")


def batch(offset: int, *, count: int = 1, epoch: int = 0, value: bytes = b"value") -> bytes:
    made = make_batch([NOW] * count, value=value)
    stamp(made, offset, epoch)
    return bytes(made)


def judge(data: bytes, end_offset: int, epochs: LeaderEpochs | None = None) -> Verdict:
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    descriptor = disk.create(PATH)
    disk.pwrite(descriptor, data, 0)
    written = Written(0, Extent(len(data), end_offset), epochs or LeaderEpochs(), 200)
    return verify(disk, PATH, written)


def lost(verdict: Verdict) -> list[tuple[int, int]]:
    return [(damage.first_offset, damage.next_offset) for damage in verdict.damage]


def test_an_intact_segment_needs_no_new_index() -> None:
    verdict = judge(batch(0, count=3) + batch(3) + batch(4, count=2), 6)
    assert verdict.damage == ()
    assert verdict.sparse_index is None


def test_offsets_may_be_missing_where_records_were_removed() -> None:
    assert lost(judge(batch(2) + batch(7) + batch(40), 50)) == []


def test_a_batch_that_claims_a_later_offset_is_found_where_none_is_missing() -> None:
    data = batch(0) + batch(1 + 64) + batch(2) + batch(3)
    assert lost(judge(data, 4)) == [(1, 2)]


def test_the_last_batch_cannot_reach_beyond_the_segment() -> None:
    assert lost(judge(batch(0) + batch(1) + batch(2 + 64), 3)) == [(2, 3)]


def test_where_offsets_are_missing_two_batches_that_contradict_each_other_are_both_doubted() -> (
    None
):
    data = batch(0) + batch(20) + batch(14) + batch(40)
    assert lost(judge(data, 50)) == [(1, 40)]


def test_a_batch_that_goes_back_is_the_one_at_fault_if_nothing_is_missing_before_it() -> None:
    data = batch(0) + batch(1) + batch(0) + batch(30)
    assert lost(judge(data, 50)) == [(2, 30)]


def test_a_wrong_epoch_is_damage() -> None:
    epochs = LeaderEpochs([EpochStart(0, 0), EpochStart(1, 2)])
    data = batch(0) + batch(1) + batch(2, epoch=0) + batch(3, epoch=1)
    assert lost(judge(data, 4, epochs)) == [(2, 3)]


def test_several_damages_are_told_apart() -> None:
    whole = [batch(number) for number in range(8)]
    for number in (1, 2, 5):
        whole[number] = whole[number][:-3] + b"???"
    verdict = judge(b"".join(whole), 8)
    assert lost(verdict) == [(1, 3), (5, 6)]
    assert verdict.sparse_index is not None
    size = len(whole[0])
    assert [damage.position for damage in verdict.damage] == [size, 5 * size]
    assert [damage.end for damage in verdict.damage] == [3 * size, 6 * size]
    assert {3 * size, 6 * size} <= set(verdict.sparse_index.positions)


def test_a_copy_of_a_batch_in_a_value_is_not_taken_for_one() -> None:
    inner = batch(1) + b"more of the value"
    outer = batch(0, value=inner)
    damaged = outer[:12] + b"\xff" + outer[13:]
    damaged = damaged[:8] + b"\x00\x00\xff\x00" + damaged[12:]
    assert lost(judge(damaged + batch(1) + batch(2), 3)) == [(0, 1)]


def test_a_file_that_cannot_be_read_is_damaged_as_a_whole(tmp_path: Path) -> None:
    written = Written(7, Extent(100, 20), LeaderEpochs(), 200)
    (damage,) = verify(SYSTEM_DISK, tmp_path / "missing.log", written).damage
    assert (damage.first_offset, damage.next_offset) == (7, 20)
    assert "cannot open" in damage.problem


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    garbage=st.binary(min_size=1, max_size=300),
    data=st.data(),
)
def test_what_is_believed_was_written_whatever_replaces_a_piece_of_the_file(
    counts: list[int], garbage: bytes, data: st.DataObject
) -> None:
    offset, parts = 0, []
    for count in counts:
        parts.append(batch(offset, count=count, value=b"%d" % offset))
        offset += count
    original = b"".join(parts)
    at = data.draw(st.integers(0, len(original) - 1), "at")
    changed = original[:at] + garbage[: len(original) - at] + original[at + len(garbage) :]
    verdict = judge(changed, offset)
    places = dict(iterate_headers(original))
    believed = 0
    for damage in (*verdict.damage, None):
        end = damage.position if damage is not None else len(changed)
        for position, header in iterate_headers(changed, believed, end):
            assert original[position : position + header.size] == changed[position:][: header.size]
            assert places[position] == header
        believed = damage.end if damage is not None else end
