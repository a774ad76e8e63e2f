"""What is on the disk when, and what it costs to get it there."""

import threading
from pathlib import Path
from random import Random

import pytest

from headrace.clock import SystemClock
from headrace.log import SYSTEM_DISK, LogSettings, PartitionLog, SystemDisk
from headrace.log.errors import StorageFull
from headrace.records import read_header
from tests.log.batches import (
    DIRECTORY,
    append,
    fill,
    make_batch,
    new_disk,
    open_log,
    read_headers,
)
from tests.log.simulated_disk import SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    return new_disk()


def test_one_fsync_serves_any_number_of_batches(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogSettings())
    fill(log, 1)
    before = disk.calls["sync"], disk.calls["sync_directory"]
    for _ in range(100):
        append(log, make_batch())
    dirty = log.dirty
    assert log.flush() == 103
    assert (dirty, log.dirty) == (True, False)
    assert (disk.calls["sync"], disk.calls["sync_directory"]) == (before[0] + 1, before[1])


def test_a_flush_with_nothing_to_do_does_nothing(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    fill(log, 1)
    before = disk.calls.copy()
    assert log.flush() == 3
    assert disk.calls == before


def test_a_flush_includes_segments_that_were_sealed_meanwhile(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogSettings(segment_bytes=1))
    for _ in range(5):
        append(log, make_batch())
    assert log.flush() == 5
    for seed in range(20):
        survivor = open_log(disk.after_power_loss(Random(seed)))
        assert survivor.end_offset == 5
        assert [header.base_offset for header in read_headers(survivor, 0)] == [0, 1, 2, 3, 4]


def test_a_flushed_batch_survives_any_power_loss_and_others_only_in_order(
    disk: SimulatedDisk,
) -> None:
    log = open_log(disk, LogSettings(segment_bytes=400))
    fill(log, 3)
    for _ in range(5):
        append(log, make_batch())
    ends = set()
    for seed in range(100):
        survivor = open_log(disk.after_power_loss(Random(seed)))
        found = [header.base_offset for header in read_headers(survivor, 0)]
        assert found == [0, 3, 6, 9, 10, 11, 12, 13][: len(found)]
        assert len(found) >= 3
        ends.add(survivor.end_offset)
    assert len(ends) > 2, "the disk must have been cruel in more than one way"


def test_a_checkpoint_is_due_only_if_something_changed(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    due = [log.checkpoint_due]
    append(log, make_batch())
    due.append(log.checkpoint_due)
    log.checkpoint()
    due.append(log.checkpoint_due)
    assert due == [False, True, False]
    before = disk.calls.copy()
    log.checkpoint()
    assert disk.calls == before
    log.advance(log.flush())
    log.delete_records(1)
    assert not log.checkpoint_due, "a new start is noted at once"


def test_a_checkpoint_without_room_leaves_the_previous_one(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    fill(log, 1)
    log.checkpoint()
    fill(log, 1)
    with disk.full(), pytest.raises(StorageFull):
        log.checkpoint()
    assert log.failure is None
    log = open_log(disk.after_kill())
    assert log.end_offset == 6
    assert log.recovery.scanned_bytes < log.size


def test_closing_on_a_full_disk_costs_a_scan_and_is_logged(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(disk)
    fill(log, 1)
    with disk.full():
        log.close()
    assert "is not closed cleanly: " in caplog.text
    assert disk.open_descriptors == 0
    log = open_log(disk)
    assert not log.recovery.clean
    assert log.end_offset == 3


def test_sealed_segments_are_not_kept_open(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogSettings(segment_bytes=1))
    for _ in range(50):
        append(log, make_batch())
    assert disk.open_descriptors == 1
    log.flush()
    log.checkpoint()
    assert disk.open_descriptors == 1
    assert [segment.index is None for segment in log._chain.segments] == [True] * 49 + [False]


def test_an_abandoned_log_leaves_its_files_as_they_are(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append(log, make_batch())
    before = disk.calls["sync"]
    log.abandon()
    assert disk.calls["sync"] == before
    assert disk.open_descriptors == 0
    assert DIRECTORY / "checkpoint" not in disk.files()


class SlowDisk(SystemDisk):
    """A real disk whose fsync waits to be allowed."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.allowed = threading.Event()

    def sync(self, descriptor: int, /) -> None:  # type: ignore[override]
        """Wait, then sync."""
        self.entered.set()
        assert self.allowed.wait(10)
        SYSTEM_DISK.sync(descriptor)


def test_appends_go_on_while_another_thread_flushes(tmp_path: Path) -> None:
    disk = SlowDisk()
    log = PartitionLog.open(
        tmp_path / "events-0", LogSettings(segment_bytes=300), clock=SystemClock(), disk=disk
    )
    append(log, make_batch())
    results: list[int] = []
    flush = threading.Thread(target=lambda: results.append(log.flush()))
    flush.start()
    assert disk.entered.wait(10)
    for _ in range(20):
        append(log, make_batch())
    disk.allowed.set()
    flush.join(10)
    assert results == [1], "what came later belongs to the next flush"
    assert log.dirty
    assert log.flush() == 21
    log.close()


def test_flushes_checkpoints_appends_and_retention_do_not_disturb_each_other(
    tmp_path: Path,
) -> None:
    settings = LogSettings(segment_bytes=2000, retention_bytes=4000, index_interval_bytes=100)
    log = PartitionLog.open(tmp_path / "events-0", settings, clock=SystemClock())
    stop = threading.Event()
    errors: list[BaseException] = []
    flushed = [0]

    def keep(doing: str) -> None:
        try:
            while not stop.is_set():
                if doing == "flush":
                    flushed[0] = log.flush()
                else:
                    log.checkpoint()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=keep, args=(each,)) for each in ("flush", "checkpoint")]
    for thread in threads:
        thread.start()
    for number in range(2000):
        batch = make_batch(producer_id=number % 50, epoch=0, sequence=number // 50)
        assert log.append(batch, read_header(batch)).base_offset == number
        log.advance(flushed[0])
        if number % 100 == 0:
            log.enforce_retention().remove()
    stop.set()
    for thread in threads:
        thread.join(10)
    assert errors == []
    log.advance(log.flush())
    assert [header.base_offset for header in read_headers(log, log.start_offset)][-1] == 1999
    log.close()
    log = PartitionLog.open(tmp_path / "events-0", settings, clock=SystemClock())
    assert log.recovery.clean
    assert log.end_offset == 2000
    assert len(log.producers) == 50
    log.close()
