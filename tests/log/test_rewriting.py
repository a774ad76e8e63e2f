"""Swapping rewritten segments in: what readers see, what crashes leave, what is refused."""

from dataclasses import replace
from random import Random

import pytest

from headrace.clock import ManualClock
from headrace.log import LogSettings, PartitionLog
from headrace.log.checkpoint import CHECKPOINT
from headrace.log.errors import (
    LogClosed,
    OffsetOutOfRange,
    RewriteRefused,
    StorageFailed,
    StorageFull,
)
from headrace.log.manifest import MANIFEST, REWRITTEN
from headrace.records import NO_TIMESTAMP, BatchHeader, RecordPosition
from tests.log.batches import (
    DIRECTORY,
    NOW,
    append,
    append_idempotent,
    fill,
    make_batch,
    new_disk,
    open_log,
    read_headers,
)
from tests.log.rewrites import rewrite, swap
from tests.log.simulated_disk import Died, SimulatedDisk

SIZE = len(make_batch([NOW] * 3))
SEGMENTED = LogSettings(segment_bytes=4 * SIZE, index_interval_bytes=SIZE)
"""Four batches of three records to a segment: 0 to 12, 12 to 24, ..."""


@pytest.fixture
def disk() -> SimulatedDisk:
    return new_disk()


@pytest.fixture
def log(disk: SimulatedDisk) -> PartitionLog:
    """Three sealed segments and an active one."""
    log = open_log(disk, SEGMENTED)
    fill(log, 14)
    return log


def nothing(_: BatchHeader) -> bool:
    return False


def every_second(header: BatchHeader) -> bool:
    return header.base_offset % 2 == 1


def offsets(log: PartitionLog, start: int = 0) -> list[int]:
    """Where the batches begin that a reader from an offset on finds."""
    return [header.base_offset for header in read_headers(log, start)]


def merge_all(disk: SimulatedDisk, log: PartitionLog, *, tag: str = "test") -> None:
    """Swap everything that is sealed for one segment that lacks every second batch."""
    assert swap(log, [rewrite(disk, log.sealed_segments(), every_second, tag=tag)])


def leftovers(disk: SimulatedDisk) -> list[str]:
    """Files that only a swap under way has."""
    names = [path.name for path in disk.files()]
    return [name for name in names if name == MANIFEST or name.endswith(REWRITTEN)]


def test_a_swap_replaces_several_segments_by_one(disk: SimulatedDisk, log: PartitionLog) -> None:
    end, size = log.end_offset, log.size
    merge_all(disk, log)
    assert len(log.sealed_segments()) == 1
    assert offsets(log) == [3, 9, 15, 21, 27, 33, 36, 39]
    assert log.end_offset == end == 42
    assert log.size < size
    assert sorted(path.name for path in disk.files()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000036.index",
        "00000000000000000036.log",
        "checkpoint",
    ]


