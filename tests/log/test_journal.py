"""Entries that must outlive a broker."""

import errno
import logging
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log import SYSTEM_DISK, Journal
from headrace.log.errors import (
    CorruptFile,
    LogClosed,
    StorageFailed,
    StorageFull,
    UnsupportedFormat,
)
from headrace.log.framing import HEADER_SIZE, FileFormat, write_framed
from tests.log.batches import new_disk
from tests.log.simulated_disk import SimulatedDisk

PATH = Path("/data/topics.journal")


def test_a_new_journal_is_empty() -> None:
    with Journal.open(PATH, disk=new_disk()) as journal:
        assert list(journal.entries()) == []
        assert journal.entry_count == 0
        assert journal.truncated_bytes == 0


def test_entries_survive_a_reopen_in_order(tmp_path: Path) -> None:
    path = tmp_path / "topics.journal"
    with Journal.open(path) as journal:
        journal.append(b"one")
        journal.append(b"")
        journal.append(b"three" * 1000)
    with Journal.open(path, disk=SYSTEM_DISK) as journal:
        assert list(journal.entries()) == [b"one", b"", b"three" * 1000]
        assert journal.entry_count == 3
        assert journal.size == path.stat().st_size


def test_a_torn_entry_is_cut_off_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    with Journal.open(PATH, disk=disk) as journal:
        journal.append(b"whole")
        size = journal.size
        journal.append(b"torn")
        end = journal.size
    for length in range(size + 1, end):
        torn = new_disk()
        torn.close(torn.create(PATH))
        torn.file(PATH).data[:] = disk.file(PATH).data[:length]
        with caplog.at_level(logging.WARNING), Journal.open(PATH, disk=torn) as journal_again:
            assert list(journal_again.entries()) == [b"whole"]
            assert journal_again.truncated_bytes == length - size
            journal_again.append(b"next")
        with Journal.open(PATH, disk=torn) as journal_again:
            assert list(journal_again.entries()) == [b"whole", b"next"]
    assert "after 1 entries: its last write was interrupted" in caplog.text


@given(
    flushed=st.lists(st.binary(max_size=600), max_size=5),
    unflushed=st.lists(st.binary(max_size=600), max_size=5),
    seed=st.integers(0, 1000),
)
def test_a_power_loss_takes_only_what_was_not_flushed(
    flushed: list[bytes], unflushed: list[bytes], seed: int
) -> None:
    disk = new_disk()
    journal = Journal.open(PATH, disk=disk)
    for entry in flushed:
        journal.append(entry)
    assert journal.flush() == journal.size
    for entry in unflushed:
        journal.append(entry)
    with Journal.open(PATH, disk=disk.after_power_loss(Random(seed))) as survivor:
        entries = list(survivor.entries())
    assert entries[: len(flushed)] == flushed
    assert entries == [*flushed, *unflushed][: len(entries)]


@given(seed=st.integers(0, 1000), reached=st.booleans())
def test_a_rewrite_is_all_or_nothing(seed: int, reached: bool) -> None:
    disk = new_disk()
    journal = Journal.open(PATH, disk=disk)
    journal.append(b"old")
    journal.flush()
    if reached:
        journal.rewrite([b"new", b"newer"])
    else:
        with disk.failing("sync_directory"), pytest.raises(StorageFailed):
            journal.rewrite([b"new", b"newer"])
    with Journal.open(PATH, disk=disk.after_power_loss(Random(seed))) as survivor:
        entries = list(survivor.entries())
    assert entries == [b"new", b"newer"] or (entries == [b"old"] and not reached)


def test_entries_follow_a_rewrite() -> None:
    disk = new_disk()
    with Journal.open(PATH, disk=disk) as journal:
        journal.append(b"old")
        journal.rewrite(iter([b"kept"]))
        assert journal.entry_count == 1
        journal.append(b"after")
        assert list(journal.entries()) == [b"kept", b"after"]
    with Journal.open(PATH, disk=disk) as journal:
        assert list(journal.entries()) == [b"kept", b"after"]
    assert disk.open_descriptors == 0


def test_a_full_disk_refuses_an_entry_and_takes_the_next_one() -> None:
    disk = new_disk()
    with Journal.open(PATH, disk=disk) as journal:
        with disk.full(room=5), pytest.raises(StorageFull, match="free some space"):
            journal.append(b"too much")
        journal.append(b"fits")
        assert list(journal.entries()) == [b"fits"]


def test_a_rewrite_on_a_full_disk_keeps_the_old_entries() -> None:
    disk = new_disk()
    with Journal.open(PATH, disk=disk) as journal:
        journal.append(b"old")
        with disk.full(room=5), pytest.raises(StorageFull):
            journal.rewrite([b"new"])
        journal.append(b"later")
        assert list(journal.entries()) == [b"old", b"later"]


