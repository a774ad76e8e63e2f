"""Opening a log whose segments are missing, shortened, or not its own."""

import pytest

from headrace.log import Append
from tests.log.batches import (
    DIRECTORY,
    append,
    append_idempotent,
    fill,
    make_batch,
    new_disk,
    open_log,
)
from tests.log.recovering import FIRST, SEGMENTED, SIZE, kill, offsets
from tests.log.simulated_disk import SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    return new_disk()


def test_a_missing_segment_is_reported_and_skipped(disk: SimulatedDisk) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 11)
    log.close()
    disk.unlink(DIRECTORY / "00000000000000000012.log")
    log = open_log(disk, SEGMENTED)
    assert not log.recovery.clean
    assert "with offsets 12 to 24; readers will skip them" in log.recovery.problems[0]
    assert offsets(log) == [0, 3, 6, 9, 24, 27, 30]
    assert offsets(log, 15) == [24, 27, 30]
    assert log.end_offset == 33
    log.close()
    log = open_log(disk, SEGMENTED)
    assert log.recovery.clean, "said once, when it was found"


def test_a_missing_first_segment_moves_the_start(disk: SimulatedDisk) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 11)
    log.close()
    disk.unlink(FIRST)
    log = open_log(disk, SEGMENTED)
    assert log.start_offset == 12
    assert log.recovery.problems


def test_a_missing_last_segment_does_not_make_its_offsets_new(disk: SimulatedDisk) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 3)
    log.close()
    disk.unlink(FIRST)
    log = open_log(disk, SEGMENTED)
    assert (log.start_offset, log.end_offset) == (9, 9)
    assert log.recovery.problems


def test_a_shortened_segment_is_checked_and_the_safe_ones_behind_it_stay(
    disk: SimulatedDisk,
) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 11)
    log.close()
    del disk.file(FIRST).data[2 * SIZE + 5 :]
    log = open_log(disk, SEGMENTED)
    assert not log.recovery.clean
    assert log.recovery.truncated_bytes == 5
    assert "records that were safe may be missing" in log.recovery.problems[0]
    assert offsets(log) == [0, 3, *range(12, 33, 3)]
    assert offsets(log, 7) == [*range(12, 33, 3)]


def test_a_shortened_last_segment_is_continued(disk: SimulatedDisk) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 6)
    append_idempotent(log, 0)
    log.close()
    del disk.file(DIRECTORY / "00000000000000000012.log").data[SIZE + 5 :]
    log = open_log(disk, SEGMENTED)
    assert log.end_offset == 15
    assert append_idempotent(log, 0) == Append(15, 15, -1, False), "it may be sent again"


def test_a_stray_segment_is_ignored(disk: SimulatedDisk) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 6)
    log.close()
    stray = DIRECTORY / "00000000000000000003.log"
    disk.close(disk.create(stray))
    log = open_log(disk, SEGMENTED)
    assert "does not belong to this log" in log.recovery.problems[0]
    assert offsets(log) == list(range(0, 18, 3))
    assert stray in disk.files()


def test_leftovers_of_interrupted_writes_are_removed(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    fill(log, 1)
    log.close()
    for name in ("checkpoint.tmp", "00000000000000000500.index", "notes.txt"):
        disk.close(disk.create(DIRECTORY / name))
    assert open_log(disk).recovery.clean
    assert sorted(disk.names(DIRECTORY)) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "checkpoint",
        "notes.txt",
    ]


def test_retired_segments_that_came_back_are_removed(disk: SimulatedDisk) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 11)
    log.delete_records(25)
    assert FIRST in disk.files(), "their files wait for somebody with time"
    log = kill(disk)
    assert FIRST not in disk.files()
    assert (log.start_offset, log.end_offset) == (25, 33)
    assert offsets(log, 25) == [24, 27, 30]


def test_a_log_without_anything_from_its_start_on_begins_behind_what_it_had(
    disk: SimulatedDisk,
) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 6)
    log.delete_records(10)
    del disk.file(FIRST).data[SIZE:]
    disk.unlink(DIRECTORY / "00000000000000000012.log")
    log = kill(disk)
    assert (log.start_offset, log.end_offset) == (18, 18)
    assert "has nothing left from its start at offset 10 on" in log.recovery.problems[-1]
    assert append(log, make_batch()).base_offset == 18
