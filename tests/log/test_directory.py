"""The data directory and who may have it."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from headrace.log import DataDirectory
from headrace.log.directory import META, META_FORMAT
from headrace.log.errors import (
    CorruptFile,
    DirectoryInUse,
    DirectoryUnusable,
    InvalidName,
    LogClosed,
    StorageFailed,
    StorageFull,
    UnsupportedFormat,
)
from headrace.log.framing import FileFormat, write_framed
from tests.log.simulated_disk import SimulatedDisk

PATH = Path("/data")

HOLD = """
import sys, time
from pathlib import Path
from headrace.log import DataDirectory
DataDirectory.open(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_missing_directory_is_made_and_keeps_its_identity(tmp_path: Path) -> None:
    path = tmp_path / "some" / "where"
    with DataDirectory.open(path) as directory:
        cluster_id = directory.cluster_id
    with DataDirectory.open(path) as directory:
        assert directory.cluster_id == cluster_id
    assert len(cluster_id) == 22
    with DataDirectory.open(tmp_path / "other") as directory:
        assert directory.cluster_id != cluster_id


def test_a_second_open_is_refused_and_names_the_holder(tmp_path: Path) -> None:
    with (
        DataDirectory.open(tmp_path),
        pytest.raises(DirectoryInUse, match=f"{tmp_path} is in use by process {os.getpid()}; stop"),
    ):
        DataDirectory.open(tmp_path)
    DataDirectory.open(tmp_path).close()


def test_the_lock_goes_with_the_process_that_held_it(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        with pytest.raises(DirectoryInUse, match=f"process {holder.pid};"):
            DataDirectory.open(tmp_path)
        holder.kill()
        holder.wait()
        DataDirectory.open(tmp_path).close()


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("not a directory")
    with pytest.raises(DirectoryUnusable, match="is not a directory; choose another"):
        DataDirectory.open(path)
    with pytest.raises(DirectoryUnusable, match="is not a directory; choose another"):
        DataDirectory.open(path / "below")


def test_a_directory_that_cannot_be_written_is_refused() -> None:
    disk = SimulatedDisk()
    with (
        disk.failing("make_directory", error=errno.EACCES),
        pytest.raises(DirectoryUnusable, match="Permission denied; make it writable"),
    ):
        DataDirectory.open(PATH, disk=disk)


def test_a_full_disk_is_no_place_for_a_new_directory() -> None:
    disk = SimulatedDisk()
    with disk.full(room=10), pytest.raises(StorageFull, match="free some space"):
        DataDirectory.open(PATH, disk=disk)
    assert disk.open_descriptors == 0
    DataDirectory.open(PATH, disk=disk).close()


def test_a_directory_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    with pytest.raises(DirectoryUnusable, match="contains 'letters' but is not a Headrace data"):
        DataDirectory.open(tmp_path)
    assert not (tmp_path / META).exists()


def test_a_fresh_mount_point_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    DataDirectory.open(tmp_path).close()


def test_a_directory_of_another_version_is_refused_and_not_locked() -> None:
    disk = SimulatedDisk()
    disk.make_directory(PATH)
    write_framed(disk, PATH / META, FileFormat(META_FORMAT.magic, 9), [b"{}"])
    for _ in range(2):
        with pytest.raises(UnsupportedFormat, match="version 9"):
            DataDirectory.open(PATH, disk=disk)
    write_framed(disk, PATH / META, META_FORMAT, [b"{}"])
    with pytest.raises(CorruptFile, match="no cluster id"):
        DataDirectory.open(PATH, disk=disk)
    assert disk.open_descriptors == 0


def test_a_new_directory_survives_a_power_loss() -> None:
    for seed in range(20):
        disk = SimulatedDisk()
        path = PATH / "deep" / "down"
        cluster_id = DataDirectory.open(path, disk=disk).cluster_id
        survivor = disk.after_power_loss(Random(seed))
        assert DataDirectory.open(path, disk=survivor).cluster_id == cluster_id


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../etc", "naïve", "a" * 250, "a\0b"])
def test_a_topic_name_cannot_leave_the_directory(tmp_path: Path, topic: str) -> None:
    with DataDirectory.open(tmp_path) as directory, pytest.raises(InvalidName, match="cannot name"):
        directory.partition_path(topic, 0)


def test_partitions_are_listed(tmp_path: Path) -> None:
    with DataDirectory.open(tmp_path) as directory:
        for topic, partition in [("orders", 1), ("orders", 0), ("a-1", 12)]:
            directory.partition_path(topic, partition).mkdir()
        (tmp_path / "orders-01").mkdir()
        (tmp_path / "orders").mkdir()
        found = directory.partitions()
    assert [(each.topic, each.partition) for each in found] == [
        ("a-1", 12),
        ("orders", 0),
        ("orders", 1),
    ]
    assert found[0].path == tmp_path / "a-1-12"


def test_a_deleted_partition_is_gone_at_once_and_its_files_later(tmp_path: Path) -> None:
    topic = "t" * 249
    with DataDirectory.open(tmp_path) as directory:
        path = directory.partition_path(topic, 0)
        path.mkdir()
        (path / "00000000000000000000.log").write_bytes(b"records")
        doomed = directory.delete_partition(topic, 0)
        assert not path.exists()
        assert directory.partitions() == []
        path.mkdir()
        doomed.remove()
        assert not doomed.path.exists()
        assert [each.topic for each in directory.partitions()] == [topic]


def test_an_interrupted_deletion_is_finished_by_the_next_open(tmp_path: Path) -> None:
    with DataDirectory.open(tmp_path) as directory:
        path = directory.partition_path("orders", 0)
        path.mkdir()
        (path / "checkpoint").write_bytes(b"")
        doomed = directory.delete_partition("orders", 0)
    DataDirectory.open(tmp_path).close()
    assert not doomed.path.exists()


def test_a_deletion_that_cannot_be_finished_does_not_keep_the_directory_shut(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk()
    with DataDirectory.open(PATH, disk=disk) as directory:
        path = directory.partition_path("orders", 0)
        with pytest.raises(StorageFailed, match="cannot delete"):
            directory.delete_partition("orders", 0)
        disk.make_directory(path)
        disk.close(disk.create(path / "checkpoint"))
        doomed = directory.delete_partition("orders", 0)
        with disk.failing("unlink"), pytest.raises(StorageFailed, match="cannot remove"):
            doomed.remove()
    with disk.failing("unlink"):
        DataDirectory.open(PATH, disk=disk).close()
    assert "a deleted partition still takes up space" in caplog.text
    DataDirectory.open(PATH, disk=disk).close()
    assert disk.names(PATH) == [".lock", META]


def test_journals_live_in_the_directory(tmp_path: Path) -> None:
    with DataDirectory.open(tmp_path) as directory:
        with directory.journal("topics") as journal:
            journal.append(b"entry")
        with directory.journal("topics") as journal:
            assert list(journal.entries()) == [b"entry"]
        with pytest.raises(InvalidName, match="cannot name a journal"):
            directory.journal("../topics")


def test_a_closed_directory_says_so(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path)
    directory.close()
    directory.close()
    with pytest.raises(LogClosed):
        directory.partition_path("orders", 0)
