"""What the log expects of a disk, of the real one and of the simulated one alike."""

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.log import SYSTEM_DISK, Disk
from headrace.log.disk import read_all, write_all
from tests.log.simulated_disk import SECTOR, Died, SimulatedDisk


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return SYSTEM_DISK if request.param == "real" else SimulatedDisk()


@pytest.fixture
def root(disk: Disk, tmp_path: Path) -> Path:
    path = tmp_path / "a" / "b"
    disk.make_directory(path)
    disk.make_directory(path)
    return path


def write_file(disk: Disk, path: Path, data: bytes) -> None:
    descriptor = disk.create(path)
    write_all(disk, descriptor, data, 0)
    disk.sync(descriptor)
    disk.close(descriptor)


def test_bytes_are_written_and_read_where_they_belong(disk: Disk, root: Path) -> None:
    descriptor = disk.create(root / "file")
    assert disk.pwrite(descriptor, b"hello world", 0) == 11
    assert disk.pwrite(descriptor, memoryview(b"WORLD"), 6) == 5
    assert disk.pread(descriptor, 5, 6) == b"WORLD"
    assert disk.pread(descriptor, 100, 6) == b"WORLD"
    assert disk.pread(descriptor, 5, 100) == b""
    assert read_all(disk, descriptor, 100, 0) == b"hello WORLD"
    assert disk.size(descriptor) == disk.size_of(root / "file") == 11
    disk.truncate(descriptor, 5)
    assert disk.pread(descriptor, 100, 0) == b"hello"
    disk.close(descriptor)


def test_a_file_can_be_opened_again_and_created_afresh(disk: Disk, root: Path) -> None:
    write_file(disk, root / "file", b"first")
    descriptor = disk.open(root / "file")
    assert disk.pread(descriptor, 100, 0) == b"first"
    disk.close(descriptor)
    disk.close(disk.create(root / "file"))
    assert disk.size_of(root / "file") == 0


def test_what_is_missing_is_said_to_be(disk: Disk, root: Path) -> None:
    missing: list[Callable[[], object]] = [
        lambda: disk.open(root / "missing"),
        lambda: disk.names(root / "missing"),
        lambda: disk.create(root / "missing" / "file"),
    ]
    for attempt in missing:
        with pytest.raises(FileNotFoundError):
            attempt()
    disk.unlink(root / "missing")


def test_a_file_takes_anothers_place(disk: Disk, root: Path) -> None:
    write_file(disk, root / "old", b"old")
    write_file(disk, root / "new", b"new")
    reader = disk.open(root / "old")
    disk.replace(root / "new", root / "old")
    disk.sync_directory(root)
    assert disk.names(root) == ["old"]
    assert disk.size_of(root / "old") == 3
    assert disk.pread(reader, 10, 0) == b"old", "who has it open keeps it"
    disk.close(reader)


def test_a_removed_file_stays_readable_for_those_who_have_it_open(disk: Disk, root: Path) -> None:
    write_file(disk, root / "file", b"bytes")
    reader = disk.open(root / "file")
    disk.unlink(root / "file")
    assert disk.names(root) == []
    assert disk.pread(reader, 10, 0) == b"bytes"
    disk.close(reader)


def test_directories_are_renamed_and_removed(disk: Disk, root: Path) -> None:
    disk.make_directory(root / "x")
    disk.replace(root / "x", root / "y")
    assert disk.names(root) == ["y"]
    disk.remove_directory(root / "y")
    assert disk.names(root) == []


def test_a_lock_is_held_by_one_at_a_time(disk: Disk, root: Path) -> None:
    first = disk.lock(root / ".lock")
    assert first is not None
    assert disk.lock(root / ".lock") is None
    disk.close(first)
    second = disk.lock(root / ".lock")
    assert second is not None
    disk.close(second)


def test_a_file_is_no_directory(disk: Disk, root: Path) -> None:
    write_file(disk, root / "file", b"")
    with pytest.raises(FileExistsError):
        disk.make_directory(root / "file")


