"""What leaves a log, when, and what readers notice of it."""

import errno
from pathlib import Path
from random import Random

import pytest

from headrace.clock import ManualClock
from headrace.log import LogSettings, PartitionLog
from headrace.log.errors import LogClosed, OffsetOutOfRange, StorageFailed, StorageFull
from headrace.log.producers import EXPIRY_MS
from tests.log.batches import (
    DIRECTORY,
    NOW,
    append,
    append_idempotent,
    make_batch,
    new_disk,
    open_log,
    read_headers,
)
from tests.log.simulated_disk import SimulatedDisk

SIZE = len(make_batch())
FOUR = 4 * SIZE
"""A segment of four batches with one record each."""


@pytest.fixture
def disk() -> SimulatedDisk:
    return new_disk()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


def segments(disk: SimulatedDisk) -> list[int]:
    return sorted(int(path.stem) for path in disk.files() if path.suffix == ".log")


def make_log(
    disk: SimulatedDisk, clock: ManualClock, *, retention_ms: int = -1, retention_bytes: int = -1
) -> PartitionLog:
    """A log of ten batches, a second apart by their timestamps, four to a segment."""
    settings = LogSettings(
        segment_bytes=FOUR, retention_ms=retention_ms, retention_bytes=retention_bytes
    )
    log = open_log(disk, settings, clock=clock)
    for number in range(10):
        append(log, make_batch([NOW + 1000 * number]))
    log.advance(log.flush())
    return log


def test_without_limits_everything_stays(disk: SimulatedDisk, clock: ManualClock) -> None:
    log = make_log(disk, clock)
    clock.advance(1e9)
    assert not log.enforce_retention()
    assert log.start_offset == 0


def test_a_segment_goes_when_its_newest_record_is_too_old(
    disk: SimulatedDisk, clock: ManualClock
) -> None:
    log = make_log(disk, clock, retention_ms=60_000)
    clock.advance(63)
    assert not log.enforce_retention(), "the newest record of the first is exactly a minute old"
    clock.advance(0.001)
    retired = log.enforce_retention()
    assert (retired.segments, retired.bytes) == (1, FOUR)
    assert log.start_offset == 4
    assert log.size == 6 * SIZE
    retired.remove()
    assert segments(disk) == [4, 8]


def test_only_the_reader_whose_offset_is_gone_is_told(
    disk: SimulatedDisk, clock: ManualClock
) -> None:
    log = make_log(disk, clock, retention_ms=60_000)
    clock.advance(64)
    log.enforce_retention().remove()
    with pytest.raises(OffsetOutOfRange):
        log.read(3, 1000)
    assert [header.base_offset for header in read_headers(log, 5)] == [5, 6, 7, 8, 9]


def test_the_active_segment_goes_too_once_all_of_it_is_old(
    disk: SimulatedDisk, clock: ManualClock
) -> None:
    log = make_log(disk, clock, retention_ms=60_000)
    clock.advance(100)
    retired = log.enforce_retention()
    assert retired.segments == 3
    retired.remove()
    assert (log.start_offset, log.end_offset, log.size) == (10, 10, 0)
    assert segments(disk) == [10]
    assert not log.enforce_retention(), "an empty segment is never old"
    assert append(log, make_batch()).base_offset == 10
    log.close()
    log = open_log(disk, log.settings, clock=clock)
    assert (log.start_offset, log.end_offset) == (10, 11)


def test_segments_go_while_enough_remains(disk: SimulatedDisk, clock: ManualClock) -> None:
    log = make_log(disk, clock, retention_bytes=6 * SIZE)
    log.enforce_retention().remove()
    assert log.start_offset == 4
    log.reconfigure(LogSettings(retention_ms=-1, retention_bytes=2 * SIZE + 1))
    assert not log.enforce_retention()
    log.reconfigure(LogSettings(retention_ms=-1, retention_bytes=2 * SIZE))
    log.enforce_retention().remove()
    assert log.start_offset == 8
    log.reconfigure(LogSettings(retention_ms=-1, retention_bytes=0))
    log.enforce_retention().remove()
    assert log.start_offset == 10


def test_a_compacted_topic_keeps_everything(disk: SimulatedDisk, clock: ManualClock) -> None:
    log = make_log(disk, clock)
    log.reconfigure(LogSettings(retention_ms=0, retention_bytes=0, delete=False))
    clock.advance(1e6)
    assert not log.enforce_retention()


def test_nothing_goes_that_readers_have_not_seen(disk: SimulatedDisk, clock: ManualClock) -> None:
    log = open_log(disk, LogSettings(segment_bytes=FOUR, retention_ms=1000), clock=clock)
    for _ in range(10):
        append(log, make_batch())
    clock.advance(100)
    assert not log.enforce_retention()
    log.advance(5)
    assert log.enforce_retention().segments == 1


def test_records_without_time_are_as_old_as_what_follows(
    disk: SimulatedDisk, clock: ManualClock
) -> None:
    log = open_log(disk, LogSettings(segment_bytes=SIZE, retention_ms=10_000), clock=clock)
    append(log, make_batch([-1]))
    clock.advance(20)
    append(log, make_batch([-1]))
    log.advance(log.flush())
    assert not log.enforce_retention(), "the second segment began just now"
    clock.advance(11)
    assert log.enforce_retention().segments == 1


def test_ages_are_known_after_a_restart_without_reading(
    disk: SimulatedDisk, clock: ManualClock
) -> None:
    log = make_log(disk, clock, retention_ms=60_000)
    log.close()
    clock.advance(64)
    log = open_log(disk, log.settings, clock=clock)
    reads = disk.calls["pread"]
    assert log.enforce_retention().segments == 1
    assert disk.calls["pread"] == reads


