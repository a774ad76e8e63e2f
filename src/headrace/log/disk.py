"""The only door to the file system for files that matter.

Everything the log promises about crashes rests on the order of these few calls, so tests replace
this object with one that forgets whatever was not synced, or that is full, or that fails. The real
one adds nothing to the system calls themselves.
"""

import fcntl
import os
import sys
from pathlib import Path
from typing import Final, Protocol

from headrace.records import Readable

_MODE: Final = 0o640


class Disk(Protocol):
    """File system calls, on descriptors and on names. All of them may raise `OSError`."""

    def open(self, path: Path) -> int:
        """Open an existing file for reading and writing."""
        ...

    def create(self, path: Path) -> int:
        """Create a file, or empty the one that is there, for reading and writing."""
        ...

    def close(self, descriptor: int, /) -> None:
        """Let go of a descriptor."""
        ...

    def size(self, descriptor: int) -> int:
        """How many bytes an open file has."""
        ...

    def pread(self, descriptor: int, count: int, position: int, /) -> bytes:
        """Read at most `count` bytes; fewer only at the end of the file."""
        ...

    def send_file(self, socket: int, descriptor: int, position: int, count: int, /) -> int:
        """Send some of a file to a socket, and say how many bytes; none only at its end."""
        ...

    def pwrite(self, descriptor: int, data: Readable, position: int, /) -> int:
        """Write some of `data`, and say how many bytes."""
        ...

    def truncate(self, descriptor: int, size: int, /) -> None:
        """Cut a file to `size` bytes."""
        ...

    def sync(self, descriptor: int, /) -> None:
        """Return once a file's bytes and size are on the disk; its name may still not be."""
        ...

    def forget_cached(self, descriptor: int, /) -> None:
        """Let what is read next of a file come from the disk, if the system can do that."""
        ...

    def make_directory(self, path: Path) -> None:
        """Make a directory, and those above it, unless they are there."""
        ...

    def names(self, path: Path) -> list[str]:
        """What a directory contains."""
        ...

    def size_of(self, path: Path) -> int:
        """How many bytes the file of that name has."""
        ...

    def replace(self, source: Path, target: Path) -> None:
        """Give a file or directory another name, atomically."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove a file, if it is there."""
        ...

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Return once the names in a directory are on the disk."""
        ...

    def lock(self, path: Path) -> int | None:
        """Take the exclusive lock that a file stands for, until closed; None if it is taken."""
        ...


if sys.platform == "darwin":  # pragma: no cover
    # There, fsync leaves the bytes in the drive's cache.
    def _sync(descriptor: int, /) -> None:
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
else:
    _sync = os.fdatasync


class SystemDisk:
    """The operating system's files."""

    close = staticmethod(os.close)
    pread = staticmethod(os.pread)
    send_file = staticmethod(os.sendfile)
    pwrite = staticmethod(os.pwrite)
    truncate = staticmethod(os.ftruncate)
    sync = staticmethod(_sync)

    def open(self, path: Path) -> int:
        """Open an existing file for reading and writing."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def create(self, path: Path) -> int:
        """Create a file, or empty the one that is there, for reading and writing."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE)

    def size(self, descriptor: int) -> int:
        """How many bytes an open file has."""
        return os.fstat(descriptor).st_size

    def forget_cached(self, descriptor: int, /) -> None:
        """Let what is read next of a file come from the disk, if the system can do that."""
        if sys.platform == "linux":
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def make_directory(self, path: Path) -> None:
        """Make a directory, and those above it, unless they are there."""
        path.mkdir(parents=True, exist_ok=True)

    def names(self, path: Path) -> list[str]:
        """What a directory contains."""
        return [entry.name for entry in path.iterdir()]

    def size_of(self, path: Path) -> int:
        """How many bytes the file of that name has."""
        return path.stat().st_size

    def replace(self, source: Path, target: Path) -> None:
        """Give a file or directory another name, atomically."""
        source.replace(target)

    def unlink(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory."""
        path.rmdir()

    def sync_directory(self, path: Path) -> None:
        """Return once the names in a directory are on the disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: Path) -> int | None:
        """Take the exclusive lock that a file stands for, until closed; None if it is taken."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


SYSTEM_DISK: Final = SystemDisk()
"""The disk that is used unless a test brings another."""


def write_all(disk: Disk, descriptor: int, data: Readable, position: int) -> None:
    """Write all of `data`, however often the system stops short."""
    written = disk.pwrite(descriptor, data, position)
    if written == len(data):
        return
    with memoryview(data) as rest:
        while written < len(rest):
            written += disk.pwrite(descriptor, rest[written:], position + written)


def read_all(disk: Disk, descriptor: int, count: int, position: int) -> bytes:
    """Read `count` bytes, or as many as there are before the end of the file."""
    data = disk.pread(descriptor, count, position)
    if len(data) == count or not data:
        return data
    # One call returns at most 2 GiB, and a network file system less.
    parts = [data]
    count -= len(data)
    position += len(data)
    while count and (data := disk.pread(descriptor, count, position)):
        parts.append(data)
        count -= len(data)
        position += len(data)
    return b"".join(parts)
