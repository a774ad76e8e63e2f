"""A disk in memory that can lose power, fill up and fail, on demand and reproducibly.

It keeps two versions of everything: what the running system sees, and what was synced. A power
loss leaves, of every file, any mixture of the two, sector by sector; of every directory, the synced
names plus any number of the changes that followed, in their order. POSIX promises no more than
that, so nothing more may be relied on.
"""

import errno
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TypeAlias

from headrace.records import Readable

SECTOR = 512
"""What a drive writes atomically."""


class Died(Exception):
    """The process ended in the middle of something."""


class File:
    """Bytes, and the bytes that would still be there after a power loss."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.synced = data

    def after_power_loss(self, random: Random) -> "File":
        now, synced = bytes(self.data), self.synced
        if now == synced:
            return File(now)
        size = random.choice(
            [len(now), len(synced), random.randint(*sorted((len(now), len(synced))))]
        )
        kept = random.choice([0.0, 0.5, 0.9, 1.0])
        result = bytearray()
        for start in range(0, size, SECTOR):
            source = now if random.random() < kept else synced
            result += source[start : start + SECTOR].ljust(SECTOR, b"\0")
        return File(bytes(result[:size]))


class Directory:
    """Names, and the names they were by the time of the last sync and of every change since."""

    def __init__(self, entries: "Entries | None" = None) -> None:
        self.entries: Entries = entries or {}
        self.versions: list[Entries] = [self.entries]

    def change(self, entries: "Entries") -> None:
        self.entries = entries
        self.versions.append(entries)

    def sync(self) -> None:
        self.versions = [self.entries]

    def after_power_loss(self, random: Random) -> "Directory":
        entries = random.choice(self.versions)
        return Directory({name: node.after_power_loss(random) for name, node in entries.items()})


Entries: TypeAlias = dict[str, File | Directory]


class SimulatedDisk:
    """A `headrace.log.Disk` that can be told what to do to whoever relies on it."""

    def __init__(self, root: Directory | None = None) -> None:
        self._root = root or Directory()
        self._open: dict[int, File] = {}
        self._locked: dict[int, File] = {}
        self._next_descriptor = 3
        self._failures: dict[str, int] = {}
        self._steps_left: int | None = None
        self.capacity: int | None = None
        self.calls: Counter[str] = Counter()

    # What tests do to it

    def after_power_loss(self, random: Random) -> "SimulatedDisk":
        """The disk that the next process finds after a power loss."""
        return SimulatedDisk(self._root.after_power_loss(random))

    def after_kill(self) -> "SimulatedDisk":
        """The disk that the next process finds if only this one was killed."""
        return SimulatedDisk(self._root)

    @contextmanager
    def failing(self, *operations: str, error: int = errno.EIO) -> Iterator[None]:
        """Let these operations fail for a while."""
        self._failures.update(dict.fromkeys(operations, error))
        try:
            yield
        finally:
            for operation in operations:
                del self._failures[operation]

    def die_after(self, steps: int) -> None:
        """Let the process end, with `Died`, after so many more operations."""
        self._steps_left = steps

    @contextmanager
    def full(self, room: int = 0) -> Iterator[None]:
        """Have room for no more than this many bytes for a while."""
        self.capacity = self.used + room
        try:
            yield
        finally:
            self.capacity = None

    @property
    def used(self) -> int:
        """Bytes in all files that have a name."""
        return sum(len(file.data) for file in self.files().values())

    @property
    def open_descriptors(self) -> int:
        """How many files are open."""
        return len(self._open)

    def files(self) -> dict[Path, File]:
        """All files by path."""
        return dict(_walk(self._root, Path("/")))

    def file(self, path: Path) -> File:
        """One file."""
        return self.files()[path]

    # What the log does with it

    def open(self, path: Path) -> int:
        self._enter("open")
        return self._descriptor(self._file(path))

    def create(self, path: Path) -> int:
        self._enter("create")
        directory = self._directory(path.parent)
        if path.name not in directory.entries:
            directory.change(directory.entries | {path.name: File()})
        file = self._file(path)
        file.data.clear()
        return self._descriptor(file)

    def close(self, descriptor: int, /) -> None:
        del self._open[descriptor]
        self._locked.pop(descriptor, None)

    def size(self, descriptor: int) -> int:
        return len(self._open[descriptor].data)

    def size_of(self, path: Path) -> int:
        return len(self._file(path).data)

    def pread(self, descriptor: int, count: int, position: int, /) -> bytes:
        self._enter("pread")
        return bytes(self._open[descriptor].data[position : position + count])

    def send_file(self, socket: int, descriptor: int, position: int, count: int, /) -> int:
        return os.write(socket, self.pread(descriptor, count, position))

    def pwrite(self, descriptor: int, data: Readable, position: int, /) -> int:
        self._enter("pwrite")
        target = self._open[descriptor].data
        chunk = bytes(data)
        if self.capacity is not None:
            room = self.capacity - self.used + max(len(target) - position, 0)
            if room <= 0 < len(chunk):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            chunk = chunk[:room]
        if position > len(target):
            target.extend(bytes(position - len(target)))
        target[position : position + len(chunk)] = chunk
        return len(chunk)

    def truncate(self, descriptor: int, size: int, /) -> None:
        self._enter("truncate")
        del self._open[descriptor].data[size:]

    def sync(self, descriptor: int, /) -> None:
        self._enter("sync")
        file = self._open[descriptor]
        file.synced = bytes(file.data)

    def make_directory(self, path: Path) -> None:
        self._enter("make_directory")
        directory = self._root
        for name in path.parts[1:]:
            node = directory.entries.get(name)
            if node is None:
                node = Directory()
                directory.change(directory.entries | {name: node})
            if not isinstance(node, Directory):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            directory = node

    def names(self, path: Path) -> list[str]:
        return list(self._directory(path).entries)

    def replace(self, source: Path, target: Path) -> None:
        self._enter("replace")
        assert source.parent == target.parent
        directory = self._directory(source.parent)
        moved = self._node(source)
        directory.change(_without(directory.entries, source.name) | {target.name: moved})

    def unlink(self, path: Path) -> None:
        self._enter("unlink")
        directory = self._directory(path.parent)
        if path.name in directory.entries:
            directory.change(_without(directory.entries, path.name))

    def remove_directory(self, path: Path) -> None:
        self._enter("remove_directory")
        assert not self._directory(path).entries
        directory = self._directory(path.parent)
        directory.change(_without(directory.entries, path.name))

    def forget_cached(self, descriptor: int, /) -> None:
        self._enter("forget_cached")

    def sync_directory(self, path: Path) -> None:
        self._enter("sync_directory")
        self._directory(path).sync()

    def lock(self, path: Path) -> int | None:
        if path.name not in self._directory(path.parent).entries:
            self.close(self.create(path))
        descriptor = self.open(path)
        if self._open[descriptor] in self._locked.values():
            self.close(descriptor)
            return None
        self._locked[descriptor] = self._open[descriptor]
        return descriptor

    def _enter(self, operation: str) -> None:
        self.calls[operation] += 1
        if self._steps_left is not None:
            if self._steps_left == 0:
                raise Died(operation)
            self._steps_left -= 1
        if operation in self._failures:
            error = self._failures[operation]
            raise OSError(error, os.strerror(error))

    def _descriptor(self, file: File) -> int:
        self._next_descriptor += 1
        self._open[self._next_descriptor] = file
        return self._next_descriptor

    def _node(self, path: Path) -> File | Directory:
        node: File | Directory = self._root
        for name in path.parts[1:]:
            if not isinstance(node, Directory):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
            if name not in node.entries:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            node = node.entries[name]
        return node

    def _directory(self, path: Path) -> Directory:
        node = self._node(path)
        if not isinstance(node, Directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        return node

    def _file(self, path: Path) -> File:
        node = self._node(path)
        if not isinstance(node, File):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        return node


def _without(entries: Entries, name: str) -> Entries:
    return {other: node for other, node in entries.items() if other != name}


def _walk(directory: Directory, path: Path) -> Iterator[tuple[Path, File]]:
    for name, node in directory.entries.items():
        if isinstance(node, Directory):
            yield from _walk(node, path / name)
        else:
            yield path / name, node
