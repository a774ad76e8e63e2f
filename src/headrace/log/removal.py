"""Files that nothing refers to any more, until somebody has the time to remove them.

Removing a large file may take the file system a while, so it is never done where records are
appended or read.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.log.disk import Disk
from headrace.log.errors import StorageFull, storage_error

DELETED: Final = ".deleted"
"""Ends the name of a directory that is on its way out."""


@dataclass(frozen=True, slots=True)
class DoomedDirectory:
    """A partition's directory that has already lost its name."""

    path: Path
    disk: Disk

    def remove(self) -> None:
        """Remove its files, then the directory; from any thread.

        Raises `StorageFailed` if the disk refuses; opening the data directory tries again.
        """
        try:
            for name in self.disk.names(self.path):
                self.disk.unlink(self.path / name)
            self.disk.remove_directory(self.path)
        except OSError as error:
            raise storage_error(error, self.path, "remove") from error


@dataclass(frozen=True, slots=True)
class Retired:
    """Segments that have left the log; readers who hold a slice of one can finish it."""

    files: Sequence[Path]
    """What `remove` will remove."""

    segments: int
    """How many segments these files were."""

    bytes: int
    """How many bytes of records they hold."""

    disk: Disk
    save_start: Callable[[], bool]
    """Makes the log's new start durable; false if the log was given up."""

    def __bool__(self) -> bool:
        """Whether there is anything to remove."""
        return bool(self.files)

    def remove(self) -> None:
        """Remove the files; from any thread, once.

        The log's new start is made durable first: were only some of the files gone after a power
        loss, the others would otherwise come back with a hole among them. If the log was abandoned
        meanwhile, the files are left to whoever opens or deletes it. Raises `StorageFailed` if the
        disk refuses; opening the log tries again.
        """
        remaining = deque(self.files)
        while remaining:
            try:
                if self.save_start():
                    break
                return
            except StorageFull:
                # There is no other way to get the room for a note of what is gone.
                self._unlink(remaining.popleft())
        for path in remaining:
            self._unlink(path)

    def _unlink(self, path: Path) -> None:
        try:
            self.disk.unlink(path)
        except OSError as error:
            raise storage_error(error, path, "remove") from error
