"""Appending: offsets, stamps, new segments, and disks that refuse."""

import errno
from pathlib import Path

import pytest

from headrace.clock import ManualClock
from headrace.log import Append, Flush, LogSettings, PartitionLog
from headrace.log.errors import LogClosed, StorageFailed, StorageFull
from headrace.log.segment import MAX_RELATIVE_OFFSET
from headrace.records import BatchHeader, read_header, validate_batch
from tests.log.batches import (
    DIRECTORY,
    NOW,
    append,
    append_idempotent,
    fill,
    make_batch,
    new_disk,
    open_log,
    read_bytes,
    read_headers,
)
from tests.log.simulated_disk import SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    return new_disk()


def segment_sizes(disk: SimulatedDisk) -> dict[str, int]:
    return {
        path.name: len(file.data) for path, file in disk.files().items() if path.suffix == ".log"
    }


def test_batches_get_consecutive_offsets(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    assert append(log, make_batch([NOW] * 3)) == Append(0, 2, -1, False)
    assert append(log, make_batch([NOW])) == Append(3, 3, -1, False)
    assert log.end_offset == 4


def test_offset_and_epoch_are_stamped_and_the_checksum_still_holds(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    log.leader_epoch = 9
    append(log, make_batch([NOW] * 3))
    batch = make_batch([NOW] * 2)
    append(log, batch)
    log.advance(log.flush())
    data = log.read(3, 1000).read()
    header = read_header(data)
    assert data == batch
    assert (header.base_offset, header.leader_epoch) == (3, 9)
    validate_batch(data, header)


def test_the_brokers_time_replaces_the_producers(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    result = append(log, make_batch([5, 6]), append_time=NOW)
    assert result.timestamp == NOW
    log.advance(log.flush())
    data = log.read(0, 1000).read()
    header = read_header(data)
    validate_batch(data, header)
    assert header.has_append_time
    assert header.max_timestamp == NOW
    assert log.offset_for_time(NOW) == (0, NOW)
    assert log.offset_for_time(NOW + 1) is None


def test_a_retry_returns_the_original_and_its_time(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    batch = make_batch(producer_id=7, epoch=0, sequence=0)
    first = append(log, batch, append_time=NOW)
    again = append(log, make_batch(producer_id=7, epoch=0, sequence=0), append_time=NOW + 10)
    assert again == first._replace(duplicate=True)
    assert log.end_offset == 1


def test_a_full_segment_is_sealed(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogSettings(segment_bytes=300))
    fill(log, 10, records=1)
    size = len(make_batch())
    assert set(segment_sizes(disk).values()) == {300 // size * size, size}
    assert all(int(name[:20]) % (300 // size) == 0 for name in segment_sizes(disk))
    assert [header.base_offset for header in read_headers(log, 0)] == list(range(10))
    assert log.size == 10 * size


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogSettings(segment_bytes=100))
    fill(log, 3, value=b"x" * 500)
    assert len(segment_sizes(disk)) == 3


def test_a_segment_never_spans_more_offsets_than_an_index_can_name(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogSettings())
    batch = make_batch()
    huge = read_header(batch)._replace(last_offset_delta=MAX_RELATIVE_OFFSET - 10)
    log.append(batch, huge)
    log.append(batch, huge)
    log.append(make_batch(), read_header(make_batch()))
    assert len(segment_sizes(disk)) == 2


def test_an_old_segment_is_sealed_when_its_time_has_come(disk: SimulatedDisk) -> None:
    clock = ManualClock(NOW)
    log = open_log(disk, LogSettings(segment_ms=10_000), clock=clock)
    clock.advance(20)
    log.roll_if_due()
    assert len(segment_sizes(disk)) == 1, "an empty segment has nothing that could grow old"
    fill(log, 1)
    log.roll_if_due()
    assert len(segment_sizes(disk)) == 2
    fill(log, 1)
    clock.advance(9)
    log.roll_if_due()
    assert len(segment_sizes(disk)) == 2
    clock.advance(1)
    log.roll_if_due()
    assert len(segment_sizes(disk)) == 3


def test_the_age_of_a_segment_outlives_a_restart(disk: SimulatedDisk) -> None:
    clock = ManualClock(NOW)
    settings = LogSettings(segment_ms=10_000)
    log = open_log(disk, settings, clock=clock)
    fill(log, 1)
    log.close()
    clock.advance(10)
    log = open_log(disk, settings, clock=clock)
    log.roll_if_due()
    assert len(segment_sizes(disk)) == 2


@pytest.mark.parametrize("room", [0, 1, 60, 61, 90])
def test_a_full_disk_keeps_no_part_of_a_batch(disk: SimulatedDisk, room: int) -> None:
    log = open_log(disk)
    fill(log, 2)
    before = bytes(disk.file(DIRECTORY / "00000000000000000000.log").data)
    with disk.full(room), pytest.raises(StorageFull, match="no space left; free some space"):
        append(log, make_batch([NOW] * 3))
    assert disk.file(DIRECTORY / "00000000000000000000.log").data == before
    assert read_bytes(log, 0) == before
    fill(log, 1)
    assert [header.base_offset for header in read_headers(log, 0)] == [0, 3, 6]


def test_a_full_disk_forgets_no_sequence(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_idempotent(log, 0)
    with disk.full(), pytest.raises(StorageFull):
        append_idempotent(log, 1)
    assert append_idempotent(log, 1) == Append(1, 1, -1, False)


def test_a_full_disk_stops_a_new_segment_and_nothing_else(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogSettings(segment_bytes=100))
    fill(log, 1)
    with disk.failing("create", error=errno.ENOSPC), pytest.raises(StorageFull):
        append(log, make_batch())
    fill(log, 1)
    assert [header.base_offset for header in read_headers(log, 0)] == [0, 3]


def test_a_failing_write_is_undone_and_the_next_may_succeed(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    with disk.failing("pwrite"), pytest.raises(StorageFailed, match="Input/output error; check"):
        append(log, make_batch())
    assert log.failure is None
    assert append(log, make_batch()).base_offset == 0


def test_a_write_that_cannot_be_undone_stops_the_log_until_it_is_reopened(
    disk: SimulatedDisk,
) -> None:
    log = open_log(disk)
    fill(log, 2)
    with disk.full(room=30), disk.failing("truncate"), pytest.raises(StorageFull):
        append(log, make_batch())
    with pytest.raises(StorageFailed, match="until the log is opened again"):
        append(log, make_batch())
    assert len(list(read_headers(log, 0))) == 2, "readers go on"
    log.close()
    log = open_log(disk)
    assert log.recovery.truncated_bytes == 30
    fill(log, 1)
    assert [header.base_offset for header in read_headers(log, 0)] == [0, 3, 6]


def test_after_a_failed_fsync_nothing_is_written_until_reopened(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    fill(log, 1)
    append(log, make_batch())
    with disk.failing("sync"), pytest.raises(StorageFailed, match="cannot fsync"):
        log.flush()
    for write in (log.flush, log.checkpoint, lambda: append(log, make_batch())):
        with pytest.raises(StorageFailed, match="until the log is opened again"):
            write()
    assert log.failure is not None
    assert log.high_watermark == 3
    assert len(list(read_headers(log, 0))) == 1, "readers see what is safe"
    log.close()
    log = open_log(disk)
    assert not log.recovery.clean
    assert log.failure is None
    append(log, make_batch())


def test_a_disk_that_writes_a_little_at_a_time_is_enough(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = disk.pwrite
    monkeypatch.setattr(disk, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data)[:7], at))
    log = open_log(disk)
    fill(log, 3)
    assert len(list(read_headers(log, 0))) == 3


def test_a_closed_log_says_so(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    log.close()
    log.close()
    batch = make_batch()
    header: BatchHeader = read_header(batch)
    for use in (
        lambda: log.append(batch, header),
        lambda: log.read(0, 100),
        log.flush,
        log.checkpoint,
    ):
        with pytest.raises(LogClosed, match="open it again"):
            use()


def test_new_settings_count_at_once(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append(log, make_batch())
    assert log.high_watermark == 0
    relaxed = LogSettings(flush=Flush.INTERVAL, segment_bytes=200)
    log.reconfigure(relaxed)
    assert log.settings is relaxed
    assert log.high_watermark == 1
    append(log, make_batch())
    assert log.high_watermark == 2
    append(log, make_batch())
    assert len(segment_sizes(disk)) == 2
    log.reconfigure(LogSettings(flush=Flush.ACK))
    append(log, make_batch())
    assert log.high_watermark == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"segment_bytes": 0},
        {"segment_bytes": 1 << 31},
        {"segment_ms": 0},
        {"index_interval_bytes": -1},
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} is .* set it"):
        LogSettings(**wrong)  # type: ignore[arg-type]


def test_it_all_works_on_a_real_disk(tmp_path: Path) -> None:
    settings = LogSettings(segment_bytes=2000, index_interval_bytes=300)
    log = PartitionLog.open(tmp_path / "events-0", settings, clock=ManualClock(NOW))
    fill(log, 100)
    data = read_bytes(log, 0)
    log.close()
    log = PartitionLog.open(tmp_path / "events-0", settings, clock=ManualClock(NOW))
    assert log.recovery.clean
    assert read_bytes(log, 0) == data
    log.close()
