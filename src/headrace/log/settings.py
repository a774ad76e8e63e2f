"""How one partition's log behaves."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

DAY_MS: Final = 24 * 60 * 60 * 1000
"""Kafka's default for how long tombstones stay."""

WEEK_MS: Final = 7 * DAY_MS
"""Kafka's default for both the age of a segment and the retention of records."""

MAX_SEGMENT_BYTES: Final = (1 << 31) - 1
"""Kafka's own limit; it also keeps positions within the four bytes they have in an index."""


class Flush(StrEnum):
    """When written records are forced to the disk."""

    ACK = "ack"
    """Before they are acknowledged or shown to readers; a power loss costs nothing."""

    INTERVAL = "interval"
    """Every so often; a power loss costs what was written since."""

    OS = "os"
    """When the operating system likes; a crash of the process alone still costs nothing."""


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """When a log is compacted that keeps the latest value of each key."""

    min_dirty_ratio: float = 0.5
    """How much of the log must be uncompacted before it is worth the effort."""

    min_lag_ms: int = 0
    """How long every record stays, whatever comes after it."""

    max_lag_ms: int = (1 << 63) - 1
    """After how long a record is compacted, however little there is to gain."""

    delete_retention_ms: int = DAY_MS
    """How long a tombstone stays once it has done its work, so that readers get to see it."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What can be set per topic; a negative retention means no limit."""

    segment_bytes: int = 1 << 30
    """A segment that would grow beyond this is sealed first."""

    segment_ms: int = WEEK_MS
    """A segment older than this is sealed even if it is small."""

    retention_bytes: int = -1
    """Whole segments go while the rest still holds at least this much."""

    retention_ms: int = WEEK_MS
    """Segments whose newest record is older than this go."""

    local_retention_bytes: int = -1
    """The same for what is on the local disk, of a log whose segments are archived."""

    local_retention_ms: int = -1
    """The same for what is on the local disk, of a log whose segments are archived."""

    index_interval_bytes: int = 4096
    """How far apart index entries are at least; what a cold read may have to search."""

    flush: Flush = Flush.ACK
    """When written records are forced to the disk."""

    delete: bool = True
    """Whether retention applies; false for topics that are only compacted."""

    compaction: CompactionPolicy | None = None
    """When only the latest value of each key is kept; None where everything is."""

    def local(self) -> "LogSettings":
        """The same, with the retention of archived segments' local copies in place of the whole."""
        return replace(
            self,
            retention_bytes=self.local_retention_bytes,
            retention_ms=self.local_retention_ms,
        )

    def __post_init__(self) -> None:
        """Refuse settings under which a log could not work."""
        if not 1 <= self.segment_bytes <= MAX_SEGMENT_BYTES:
            raise ValueError(
                f"segment_bytes is {self.segment_bytes}; set it between 1 and {MAX_SEGMENT_BYTES}"
            )
        if self.segment_ms < 1:
            raise ValueError(f"segment_ms is {self.segment_ms}; set it to at least 1")
        if self.index_interval_bytes < 0:
            raise ValueError(
                f"index_interval_bytes is {self.index_interval_bytes}; set it to 0 or more"
            )
