"""The directory that holds everything a broker keeps, and the lock that gives it to one process."""

import base64
import json
import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from headrace.log.disk import SYSTEM_DISK, Disk, write_all
from headrace.log.errors import (
    CorruptFile,
    DirectoryInUse,
    DirectoryUnusable,
    InvalidName,
    LogClosed,
    StorageError,
    storage_error,
)
from headrace.log.framing import FileFormat, read_framed, write_framed
from headrace.log.journal import Journal
from headrace.log.removal import DELETED, DoomedDirectory

META_FORMAT: Final = FileFormat(b"HRMT", 1)
"""How the file begins that makes a directory a data directory."""

META: Final = "headrace.meta"
LOCK: Final = ".lock"
JOURNAL_SUFFIX: Final = ".journal"

MAX_FILE_NAME: Final = 255
"""What every file system allows."""

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_JOURNAL: Final = re.compile(r"[a-z][a-z0-9-]{0,63}")
_PARTITION: Final = re.compile(rf"({_TOPIC.pattern})-(0|[1-9][0-9]{{0,9}})")
_FOREIGN_BUT_HARMLESS: Final = frozenset({"lost+found"})


logger = logging.getLogger(__name__)


class PartitionDirectory(NamedTuple):
    """Where one partition's log lives."""

    topic: str
    partition: int
    path: Path


class DataDirectory:
    """One directory, held by one process at a time.

    `open` makes it if it is missing, takes its lock, checks that this version can read it and
    finishes deletions that a crash interrupted. The lock goes with the process, however it ends.
    """

    def __init__(self, path: Path, disk: Disk, lock: int, cluster_id: str) -> None:
        self.path = path
        self.cluster_id = cluster_id
        """Made up when the directory was, and never changed: 22 URL-safe letters, as Kafka's."""
        self.disk = disk
        """How its files are reached; the logs in it use the same."""
        self._lock: int | None = lock

    @classmethod
    def open(cls, path: Path, *, disk: Disk = SYSTEM_DISK) -> Self:
        """Open a data directory, or make one.

        Raises `DirectoryInUse` if another process holds it, `DirectoryUnusable` if it cannot be
        one, and `UnsupportedFormat` if another version wrote it.
        """
        path = path.absolute()
        try:
            _make_directories(path, disk)
            lock = _take_lock(path, disk)
        except (FileExistsError, NotADirectoryError) as error:
            raise DirectoryUnusable(
                f"{error.filename or path} is not a directory; choose another data directory"
            ) from error
        except OSError as error:
            raise DirectoryUnusable(
                f"cannot use {path} as data directory: {error.strerror or error}; make it writable "
                "for this user or choose another"
            ) from error
        try:
            directory = cls(path, disk, lock, _identify(path, disk))
            directory._finish_deletions()
        except OSError as error:
            disk.close(lock)
            raise storage_error(error, path, "open the data directory") from error
        except BaseException:
            disk.close(lock)
            raise
        return directory

    def partition_path(self, topic: str, partition: int) -> Path:
        """Where a partition's log lives; `InvalidName` if the topic could escape from here."""
        if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
            raise InvalidName(
                f"{topic!r} cannot name a topic; use up to 249 letters, digits, '.', '_' and '-'"
            )
        if partition < 0:
            raise InvalidName(f"{partition} cannot number a partition; count from 0")
        return self._opened() / f"{topic}-{partition}"

    def partitions(self) -> Sequence[PartitionDirectory]:
        """All partitions that have a directory here, by name."""
        path = self._opened()
        found = []
        for name in sorted(self.disk.names(path)):
            match = _PARTITION.fullmatch(name)
            if match and not name.endswith(DELETED):
                found.append(PartitionDirectory(match[1], int(match[2]), path / name))
        return found

    def delete_partition(self, topic: str, partition: int) -> DoomedDirectory:
        """Take a partition's directory away; its files go with the result's `remove`.

        The name is free at once, even if the process ends before the files are gone. The log must
        have been closed or abandoned. Raises `StorageError` if the disk refuses.
        """
        path = self.partition_path(topic, partition)
        ending = f".{os.urandom(8).hex()}{DELETED}"
        doomed = path.with_name(path.name[: MAX_FILE_NAME - len(ending)] + ending)
        try:
            self.disk.replace(path, doomed)
            self.disk.sync_directory(self.path)
        except OSError as error:
            raise storage_error(error, path, "delete") from error
        return DoomedDirectory(doomed, self.disk)

    def journal(self, name: str) -> Journal:
        """Open the journal of that name, or begin it."""
        if not _JOURNAL.fullmatch(name):
            raise InvalidName(f"{name!r} cannot name a journal; use small letters, digits and '-'")
        return Journal.open(self._opened() / (name + JOURNAL_SUFFIX), disk=self.disk)

    def close(self) -> None:
        """Give the directory back; more than once does no harm."""
        if self._lock is not None:
            self.disk.close(self._lock)
            self._lock = None

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

    def _opened(self) -> Path:
        if self._lock is None:
            raise LogClosed(f"data directory {self.path} is closed; open it again")
        return self.path

    def _finish_deletions(self) -> None:
        for name in self.disk.names(self.path):
            if name.endswith(DELETED):
                try:
                    DoomedDirectory(self.path / name, self.disk).remove()
                except StorageError as error:
                    logger.warning("a deleted partition still takes up space: %s", str(error))


def _make_directories(path: Path, disk: Disk) -> None:
    """Make a directory and those above it, each safe from a power loss, unless they are there."""
    try:
        disk.names(path)
    except FileNotFoundError:
        _make_directories(path.parent, disk)
        disk.make_directory(path)
        disk.sync_directory(path.parent)


def _take_lock(path: Path, disk: Disk) -> int:
    lock = disk.lock(path / LOCK)
    if lock is None:
        raise DirectoryInUse(
            f"data directory {path} is in use by {_holder(path, disk)}; stop that broker first, or "
            "give this one a directory of its own"
        )
    try:
        disk.truncate(lock, 0)
        write_all(disk, lock, f"{os.getpid()}\n".encode(), 0)
    except BaseException:
        disk.close(lock)
        raise
    return lock


def _holder(path: Path, disk: Disk) -> str:
    descriptor = disk.open(path / LOCK)
    try:
        pid = disk.pread(descriptor, 20, 0).decode(errors="replace").strip()
    finally:
        disk.close(descriptor)
    return f"process {pid}" if pid else "another process"


def _identify(path: Path, disk: Disk) -> str:
    names = set(disk.names(path))
    if META in names:
        (payload,) = read_framed(disk, path / META, META_FORMAT, 1)
        try:
            return str(json.loads(payload)["cluster_id"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFile(f"{path / META} holds no cluster id; restore it") from error
    foreign = sorted(
        name for name in names - _FOREIGN_BUT_HARMLESS if not name.startswith((".", META))
    )
    if foreign:
        raise DirectoryUnusable(
            f"{path} contains {foreign[0]!r} but is not a Headrace data directory; choose an empty "
            "or a new one"
        )
    cluster_id = _new_cluster_id()
    write_framed(disk, path / META, META_FORMAT, [json.dumps({"cluster_id": cluster_id}).encode()])
    return cluster_id


def _new_cluster_id() -> str:
    while True:
        cluster_id = base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()
        # A leading dash would look like an option on a command line.
        if not cluster_id.startswith("-"):
            return cluster_id