def test_after_a_failed_fsync_nothing_is_accepted_until_reopened() -> None:
    disk = new_disk()
    journal = Journal.open(PATH, disk=disk)
    journal.append(b"doubtful")
    with disk.failing("sync"), pytest.raises(StorageFailed, match="opened again"):
        journal.flush()
    with pytest.raises(StorageFailed):
        journal.flush()
    with pytest.raises(StorageFailed):
        journal.append(b"more")
    journal.close()
    with Journal.open(PATH, disk=disk) as journal:
        journal.append(b"more")


def test_a_rewrite_heals_a_journal_whose_fsync_failed() -> None:
    disk = new_disk()
    with Journal.open(PATH, disk=disk) as journal:
        with disk.failing("sync"), pytest.raises(StorageFailed):
            journal.flush()
        journal.rewrite([b"all"])
        journal.append(b"more")
        journal.flush()


def test_a_failed_write_that_cannot_be_undone_stops_the_journal() -> None:
    disk = new_disk()
    journal = Journal.open(PATH, disk=disk)
    with disk.failing("pwrite", "truncate", error=errno.EIO), pytest.raises(StorageFailed):
        journal.append(b"entry")
    with pytest.raises(StorageFailed, match="cut a failed write off"):
        journal.append(b"entry")
    journal.close()


def test_a_disk_that_refuses_to_open_is_an_error() -> None:
    disk = new_disk()
    with disk.full(), pytest.raises(StorageFull):
        Journal.open(PATH, disk=disk)
    for operation in ("open", "pread", "sync"):
        with disk.failing(operation), pytest.raises(StorageFailed):
            Journal.open(PATH, disk=disk)
    assert disk.open_descriptors == 0


def test_a_closed_journal_says_so() -> None:
    journal = Journal.open(PATH, disk=new_disk())
    journal.close()
    journal.close()
    with pytest.raises(LogClosed, match="open it again"):
        journal.append(b"entry")


def test_a_file_that_is_no_journal_is_left_alone() -> None:
    disk = new_disk()
    write_framed(disk, PATH, FileFormat(b"HRXX", 1), [b"precious"])
    before = bytes(disk.file(PATH).data)
    with pytest.raises(UnsupportedFormat):
        Journal.open(PATH, disk=disk)
    disk.file(PATH).data[:] = b"something else altogether"
    with pytest.raises(CorruptFile):
        Journal.open(PATH, disk=disk)
    assert disk.file(PATH).data != before
    assert disk.file(PATH).data == b"something else altogether"
    assert disk.open_descriptors == 0


def flip(disk: SimulatedDisk, position: int) -> None:
    disk.file(PATH).data[position] ^= 0x10


def test_damage_before_entries_that_were_safe_is_not_taken_for_a_torn_end() -> None:
    disk = new_disk()
    journal = Journal.open(PATH, disk=disk)
    for number in range(5):
        journal.append(b"entry %d" % number)
        journal.flush()
    for position in range(HEADER_SIZE, journal.size * 4 // 5):
        flip(disk, position)
        with pytest.raises(CorruptFile, match=r"topics\.journal is damaged at byte \d+"):
            Journal.open(PATH, disk=disk.after_kill())
        flip(disk, position)
    assert len(list(Journal.open(PATH, disk=disk.after_kill()).entries())) == 5


def test_a_journal_that_was_closed_vouches_for_all_of_its_entries() -> None:
    disk = new_disk()
    with Journal.open(PATH, disk=disk) as journal:
        journal.append(b"first")
        journal.append(b"last")
        end = journal.size
    for position in range(HEADER_SIZE, end):
        flip(disk, position)
        with pytest.raises(CorruptFile):
            Journal.open(PATH, disk=disk.after_kill())
        flip(disk, position)


def test_damage_to_what_was_never_flushed_is_a_torn_end() -> None:
    disk = new_disk()
    journal = Journal.open(PATH, disk=disk)
    journal.append(b"safe")
    journal.flush()
    size = journal.size
    for number in range(3):
        journal.append(b"entry %d" % number)
    flip(disk, size + 10)
    again = Journal.open(PATH, disk=disk.after_kill())
    assert list(again.entries()) == [b"safe"]
    assert again.truncated_bytes == journal.size - size


def test_closing_a_journal_again_and_again_does_not_make_it_grow() -> None:
    disk = new_disk()
    with Journal.open(PATH, disk=disk) as journal:
        journal.append(b"")
    sizes = set()
    for _ in range(3):
        with Journal.open(PATH, disk=disk) as journal:
            assert list(journal.entries()) == [b""]
            assert journal.entry_count == 1
        sizes.add(journal.size)
    assert len(sizes) == 1