def test_deleted_records_stay_deleted(disk: SimulatedDisk, clock: ManualClock) -> None:
    log = make_log(disk, clock)
    assert log.delete_records(6) == 6
    assert log.delete_records(2) == 6, "the start never goes back"
    for seed in range(10):
        survivor = open_log(disk.after_power_loss(Random(seed)), log.settings, clock=clock)
        assert survivor.start_offset == 6
        assert [header.base_offset for header in read_headers(survivor, 6)] == [6, 7, 8, 9]
    retired = log.enforce_retention()
    assert retired.segments == 1
    retired.remove()
    assert segments(disk) == [4, 8]


def test_everything_can_be_deleted(disk: SimulatedDisk, clock: ManualClock) -> None:
    log = make_log(disk, clock)
    assert log.delete_records(10) == 10
    assert log.read(10, 100).length == 0
    assert append(log, make_batch()).base_offset == 10
    log.close()
    assert open_log(disk, log.settings).start_offset == 10


def test_records_that_nobody_can_see_cannot_be_deleted(
    disk: SimulatedDisk, clock: ManualClock
) -> None:
    log = make_log(disk, clock)
    append(log, make_batch())
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(11)
    assert log.start_offset == 0


def test_files_that_were_not_removed_come_back_whole(
    disk: SimulatedDisk, clock: ManualClock
) -> None:
    log = make_log(disk, clock, retention_ms=60_000)
    clock.advance(69)
    log.enforce_retention()
    assert log.start_offset == 8
    log = open_log(disk.after_kill(), log.settings, clock=clock)
    assert log.start_offset == 0
    assert [header.base_offset for header in read_headers(log, 0)] == list(range(10))


def test_a_removal_cut_short_by_a_power_loss_leaves_no_hole(
    disk: SimulatedDisk, clock: ManualClock
) -> None:
    log = make_log(disk, clock, retention_ms=60_000)
    clock.advance(69)
    log.enforce_retention().remove()
    for seed in range(30):
        survivor = open_log(disk.after_power_loss(Random(seed)), log.settings, clock=clock)
        assert survivor.start_offset == 8
        assert survivor.recovery.problems == ()


def test_a_full_disk_can_still_be_emptied(disk: SimulatedDisk, clock: ManualClock) -> None:
    log = make_log(disk, clock, retention_ms=60_000)
    clock.advance(100)
    with disk.full():
        with disk.failing("create", error=errno.ENOSPC):
            retired = log.enforce_retention()
        assert retired.segments == 2, "the last one needs a successor"
        retired.remove()
        log.enforce_retention().remove()
    assert segments(disk) == [10]
    log.close()
    assert open_log(disk, log.settings, clock=clock).start_offset == 10


def test_deleting_on_a_full_disk_says_so_and_works_when_repeated(
    disk: SimulatedDisk, clock: ManualClock
) -> None:
    log = make_log(disk, clock)
    log.checkpoint()
    with disk.full():
        with pytest.raises(StorageFull):
            log.delete_records(9)
        log.enforce_retention().remove()
        assert log.delete_records(9) == 9
    assert open_log(disk.after_kill(), log.settings).start_offset == 9


def test_a_disk_that_keeps_its_files_is_reported(disk: SimulatedDisk, clock: ManualClock) -> None:
    log = make_log(disk, clock, retention_ms=60_000)
    clock.advance(64)
    retired = log.enforce_retention()
    with disk.failing("unlink"), pytest.raises(StorageFailed, match="cannot remove"):
        retired.remove()
    log.close()
    log = open_log(disk, log.settings, clock=clock)
    assert segments(disk) == [4, 8]


def test_nothing_to_remove_is_false_and_harmless(disk: SimulatedDisk, clock: ManualClock) -> None:
    log = make_log(disk, clock)
    retired = log.enforce_retention()
    assert not retired
    before = disk.calls.copy()
    retired.remove()
    assert disk.calls == before


def test_an_abandoned_log_keeps_its_retired_files(disk: SimulatedDisk, clock: ManualClock) -> None:
    log = make_log(disk, clock, retention_ms=60_000)
    clock.advance(64)
    retired = log.enforce_retention()
    log.abandon()
    retired.remove()
    assert segments(disk) == [0, 4, 8]
    with pytest.raises(LogClosed):
        log.enforce_retention()


def test_a_closed_log_lets_them_go(disk: SimulatedDisk, clock: ManualClock) -> None:
    log = make_log(disk, clock, retention_ms=60_000)
    clock.advance(64)
    retired = log.enforce_retention()
    log.close()
    retired.remove()
    assert segments(disk) == [4, 8]


def test_silent_producers_are_forgotten_on_the_occasion(
    disk: SimulatedDisk, clock: ManualClock
) -> None:
    log = open_log(disk, clock=clock)
    append_idempotent(log, 0)
    clock.advance(EXPIRY_MS / 1000 + 1)
    log.enforce_retention()
    assert len(log.producers) == 0


def test_indexes_go_with_their_segments(disk: SimulatedDisk, clock: ManualClock) -> None:
    log = make_log(disk, clock, retention_ms=60_000)
    log.checkpoint()
    index = Path("00000000000000000000.index")
    assert DIRECTORY / index in disk.files()
    clock.advance(64)
    log.enforce_retention().remove()
    assert DIRECTORY / index not in disk.files()
