"""A small append-only file of entries, for what a broker must remember besides records.

Each entry is preceded by how much of the file was synced when it was written. That tells a torn
end, which an interrupted write leaves and which may be cut off, from damage to something that was
safe once, which may not.
"""

import logging
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Final, Self

from headrace.log.disk import SYSTEM_DISK, Disk, read_all, write_all
from headrace.log.errors import (
    CorruptFile,
    LogClosed,
    StorageError,
    StorageFailed,
    storage_error,
)
from headrace.log.framing import (
    FRAME_SIZE,
    HEADER_SIZE,
    FileFormat,
    frame,
    frames,
    publish,
    stage,
    write_framed,
)

JOURNAL_FORMAT: Final = FileFormat(b"HRJL", 2)
"""How a journal begins."""

_PREFIX: Final = struct.Struct("<QB")
_ENTRY: Final = 0
_SEAL: Final = 1

logger = logging.getLogger(__name__)


class Journal:
    """Entries in the order in which they were appended; what they mean is their owner's business.

    An entry counts once `flush` has returned. A crash before that may keep it or lose it together
    with all later ones, but never in part: `open` cuts a torn entry off and says so. A failed write
    leaves no trace; after a failed fsync nothing more is accepted until `rewrite` succeeds or the
    journal is opened again.

    All methods belong to one thread except `flush`, which blocks on the disk and may be called
    from any.
    """

    def __init__(self, path: Path, disk: Disk, descriptor: int) -> None:
        self._path = path
        self._disk = disk
        self._descriptor: int | None = descriptor
        self._failure: str | None = None
        # Held while the descriptor is used or exchanged by a thread other than the owner's.
        self._lock = Lock()
        self._synced = HEADER_SIZE
        # Whether the last thing in the file says that everything before it was synced.
        self._sealed = False
        self.size = HEADER_SIZE
        """Bytes in the file."""
        self.entry_count = 0
        """Entries in the file."""
        self.truncated_bytes = 0
        """What `open` had to cut off; anything but zero was also logged."""

    @classmethod
    def open(cls, path: Path, *, disk: Disk = SYSTEM_DISK) -> Self:
        """Open a journal, or begin one; cut off what a crash left incomplete.

        Raises `UnsupportedFormat` or `CorruptFile` if the file does not begin like a journal or is
        damaged where it was safe once, and leaves it alone then; `StorageError` if the disk
        refuses.
        """
        try:
            return cls._open(path, disk)
        except OSError as error:
            raise storage_error(error, path, "open") from error

    @property
    def dirty(self) -> bool:
        """Whether `flush` has anything to do."""
        return self._synced < self.size

    def entries(self) -> Iterator[bytes]:
        """Read all entries from the file, oldest first."""
        yield from entries_in(read_all(self._disk, self._opened(), self.size, 0))

    def append(self, payload: bytes) -> None:
        """Write an entry; it is safe after the next `flush`."""
        descriptor = self._opened()
        if self._failure is not None:
            raise StorageFailed(self._failure)
        self._write(descriptor, _ENTRY, payload)
        self.entry_count += 1
        self._sealed = False

    def flush(self) -> int:
        """Return once all that was appended before the call is on the disk: that many bytes.

        May be called from any thread.
        """
        with self._lock:
            size = self.size
            descriptor = self._opened()
            if self._failure is not None:
                raise StorageFailed(self._failure)
            try:
                self._disk.sync(descriptor)
            except OSError as error:
                # The kernel may drop the pages it could not write, and the next fsync succeeds.
                raise self._fail(storage_error(error, self._path, "fsync")) from error
            self._synced = size
            return size

    def rewrite(self, payloads: Iterable[bytes]) -> None:
        """Replace all entries; a crash leaves either the old ones or the new ones, on the disk."""
        with self._lock:
            replaced = self._opened()
            kept = [_PREFIX.pack(HEADER_SIZE, _ENTRY) + payload for payload in payloads]
            try:
                descriptor, size = stage(self._disk, self._path, JOURNAL_FORMAT, kept)
            except OSError as error:
                raise storage_error(error, self._path, "rewrite") from error
            self._descriptor = descriptor
            self._disk.close(replaced)
            try:
                publish(self._disk, self._path)
            except OSError as error:
                # Which of the two files has the name now is unknown, so neither may be used.
                raise self._fail(storage_error(error, self._path, "rewrite")) from error
            self._failure = None
            self._sealed = False
            self.size = self._synced = size
            self.entry_count = len(kept)

    def close(self) -> None:
        """Flush, then let go of the file; more than once does no harm."""
        if self._descriptor is None:
            return
        try:
            if self._failure is None:
                self.flush()
                self._seal()
        finally:
            with self._lock:
                self._disk.close(self._descriptor)
                self._descriptor = None

    def __enter__(self) -> Self:
        """Use it in a `with` statement."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    @classmethod
    def _open(cls, path: Path, disk: Disk) -> Self:
        try:
            descriptor = disk.open(path)
        except FileNotFoundError:
            write_framed(disk, path, JOURNAL_FORMAT, ())
            descriptor = disk.open(path)
        try:
            journal = cls(path, disk, descriptor)
            journal._recover()
        except BaseException:
            disk.close(descriptor)
            raise
        return journal

    def _opened(self) -> int:
        if self._descriptor is None:
            raise LogClosed(f"journal {self._path} is closed; open it again")
        return self._descriptor

    def _recover(self) -> None:
        descriptor = self._opened()
        found = self._disk.size(descriptor)
        data = read_all(self._disk, descriptor, found, 0)
        JOURNAL_FORMAT.check(data, self._path)
        for end, payload in frames(data):
            self.size = end
            self._sealed = _is_seal(payload)
            self.entry_count += not self._sealed
        self.truncated_bytes = found - self.size
        if self.truncated_bytes:
            if _vouched(data, self.size) > self.size:
                raise CorruptFile(
                    f"{self._path} is damaged at byte {self.size}, after {self.entry_count} "
                    f"entries, and {self.truncated_bytes} bytes from there on were safe once: "
                    "restore the file from a copy; nothing in it was changed"
                )
            logger.warning(
                "cut %d bytes off %s, after %d entries: its last write was interrupted",
                self.truncated_bytes,
                self._path,
                self.entry_count,
            )
            self._disk.truncate(descriptor, self.size)
        # What survived a crash of the process may still be in memory only, and is believed now.
        self._disk.sync(descriptor)
        self._synced = self.size

    def _seal(self) -> None:
        """Note at the end of the file that all of it was synced."""
        if not self._sealed and self.entry_count:
            self._write(self._opened(), _SEAL)
            self._sealed = True
            self.flush()

    def _write(self, descriptor: int, kind: int, payload: bytes = b"") -> None:
        data = frame(_PREFIX.pack(self._synced, kind) + payload)
        try:
            write_all(self._disk, descriptor, data, self.size)
        except OSError as error:
            self._undo_append(descriptor)
            raise storage_error(error, self._path, "append to") from error
        self.size += len(data)

    def _undo_append(self, descriptor: int) -> None:
        try:
            self._disk.truncate(descriptor, self.size)
        except OSError as error:
            self._fail(storage_error(error, self._path, "cut a failed write off"))

    def _fail(self, error: StorageError) -> StorageFailed:
        self._failure = f"{error}; nothing is accepted until the journal is opened again"
        return StorageFailed(self._failure)


def entries_in(data: bytes) -> Iterator[bytes]:
    """The entries in a journal's bytes, up to the first that is torn."""
    for _, payload in frames(data):
        if not _is_seal(payload):
            yield payload[_PREFIX.size :]


def _is_seal(payload: bytes) -> bool:
    return payload[_PREFIX.size - 1] == _SEAL


def _vouched(data: bytes, position: int) -> int:
    """How much of a file was synced once, by what intact entries beyond a position say."""
    synced = 0
    last = len(data) - FRAME_SIZE - _PREFIX.size
    while position < last:
        position += 1
        for end, payload in frames(data, position):
            if len(payload) < _PREFIX.size:
                break
            claimed, _ = _PREFIX.unpack_from(payload)
            if claimed > position:
                break
            synced = max(synced, claimed)
            position = end
    return synced