def test_a_reader_inside_a_gap_goes_on_with_the_next_batch(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    merge_all(disk, log)
    for offset in range(42):
        expected = [base for base in (3, 9, 15, 21, 27, 33, 36, 39) if base + 3 > offset]
        assert offsets(log, offset) == expected
    with pytest.raises(OffsetOutOfRange):
        log.read(43, 100)


def test_readers_of_the_old_files_are_not_disturbed(disk: SimulatedDisk, log: PartitionLog) -> None:
    old = log.read(0, 10 * SIZE)
    data = old.read()
    merge_all(disk, log)
    assert old.read() == data
    assert disk.after_kill().files().keys() == disk.files().keys()


def test_replaced_files_are_let_go(disk: SimulatedDisk, log: PartitionLog) -> None:
    offsets(log)
    descriptors = disk.open_descriptors
    merge_all(disk, log)
    assert disk.open_descriptors < descriptors


def test_a_segment_without_records_keeps_its_end(disk: SimulatedDisk, log: PartitionLog) -> None:
    segments = log.sealed_segments()
    assert swap(log, [rewrite(disk, segments[1:2], nothing)])
    headers = list(read_headers(log, 0))
    assert [header.base_offset for header in headers] == [0, 3, 6, 9, 21, 24, 27, 30, 33, 36, 39]
    assert headers[4].record_count == 0
    assert headers[4].next_offset == 24
    assert log.sealed_segments()[1].max_timestamp == NO_TIMESTAMP


def test_the_log_can_be_opened_again(disk: SimulatedDisk, log: PartitionLog) -> None:
    merge_all(disk, log)
    before = offsets(log)
    log.close()
    again = open_log(disk, SEGMENTED)
    assert again.recovery.clean
    assert again.recovery.scanned_bytes == 0
    assert offsets(again) == before
    assert append(again, make_batch()).base_offset == 42


def test_without_a_checkpoint_gaps_are_understood(disk: SimulatedDisk, log: PartitionLog) -> None:
    merge_all(disk, log)
    segments = log.sealed_segments()
    before = offsets(log)
    log.close()
    disk.file(DIRECTORY / CHECKPOINT).data[20] ^= 1
    again = open_log(disk, SEGMENTED)
    assert again.recovery.truncated_bytes == 0
    assert offsets(again) == before
    assert [each.known()[:4] for each in again.sealed_segments()] == [
        each.known()[:4] for each in segments
    ]


def test_without_a_checkpoint_an_offset_beyond_the_next_segment_is_damage(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    merge_all(disk, log)
    log.close()
    disk.unlink(DIRECTORY / CHECKPOINT)
    # The last batch begins at 33; its offset is not covered by a checksum.
    last = disk.file(DIRECTORY / "00000000000000000000.log").data
    last[len(last) - SIZE + 6] = 1
    again = open_log(disk, SEGMENTED)
    assert again.recovery.truncated_from == 30


def test_records_are_found_by_time_across_gaps(disk: SimulatedDisk, log: PartitionLog) -> None:
    # Batch number n has the time NOW + n and begins at offset 3 n; the even ones go.
    merge_all(disk, log)
    for number in range(12):
        kept = number | 1
        assert log.offset_for_time(NOW + number) == RecordPosition(3 * kept, NOW + kept)
    assert log.max_timestamp() == RecordPosition(39, NOW + 13)


def test_an_emptied_batch_has_no_time(disk: SimulatedDisk) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 8)
    log.advance(log.flush())
    append(log, make_batch([NOW - 5]))
    log.advance(log.flush())
    assert swap(log, [rewrite(disk, log.sealed_segments(), nothing)])
    assert log.max_timestamp() == RecordPosition(24, NOW - 5)
    assert log.offset_for_time(NOW) is None


def test_retention_takes_a_rewritten_segment(disk: SimulatedDisk) -> None:
    clock = ManualClock(NOW)
    settings = LogSettings(
        segment_bytes=4 * SIZE, index_interval_bytes=SIZE, retention_ms=1000, segment_ms=10**9
    )
    log = open_log(disk, settings, clock=clock)
    fill(log, 14)
    merge_all(disk, log)
    clock.advance(1.5)
    append(log, make_batch([clock.now_ms()]))
    log.advance(log.flush())
    retired = log.enforce_retention()
    assert retired.segments == 1
    assert log.start_offset == 36
    retired.remove()
    assert open_log(disk.after_kill(), settings).start_offset == 36


def test_a_power_loss_after_a_swap_changes_nothing(disk: SimulatedDisk, log: PartitionLog) -> None:
    merge_all(disk, log)
    before = offsets(log)
    for seed in range(30):
        assert offsets(open_log(disk.after_power_loss(Random(seed)), SEGMENTED)) == before


def test_a_crash_at_any_step_leaves_the_old_files_or_the_new_ones() -> None:
    outcomes = set()
    for steps in range(200):
        disk = new_disk()
        log = open_log(disk, SEGMENTED)
        fill(log, 14)
        append_idempotent(log, 0)
        log.advance(log.flush())
        old = offsets(log)
        segments = log.sealed_segments()
        disk.die_after(steps)
        try:
            # Two replacements in one swap: neither may come without the other.
            swap(
                log,
                [
                    rewrite(disk, segments[:1], nothing),
                    rewrite(disk, segments[1:], every_second),
                ],
            )
            died = False
        except Died:
            died = True
        new = [9, 15, 21, 27, 33, 36, 39, 42]
        survivors = [disk.after_kill()]
        survivors += [disk.after_power_loss(Random(1000 * steps + seed)) for seed in range(12)]
        for survivor in survivors:
            again = open_log(survivor, SEGMENTED)
            found = offsets(again)
            assert found in (old, new)
            assert died or found == new
            assert again.end_offset == 43
            assert again.recovery.truncated_bytes == 0
            assert again.recovery.problems == ()
            assert leftovers(survivor) == []
            assert append_idempotent(again, 0).duplicate
            outcomes.add((died, found == new))
            # What recovery did survives the next crash too.
            assert offsets(open_log(survivor.after_power_loss(Random(steps)), SEGMENTED)) == found
        if not died:
            break
    else:
        pytest.fail("the swap never came to its end")
    assert outcomes == {(True, False), (True, True), (False, True)}


def test_a_crash_while_recovery_carries_a_swap_out_does_no_harm() -> None:
    disk = new_disk()
    log = open_log(disk, SEGMENTED)
    fill(log, 14)
    swapping = log.swap([rewrite(disk, log.sealed_segments(), every_second)])
    swapping.prepare()
    for steps in range(60):
        crashed = disk.after_power_loss(Random(0))
        crashed.die_after(steps)
        try:
            open_log(crashed, SEGMENTED)
            died = False
        except Died:
            died = True
        for seed in range(6):
            again = open_log(crashed.after_power_loss(Random(seed)), SEGMENTED)
            assert offsets(again) == [3, 9, 15, 21, 27, 33, 36, 39]
            assert again.recovery.truncated_bytes == 0
        if not died:
            return
    pytest.fail("recovery never came to its end")


def test_a_damaged_manifest_is_reported_and_forgotten(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    old = offsets(log)
    swapping = log.swap([rewrite(disk, log.sealed_segments(), every_second)])
    swapping.prepare()
    disk.file(DIRECTORY / MANIFEST).data[30] ^= 1
    again = open_log(disk.after_kill(), SEGMENTED)
    assert offsets(again) == old
    assert "no segments are swapped" in again.recovery.problems[0]


def test_a_segment_that_left_the_log_is_not_swapped(disk: SimulatedDisk, log: PartitionLog) -> None:
    swapping = log.swap([rewrite(disk, log.sealed_segments(), every_second)])
    swapping.prepare()
    log.delete_records(14)
    assert not swapping.commit()
    swapping.finish()
    assert offsets(log, 14) == [12, 15, 18, 21, 24, 27, 30, 33, 36, 39]
    assert leftovers(disk) == []


def test_a_segment_whose_files_are_gone_is_not_swapped(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    swapping = log.swap([rewrite(disk, log.sealed_segments(), every_second)])
    log.delete_records(14)
    log.enforce_retention().remove()
    with pytest.raises(StorageFailed):
        swapping.prepare()
    swapping.finish()
    assert offsets(log, 14) == [12, 15, 18, 21, 24, 27, 30, 33, 36, 39]
    assert leftovers(disk) == []


def test_retention_and_a_crash_between_the_steps(disk: SimulatedDisk, log: PartitionLog) -> None:
    swapping = log.swap([rewrite(disk, log.sealed_segments(), every_second)])
    swapping.prepare()
    log.delete_records(14)
    log.enforce_retention().remove()
    for seed in range(10):
        again = open_log(disk.after_power_loss(Random(seed)), SEGMENTED)
        assert again.start_offset == 14
        assert offsets(again, 14) == [15, 21, 27, 33, 36, 39]


def test_appends_and_rolls_go_on_meanwhile(disk: SimulatedDisk, log: PartitionLog) -> None:
    swapping = log.swap([rewrite(disk, log.sealed_segments(), every_second)])
    fill(log, 5)
    swapping.prepare()
    fill(log, 5)
    assert swapping.commit()
    fill(log, 5)
    swapping.finish()
    assert offsets(log) == [3, 9, 15, 21, 27, 33, *range(36, 87, 3)]
    assert offsets(open_log(disk.after_kill(), SEGMENTED)) == offsets(log)


def test_a_checkpoint_between_the_steps_does_no_harm(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    swapping = log.swap([rewrite(disk, log.sealed_segments(), every_second)])
    swapping.prepare()
    log.checkpoint()
    assert swapping.commit()
    for crash in (disk.after_kill(), disk.after_power_loss(Random(3))):
        assert offsets(open_log(crash, SEGMENTED)) == [3, 9, 15, 21, 27, 33, 36, 39]


def test_a_closed_log_is_left_to_whoever_opens_it(disk: SimulatedDisk, log: PartitionLog) -> None:
    swapping = log.swap([rewrite(disk, log.sealed_segments(), every_second)])
    swapping.prepare()
    log.close()
    assert not swapping.commit()
    swapping.finish()
    assert offsets(open_log(disk, SEGMENTED)) == [3, 9, 15, 21, 27, 33, 36, 39]
    late = log.swap([])
    with pytest.raises(LogClosed):
        late.prepare()


def test_two_swaps_at_once_do_not_mix(disk: SimulatedDisk, log: PartitionLog) -> None:
    segments = log.sealed_segments()
    first = log.swap([rewrite(disk, segments[:1], nothing, tag="one")])
    second = log.swap([rewrite(disk, segments, every_second, tag="two")])
    first.prepare()
    with pytest.raises(RewriteRefused):
        second.prepare()
    second.finish()
    assert first.commit()
    first.finish()
    third = log.swap([rewrite(disk, segments[1:], every_second, tag="three")])
    third.prepare()
    assert third.commit()
    third.finish()
    assert offsets(log) == [9, 15, 21, 27, 33, 36, 39]
    assert leftovers(disk) == []


def test_a_segment_that_was_swapped_before_is_not_swapped(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    segments = log.sealed_segments()
    stale = log.swap([rewrite(disk, segments, every_second, tag="stale")])
    assert swap(log, [rewrite(disk, segments[:1], nothing)])
    stale.prepare()
    assert not stale.commit()
    stale.finish()
    assert offsets(log) == [9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39]
    assert leftovers(disk) == []


def test_files_that_end_elsewhere_are_refused(disk: SimulatedDisk, log: PartitionLog) -> None:
    first, second, _ = log.sealed_segments()
    rewritten = replace(rewrite(disk, [first], every_second), replaces=[first, second])
    swapping = log.swap([rewritten])
    with pytest.raises(RewriteRefused, match="with offset 12 instead of"):
        swapping.prepare()
    swapping.finish()
    assert offsets(log)[0] == 0
    assert leftovers(disk) == []


def test_a_full_disk_stops_a_swap_but_not_the_log(disk: SimulatedDisk, log: PartitionLog) -> None:
    log.checkpoint()
    old = offsets(log)
    swapping = log.swap([rewrite(disk, log.sealed_segments(), every_second)])
    with disk.full():
        with pytest.raises(StorageFull):
            swapping.prepare()
        swapping.finish()
    assert offsets(log) == old
    assert leftovers(disk) == []
    merge_all(disk, log)


def test_a_swap_that_could_not_be_finished_is_finished_by_the_next(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    swapping = log.swap([rewrite(disk, log.sealed_segments(), every_second)])
    swapping.prepare()
    assert swapping.commit()
    with disk.full(), pytest.raises(StorageFull):
        swapping.finish()
    assert offsets(open_log(disk.after_kill(), SEGMENTED))[0] == 3
    fill(log, 8)
    merge_all(disk, log, tag="next")
    assert offsets(open_log(disk.after_kill(), SEGMENTED)) == offsets(log)


def test_a_rename_that_fails_stops_the_log_until_it_is_opened_again(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    swapping = log.swap([rewrite(disk, log.sealed_segments(), every_second)])
    swapping.prepare()
    with disk.failing("replace"), pytest.raises(StorageFailed):
        swapping.commit()
    assert log.failure is not None
    log.abandon()
    swapping.finish()
    assert offsets(open_log(disk, SEGMENTED)) == [3, 9, 15, 21, 27, 33, 36, 39]
