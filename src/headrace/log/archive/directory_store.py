"""An archive in a directory: on a larger disk, or on another machine's that is mounted here."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from headrace.log.archive.store import CHUNK_BYTES, StoredObject
from headrace.log.disk import SYSTEM_DISK, Disk, read_all, write_all
from headrace.log.errors import ArchiveUnavailable
from headrace.log.framing import TEMPORARY


class DirectoryStore:
    """Objects as files below a directory; made when the first is put.

    An object is written under another name, synced, and renamed, so that a crash leaves it whole
    or not there.
    """

    def __init__(self, root: Path, *, disk: Disk = SYSTEM_DISK) -> None:
        self._root = root
        self._disk = disk

    def __str__(self) -> str:
        """Name the place."""
        return str(self._root)

    def put(self, key: str, chunks: Iterable[bytes]) -> None:
        """Store an object, in place of any that has the key; on return it is safe."""
        path = self._root / key
        temporary = path.with_name(path.name + TEMPORARY)
        try:
            self._make_directory(path.parent)
            self._write(temporary, chunks)
            self._disk.replace(temporary, path)
            self._disk.sync_directory(path.parent)
        except OSError as error:
            raise _unavailable(error, path, "write") from error

    def get(self, key: str) -> Iterator[bytes]:
        """The bytes of an object, piece by piece; `FileNotFoundError` if there is none."""
        path = self._root / key
        try:
            descriptor = self._disk.open(path)
            try:
                position = 0
                while chunk := read_all(self._disk, descriptor, CHUNK_BYTES, position):
                    yield chunk
                    position += len(chunk)
            finally:
                self._disk.close(descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _unavailable(error, path, "read") from error

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object whose key begins with the path `prefix`; an empty one means all."""
        path = self._root / prefix
        try:
            names = sorted(self._disk.names(path))
        except FileNotFoundError:
            return
        except NotADirectoryError:
            yield StoredObject(prefix, self._disk.size_of(path))
            return
        except OSError as error:
            raise _unavailable(error, path, "list") from error
        for name in names:
            if not name.endswith(TEMPORARY):
                yield from self.list(f"{prefix}/{name}" if prefix else name)

    def delete(self, key: str) -> None:
        """Remove an object, if it is there; a directory that it leaves empty goes too."""
        path = self._root / key
        try:
            self._disk.unlink(path)
            while path.parent != self._root and not self._disk.names(path.parent):
                path = path.parent
                self._disk.remove_directory(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _unavailable(error, path, "delete") from error

    def _write(self, path: Path, chunks: Iterable[bytes]) -> None:
        descriptor = self._disk.create(path)
        try:
            position = 0
            for chunk in chunks:
                write_all(self._disk, descriptor, chunk, position)
                position += len(chunk)
            self._disk.sync(descriptor)
        except BaseException:
            self._disk.close(descriptor)
            self._disk.unlink(path)
            raise
        self._disk.close(descriptor)

    def _make_directory(self, path: Path) -> None:
        """Make a directory and those above it, each safe from a power loss."""
        try:
            self._disk.names(path)
        except FileNotFoundError:
            if path.parent != path:
                self._make_directory(path.parent)
            self._disk.make_directory(path)
            self._disk.sync_directory(path.parent)


def _unavailable(error: OSError, path: Path, action: str) -> ArchiveUnavailable:
    return ArchiveUnavailable(
        f"cannot {action} {path} in the archive: {error.strerror or error}; check that the "
        "directory is mounted, writable and has room"
    )