def test_writing_goes_on_where_the_system_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    written: list[tuple[bytes, int]] = []

    def stop_short(descriptor: int, data: bytes, position: int) -> int:
        written.append((bytes(data), position))
        return min(len(data), 4)

    monkeypatch.setattr(disk, "pwrite", stop_short)
    write_all(disk, 0, b"0123456789", 100)
    assert written == [(b"0123456789", 100), (b"456789", 104), (b"89", 108)]


def test_reading_goes_on_where_the_system_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    data = b"0123456789"
    monkeypatch.setattr(disk, "pread", lambda _, count, at: data[at : at + min(count, 4)])
    assert read_all(disk, 0, 10, 0) == data
    assert read_all(disk, 0, 100, 3) == data[3:]


class TestPowerLoss:
    """The simulation itself: it must be able to do everything that a real power loss can."""

    @staticmethod
    def survivors(disk: SimulatedDisk, path: Path) -> set[bytes | None]:
        found: set[bytes | None] = set()
        for seed in range(300):
            files = disk.after_power_loss(Random(seed)).files()
            found.add(bytes(files[path].data) if path in files else None)
        return found

    def test_without_a_sync_of_the_directory_a_new_file_may_be_gone(self) -> None:
        disk = SimulatedDisk()
        write_file(disk, Path("/file"), b"synced")
        assert self.survivors(disk, Path("/file")) == {None, b"synced"}
        disk.sync_directory(Path("/"))
        assert self.survivors(disk, Path("/file")) == {b"synced"}

    def test_without_a_sync_of_the_file_its_sectors_may_be_old_new_or_missing(self) -> None:
        disk = SimulatedDisk()
        path = Path("/file")
        write_file(disk, path, b"a" * SECTOR)
        disk.sync_directory(Path("/"))
        descriptor = disk.open(path)
        disk.pwrite(descriptor, b"b" * 3 * SECTOR, 0)
        found = self.survivors(disk, path)
        assert {
            b"a" * SECTOR,
            b"b" * 3 * SECTOR,
            b"b" * SECTOR + bytes(SECTOR) + b"b" * SECTOR,
            b"a" * SECTOR + bytes(2 * SECTOR),
        } <= found
        disk.sync(descriptor)
        assert self.survivors(disk, path) == {b"b" * 3 * SECTOR}

    def test_without_a_sync_a_replaced_file_is_the_old_or_the_new_one(self) -> None:
        disk = SimulatedDisk()
        write_file(disk, Path("/file"), b"old")
        disk.sync_directory(Path("/"))
        write_file(disk, Path("/new"), b"new")
        disk.replace(Path("/new"), Path("/file"))
        assert self.survivors(disk, Path("/file")) == {b"old", b"new"}

    def test_a_kill_loses_nothing(self) -> None:
        disk = SimulatedDisk()
        descriptor = disk.create(Path("/file"))
        disk.pwrite(descriptor, b"written", 0)
        assert bytes(disk.after_kill().file(Path("/file")).data) == b"written"

    def test_a_full_disk_takes_what_fits(self) -> None:
        disk = SimulatedDisk()
        descriptor = disk.create(Path("/file"))
        with disk.full(room=4):
            assert disk.pwrite(descriptor, b"too long", 0) == 4
            with pytest.raises(OSError, match="No space") as error:
                disk.pwrite(descriptor, b"more", 4)
        assert error.value.errno == errno.ENOSPC
        assert disk.pwrite(descriptor, b"more", 4) == 4

    def test_a_process_dies_at_the_step_it_is_told_to(self) -> None:
        disk = SimulatedDisk()
        disk.die_after(2)
        descriptor = disk.create(Path("/file"))
        disk.pwrite(descriptor, b"one", 0)
        for _ in range(2):
            with pytest.raises(Died):
                disk.pwrite(descriptor, b"two", 3)
