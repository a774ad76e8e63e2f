"""What the log refuses or cannot do."""

import errno
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.log.segment import Segment


class LogError(HeadraceError):
    """The log refused, or could not do, what was asked of it."""


class OffsetOutOfRange(LogError):
    """A reader asked for an offset that the log no longer has, or does not have yet."""

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(offset, start, end)
        self.offset = offset
        self.start = start
        self.end = end

    def __str__(self) -> str:
        """Say which offsets there are, and what to do with the one that is not."""
        if self.offset < self.start:
            advice = "those records were deleted or expired; continue from the log's start"
        else:
            advice = "nothing was written there yet; continue from the log's end"
        return f"offset {self.offset} is outside {self.start} to {self.end}: {advice}"


class StorageError(LogError):
    """The disk did not take what was written; nothing of it was kept."""


class StorageFull(StorageError):
    """The disk is full, or its quota is; writing works again as soon as there is room."""


class StorageFailed(StorageError):
    """The disk failed. If an fsync failed, writing stays refused until the file is reopened."""


class LogClosed(LogError):
    """The log was closed or deleted; open it again."""


class RewriteRefused(LogError):
    """Rewritten files cannot take the place of segments, or not now; the log stays as it is."""


class UnsupportedFormat(LogError):
    """A file is not what its name promises, or was written by a newer version."""


class CorruptFile(LogError):
    """A file that must be whole is damaged."""


class CorruptRecords(LogError):
    """Records at the offset asked for are damaged; those before and after are not."""

    def __init__(self, damage: str, next_offset: int) -> None:
        super().__init__(damage, next_offset)
        self.damage = damage
        self.next_offset = next_offset

    def __str__(self) -> str:
        """Say what is damaged, and what to do."""
        return f"{self.damage}; restore the file from a copy, or go on at offset {self.next_offset}"


class Unverified(LogError):
    """Nobody has looked yet whether this segment is still what was written; verify it first."""

    def __init__(self, segment: "Segment") -> None:
        super().__init__("the segment is not verified yet")
        self.segment = segment


class DirectoryUnusable(LogError):
    """The data directory cannot be used; the message says what to change."""


class DirectoryInUse(DirectoryUnusable):
    """Another process holds the data directory."""


class InvalidName(LogError):
    """A topic or journal name that cannot become a file name."""


class ArchiveError(LogError):
    """The archive refused, or could not do, what was asked of it."""


class ArchiveUnavailable(ArchiveError):
    """The store cannot be reached, is full or forbids it; the same may work a little later."""


class ArchiveDamaged(ArchiveError):
    """What the archive returns is not what was put there, or something is missing."""


class ArchiveRefused(ArchiveError):
    """The archive is not one, or belongs to somebody else; the message says what to change."""


class ProducerError(LogError):
    """An idempotent producer's batch does not continue what it wrote before."""


class OutOfOrderSequence(ProducerError):
    """A batch is missing between this one and the producer's last, or it is a very old one."""


class StaleProducerEpoch(ProducerError):
    """A newer instance of the producer has taken over; this one must stop."""


class InvalidTransactionState(ProducerError):
    """A producer wrote outside of the transaction that it has open."""


def storage_error(error: OSError, path: Path, action: str) -> StorageError:
    """Turn what the operating system said into what a caller can act on."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(
            f"cannot {action} {path}: no space left; free some space, lower the retention or "
            "move the data directory to a larger disk"
        )
    return StorageFailed(
        f"cannot {action} {path}: {error.strerror or error}; check the disk and the system's log"
    )
