"""What a running copy tells about itself."""

from dataclasses import dataclass
from enum import StrEnum


class Condition(StrEnum):
    """What a copy is doing."""

    STARTING = "starting"
    COPYING = "copying"
    WAITING = "waiting for another try"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(slots=True)
class CopyProgress:
    """A copy as it is now; written by its thread, read by whoever asks."""

    name: str
    condition: Condition = Condition.STARTING
    rows: int = 0
    """Rows that the store took in this run, deletions included."""

    records: int = 0
    """Records that were read in this run."""

    rejected: int = 0
    """Records that did not parse, and rows that the store refused."""

    lost: int = 0
    """Records that were deleted before they were read."""

    batches: int = 0
    behind: int | None = None
    """Records that are not copied yet."""

    behind_ms: int | None = None
    """How old the last record was when it was in the store."""

    restarts: int = 0
    failure: str | None = None
    """Why it waits or has failed; what it waited for before is forgotten when it goes on."""
