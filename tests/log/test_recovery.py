"""Opening a log after every kind of end that its last process may have met."""

import logging
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.clock import ManualClock
from headrace.log import Append, Flush, LogSettings, PartitionLog
from headrace.log.checkpoint import CHECKPOINT, CHECKPOINT_FORMAT
from headrace.log.errors import StorageFailed, StorageFull, UnsupportedFormat
from headrace.log.framing import FileFormat, write_framed
from headrace.log.index import SparseIndex
from headrace.log.index_file import INDEX_FORMAT
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
from tests.log.recovering import FIRST, SEGMENTED, SIZE, corrupt, kill, offsets
from tests.log.simulated_disk import SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    return new_disk()


def test_a_new_log_is_clean(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    assert log.recovery.clean
    assert (log.start_offset, log.end_offset, log.leader_epoch) == (0, 0, 0)


def test_an_empty_log_stays_new(disk: SimulatedDisk) -> None:
    open_log(disk).close()
    assert open_log(disk).recovery.clean
    log = kill(disk)
    assert log.recovery.clean
    assert log.leader_epoch == 0


def test_after_a_clean_shutdown_nothing_is_read_but_the_checkpoint_and_one_index(
    disk: SimulatedDisk,
) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 30)
    log.close()
    opened = disk.calls["open"]
    log = open_log(disk, SEGMENTED)
    assert log.recovery.clean
    assert log.recovery.scanned_bytes == 0
    assert disk.calls["open"] - opened == 3, "checkpoint, last segment, its index"
    assert log.leader_epoch == 0
    assert offsets(log) == list(range(0, 90, 3))


def test_a_clean_shutdown_is_clean_however_often(disk: SimulatedDisk) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 5)
    log.close()
    syncs = disk.calls["sync"]
    for _ in range(3):
        open_log(disk, SEGMENTED).close()
    assert disk.calls["sync"] == syncs, "nothing changed, so nothing is written"
    log = kill(disk)
    assert log.recovery.clean, "nothing was written since it was closed"


def test_after_a_kill_everything_written_is_there_and_checked(disk: SimulatedDisk) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 5)
    append(log, make_batch([NOW] * 3))
    log = kill(disk)
    assert not log.recovery.clean
    assert log.recovery.scanned_bytes == 6 * SIZE
    assert log.recovery.truncated_bytes == 0
    assert log.recovery.truncated_from is None
    assert log.high_watermark == log.end_offset == 18
    assert offsets(log) == [0, 3, 6, 9, 12, 15]


def test_only_what_follows_the_checkpoint_is_scanned(disk: SimulatedDisk) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 10)
    log.checkpoint()
    fill(log, 1)
    log = kill(disk)
    assert log.recovery.scanned_bytes == SIZE
    assert offsets(log) == list(range(0, 33, 3))


def test_what_a_recovery_shows_is_on_the_disk(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append(log, make_batch())
    log = open_log(disk := disk.after_kill())
    for seed in range(10):
        survivor = open_log(disk.after_power_loss(Random(seed)))
        assert survivor.end_offset == log.high_watermark == 1


@pytest.mark.parametrize("settings", [SEGMENTED, LogSettings(index_interval_bytes=1000)])
def test_a_tail_torn_at_any_byte_is_cut_at_the_last_whole_batch(settings: LogSettings) -> None:
    whole = new_disk()
    log = open_log(whole, settings)
    fill(log, 3)
    original = bytes(whole.file(FIRST).data)
    for length in range(len(original)):
        disk = whole.after_kill()
        disk.file(FIRST).data[:] = original[:length]
        log = open_log(disk, settings)
        kept, torn = divmod(length, SIZE)
        assert log.end_offset == 3 * kept
        assert log.recovery.truncated_bytes == torn
        assert log.recovery.truncated_from == (3 * kept if torn else None)
        assert read_bytes(log, 0) == original[: kept * SIZE]
        assert append(log, make_batch()).base_offset == 3 * kept
        assert log.leader_epoch == (1 if length else 0)
        disk.unlink(DIRECTORY / CHECKPOINT)


def test_every_flipped_bit_behind_the_checkpoint_is_noticed() -> None:
    whole = new_disk()
    log = open_log(whole, SEGMENTED)
    fill(log, 1)
    log.checkpoint()
    fill(log, 2)
    original = bytes(whole.file(FIRST).data)
    checkpoint = bytes(whole.file(DIRECTORY / CHECKPOINT).data)
    for bit in range(SIZE * 8):
        disk = whole.after_kill()
        disk.file(FIRST).data[:] = original
        disk.file(DIRECTORY / CHECKPOINT).data[:] = checkpoint
        disk.file(FIRST).data[SIZE + bit // 8] ^= 1 << bit % 8
        log = open_log(disk, SEGMENTED)
        assert log.end_offset == 3
        assert log.recovery.truncated_from == 3
        assert log.recovery.truncated_bytes == 2 * SIZE
        assert log.leader_epoch == 1


def test_a_cut_is_reported_in_words(disk: SimulatedDisk, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log(disk)
    fill(log, 2)
    corrupt(disk, FIRST, SIZE + 70)
    with caplog.at_level(logging.WARNING):
        log = kill(disk)
    assert log.recovery.problems == tuple(caplog.messages)
    assert f"cut {SIZE} bytes off {FIRST} from offset 3 on: CRC-32C is" in caplog.text


def test_segments_behind_a_cut_are_dropped_by_name(disk: SimulatedDisk) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 10)
    corrupt(disk, FIRST, 2 * SIZE + 70)
    log = kill(disk)
    assert offsets(log) == [0, 3]
    assert log.recovery.truncated_from == 6
    assert log.recovery.truncated_bytes == 8 * SIZE
    assert log.recovery.dropped_segments == (
        "00000000000000000012.log",
        "00000000000000000024.log",
    )
    assert any("it cannot follow there" in problem for problem in log.recovery.problems)
    fill(log, 5)
    assert offsets(log) == list(range(0, 21, 3))


def test_a_segment_that_can_follow_a_cut_stays(disk: SimulatedDisk) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 6)
    disk.file(FIRST).data += b"rubbish behind the last batch"
    log = kill(disk)
    assert log.recovery.truncated_bytes == 29
    assert log.recovery.dropped_segments == ()
    assert offsets(log) == list(range(0, 18, 3))


def test_a_batch_out_of_place_ends_the_log(disk: SimulatedDisk) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 3)
    data = disk.file(FIRST).data
    data[SIZE:] = data[2 * SIZE :] + data[SIZE : 2 * SIZE]
    log = kill(disk)
    assert log.end_offset == 3
    assert "offset 6 of leader epoch 0 cannot follow here" in log.recovery.problems[0]


