"""Open files: how they stay readable while somebody needs them, and how few there are otherwise."""

from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Final, Generic, Protocol, Self, TypeVar

from headrace.log.disk import Disk, read_all
from headrace.log.errors import storage_error


class FileHandle:
    """An open file; it closes when nothing refers to it any more.

    A reader that holds one can read on although the segment was deleted meanwhile, or its place
    among the open files was given to another.
    """

    __slots__ = ("descriptor", "disk", "path")

    def __init__(self, disk: Disk, path: Path, descriptor: int) -> None:
        self.disk = disk
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def open(cls, disk: Disk, path: Path) -> Self:
        """Open an existing file; raises `StorageFailed` if that is not possible."""
        try:
            return cls(disk, path, disk.open(path))
        except OSError as error:
            raise storage_error(error, path, "open") from error

    def read(self, count: int, position: int) -> bytes:
        """Read `count` bytes, or as many as there are; raises `StorageFailed` if the disk does."""
        try:
            return read_all(self.disk, self.descriptor, count, position)
        except OSError as error:
            raise storage_error(error, self.path, "read") from error

    def send(self, socket: int, position: int, count: int) -> int:
        """Send up to `count` bytes to a socket that does not block, and say how many it took."""
        return self.disk.send_file(socket, self.descriptor, position, count)

    def fileno(self) -> int:
        """The operating system's number for it."""
        return self.descriptor

    def __del__(self) -> None:
        """Close it."""
        self.disk.close(self.descriptor)


class Weighed(Protocol):
    """Something that occupies memory besides its file."""

    @property
    def memory(self) -> int:
        """How many bytes."""
        ...


V = TypeVar("V", bound=Weighed)
"""What is kept open."""


class OpenFiles(Generic[V]):
    """The most recently used files, up to a number of them and to an amount of memory.

    Being dropped from here closes a file only once its last reader has let go of it. May be used
    from any thread.
    """

    def __init__(self, max_files: int, max_memory: int) -> None:
        self._max_files = max_files
        self._max_memory = max_memory
        self._memory = 0
        self._lock = Lock()
        self._open: OrderedDict[object, V] = OrderedDict()

    def __len__(self) -> int:
        """How many files are kept open."""
        return len(self._open)

    def get(self, key: object) -> V | None:
        """The open file of that key, which counts as a use; None if it is not open."""
        with self._lock:
            found = self._open.get(key)
            if found is not None:
                self._open.move_to_end(key)
            return found

    def put(self, key: object, value: V) -> None:
        """Keep a file open, in exchange for the ones that were not used for longest."""
        dropped = []
        with self._lock:
            replaced = self._open.pop(key, None)
            if replaced is not None:
                self._memory -= replaced.memory
                dropped.append(replaced)
            self._open[key] = value
            self._memory += value.memory
            while len(self._open) > 1 and (
                len(self._open) > self._max_files or self._memory > self._max_memory
            ):
                _, oldest = self._open.popitem(last=False)
                self._memory -= oldest.memory
                dropped.append(oldest)

    def discard(self, key: object) -> None:
        """Keep a file open no longer."""
        with self._lock:
            dropped = self._open.pop(key, None)
            if dropped is not None:
                self._memory -= dropped.memory


MAX_OPEN_SEGMENTS: Final = 512
"""How many sealed segments a process keeps open for its readers."""

MAX_INDEX_MEMORY: Final = 64 << 20
"""How many bytes of their indexes it keeps in memory."""
