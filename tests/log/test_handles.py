"""Files stay open for as long as somebody reads them, and not for longer."""

from dataclasses import dataclass
from pathlib import Path

from headrace.log.handles import FileHandle, OpenFiles
from tests.log.simulated_disk import SimulatedDisk


@dataclass
class Opened:
    handle: FileHandle
    memory: int = 10


def open_file(disk: SimulatedDisk, memory: int = 10) -> Opened:
    return Opened(FileHandle(disk, Path("/file"), disk.create(Path("/file"))), memory)


def test_a_handle_closes_with_its_last_reader() -> None:
    disk = SimulatedDisk()
    handle = FileHandle(disk, Path("/file"), disk.create(Path("/file")))
    reader = handle
    assert reader.fileno() == handle.descriptor
    del handle
    assert disk.open_descriptors == 1
    del reader
    assert disk.open_descriptors == 0


def test_the_file_that_was_not_used_for_longest_is_closed_first() -> None:
    disk = SimulatedDisk()
    files: OpenFiles[Opened] = OpenFiles(max_files=2, max_memory=1000)
    files.put("a", open_file(disk))
    files.put("b", open_file(disk))
    assert files.get("a") is not None
    files.put("c", open_file(disk))
    assert disk.open_descriptors == len(files) == 2
    assert files.get("b") is None
    assert files.get("a") is not None


def test_a_file_in_use_is_not_closed_when_it_is_dropped() -> None:
    disk = SimulatedDisk()
    files: OpenFiles[Opened] = OpenFiles(max_files=1, max_memory=1000)
    files.put("a", open_file(disk))
    reader = files.get("a")
    files.put("b", open_file(disk))
    assert files.get("a") is None
    assert disk.open_descriptors == 2
    del reader
    assert disk.open_descriptors == 1


def test_memory_is_bounded_but_one_file_always_fits() -> None:
    disk = SimulatedDisk()
    files: OpenFiles[Opened] = OpenFiles(max_files=10, max_memory=100)
    for key in "abc":
        files.put(key, open_file(disk, memory=45))
    assert len(files) == 2
    files.put("large", open_file(disk, memory=500))
    assert len(files) == 1
    files.put("d", open_file(disk, memory=45))
    assert files.get("large") is None
    assert files.get("d") is not None


def test_a_replaced_or_discarded_file_gives_its_memory_back() -> None:
    disk = SimulatedDisk()
    files: OpenFiles[Opened] = OpenFiles(max_files=10, max_memory=100)
    for _ in range(5):
        files.put("a", open_file(disk, memory=90))
    files.discard("a")
    files.discard("a")
    assert disk.open_descriptors == len(files) == 0
    files.put("b", open_file(disk, memory=50))
    files.put("c", open_file(disk, memory=50))
    assert len(files) == 2