def test_what_an_earlier_epoch_left_behind_is_not_taken_for_new(disk: SimulatedDisk) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 3)
    stale = bytes(disk.file(FIRST).data[2 * SIZE :])
    corrupt(disk, FIRST, SIZE + 70)
    disk = disk.after_kill()
    log = open_log(disk, SEGMENTED)
    fill(log, 1)
    disk.file(FIRST).data += stale
    log = kill(disk)
    assert log.end_offset == 6
    assert "offset 6 of leader epoch 0 cannot follow here" in log.recovery.problems[0]


def test_the_epoch_rises_with_every_end_that_was_not_clean(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    fill(log, 2)
    for epoch in (1, 2, 3):
        disk = disk.after_kill()
        log = open_log(disk)
        assert log.leader_epoch == epoch
        fill(log, 1)
    log.close()
    log = open_log(disk)
    assert log.leader_epoch == 3
    assert [header.leader_epoch for header in read_headers(log, 0)] == [0, 0, 1, 2, 3]
    assert log.epoch_end(0) == (0, 6)
    assert log.epoch_end(1) == (1, 9)
    assert log.epoch_end(3) == (3, 15)
    assert log.epoch_end(4) == (-1, -1)


def test_the_epoch_rises_even_if_a_power_loss_leaves_no_trace(disk: SimulatedDisk) -> None:
    relaxed = LogSettings(flush=Flush.OS)
    log = open_log(disk, relaxed)
    append(log, make_batch())
    log.close()
    log = open_log(disk, relaxed)
    append(log, make_batch())
    assert log.high_watermark == 2
    epochs = set()
    for seed in range(30):
        survivor = open_log(disk.after_power_loss(Random(seed)), relaxed)
        epochs.add((survivor.end_offset, survivor.leader_epoch))
    assert epochs == {(1, 1), (2, 1)}


def test_epochs_are_read_from_batches_if_the_checkpoint_is_gone(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    fill(log, 2)
    disk = disk.after_kill()
    fill(open_log(disk), 2)
    disk.unlink(DIRECTORY / CHECKPOINT)
    log = kill(disk)
    assert log.leader_epoch == 2
    assert log.epoch_end(0) == (0, 6)
    assert log.epoch_end(1) == (1, 12)


@pytest.mark.parametrize("damage", ["cut", "flip", "foreign"])
def test_a_damaged_checkpoint_costs_a_full_scan_and_nothing_else(
    disk: SimulatedDisk, damage: str
) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 10)
    append_idempotent(log, 0)
    log.close()
    data = disk.file(DIRECTORY / CHECKPOINT).data
    if damage == "cut":
        del data[20:]
    elif damage == "flip":
        data[30] ^= 1
    else:
        data[:] = b"#!/bin/sh\necho hello\n"
    log = open_log(disk, SEGMENTED)
    assert log.recovery.scanned_bytes == log.size
    assert log.recovery.truncated_bytes == 0
    assert "every segment is checked instead" in log.recovery.problems[0]
    assert offsets(log) == [*range(0, 33, 3)]
    assert append_idempotent(log, 0).duplicate


def test_a_checkpoint_of_another_version_is_refused(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    fill(log, 1)
    log.close()
    newer = FileFormat(CHECKPOINT_FORMAT.magic, CHECKPOINT_FORMAT.version + 1)
    write_framed(disk, DIRECTORY / CHECKPOINT, newer, [b"{}", b""])
    before = bytes(disk.file(FIRST).data)
    with pytest.raises(UnsupportedFormat, match="use the Headrace version that wrote it"):
        open_log(disk)
    assert disk.file(FIRST).data == before


def index_entries(log: PartitionLog) -> list[list[int]]:
    rows = []
    for segment in log._chain.segments:
        index: SparseIndex = segment.opened().sparse_index
        rows.append([*index.offsets, *index.positions, *index.timestamps])
    return rows


@pytest.mark.parametrize(
    "spoil",
    [
        lambda disk, path: disk.unlink(path),
        lambda disk, path: disk.file(path).data.__delitem__(slice(-3, None)),
        lambda disk, path: disk.file(path).data.__setitem__(40, 255),
        lambda disk, path: disk.file(path).data.clear(),
        lambda disk, path: write_framed(disk, path, FileFormat(b"HRIX", 9), [bytes(16)]),
        lambda disk, path: write_framed(disk, path, INDEX_FORMAT, [bytes(48)]),
    ],
    ids=["missing", "cut", "flipped", "empty", "version", "disorder"],
)
def test_a_spoiled_index_is_made_again_like_the_original(
    disk: SimulatedDisk,
    spoil: Callable[[SimulatedDisk, Path], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 11)
    expected = index_entries(log)
    log.close()
    indexes = [path for path in disk.files() if path.suffix == ".index"]
    assert len(indexes) == 3
    for path in indexes:
        spoil(disk, path)
    with caplog.at_level(logging.WARNING):
        log = open_log(disk, SEGMENTED)
        assert log.recovery.clean, "an index is not worth a new epoch"
        assert log.recovery.rebuilt_indexes == ("00000000000000000024.log",)
        assert index_entries(log) == expected
    assert caplog.text.count("is made again") == 3
    assert offsets(log) == list(range(0, 33, 3))
    log.close()


def test_a_scan_makes_the_same_index_as_appending(disk: SimulatedDisk) -> None:
    log = open_log(disk, SEGMENTED)
    fill(log, 11)
    assert index_entries(kill(disk)) == index_entries(log)


def test_index_entries_beyond_the_checkpoint_are_not_believed(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogSettings(index_interval_bytes=0))
    fill(log, 3)
    log.checkpoint()
    checkpoint = bytes(disk.file(DIRECTORY / CHECKPOINT).data)
    fill(log, 3)
    log.checkpoint()
    disk.file(DIRECTORY / CHECKPOINT).data[:] = checkpoint
    del disk.file(FIRST).data[4 * SIZE :]
    disk = disk.after_kill()
    log = open_log(disk, LogSettings(index_interval_bytes=0))
    assert log.end_offset == 12
    assert index_entries(log)[0][:4] == [0, 3, 6, 9]
    log.close()
    log = open_log(disk, LogSettings(index_interval_bytes=0))
    assert log.recovery.rebuilt_indexes == ()
    assert len(index_entries(log)[0]) == 4 * 3


def test_a_deletion_does_not_make_a_retry_new(disk: SimulatedDisk) -> None:
    settings = LogSettings(segment_bytes=1, flush=Flush.OS)
    log = open_log(disk, settings)
    append_idempotent(log, 0)
    log.delete_records(1)
    append(log, make_batch())
    log = kill(disk, settings)
    assert append_idempotent(log, 0).duplicate


def test_producers_are_known_after_every_end(disk: SimulatedDisk) -> None:
    log = open_log(disk, SEGMENTED)
    for sequence in range(4):
        append_idempotent(log, sequence)
    log.checkpoint()
    for sequence in range(4, 8):
        append_idempotent(log, sequence)
    disk = disk.after_kill()
    log = open_log(disk, SEGMENTED)
    assert append_idempotent(log, 3) == Append(3, 3, -1, True)
    assert append_idempotent(log, 7) == Append(7, 7, -1, True)
    assert append_idempotent(log, 8) == Append(8, 8, -1, False)
    log.close()
    log = open_log(disk, SEGMENTED)
    assert append_idempotent(log, 8) == Append(8, 8, -1, True)


def test_a_full_disk_can_be_opened_and_read_and_written_later(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    fill(log, 2)
    disk = disk.after_kill()
    with disk.full():
        log = open_log(disk)
        assert offsets(log) == [0, 3]
        with pytest.raises(StorageFull):
            append(log, make_batch())
    append(log, make_batch())
    log.advance(log.flush())
    assert [header.leader_epoch for header in read_headers(log, 0)] == [0, 0, 1]
    log = kill(disk)
    assert log.recovery.truncated_bytes == 0
    assert log.leader_epoch == 2


def test_a_disk_that_fails_while_opening_is_an_error(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    fill(log, 1)
    for operation in ("open", "pread", "sync", "make_directory"):
        with disk.failing(operation), pytest.raises(StorageFailed):
            open_log(disk)
    assert log.end_offset == 3


def test_a_log_is_as_old_as_its_clock_says(disk: SimulatedDisk) -> None:
    clock = ManualClock(NOW)
    fill(open_log(disk, clock=clock), 1)
    clock.advance(5)
    log = open_log(disk.after_kill(), clock=clock)
    assert log._chain.segments[0].created_ms == NOW + 5000, (
        "unknown after a crash, so counted from now"
    )
