"""What a running capture tells about itself."""

import os
import socket
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any


class Condition(StrEnum):
    """What a capture is doing."""

    STARTING = "starting"
    READING = "reading tables"
    FOLLOWING = "following"
    PAUSED = "paused"
    WAITING = "waiting for another try"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(slots=True)
class TableProgress:
    """How far the reading of a table has got."""

    table: str
    rows: int
    estimate: int
    done: bool


@dataclass(slots=True)
class CaptureProgress:
    """A capture as it is now; written by its threads, read by whoever asks."""

    name: str
    condition: Condition = Condition.STARTING
    changes: int = 0
    """Changes of rows that were committed to the log in this run."""

    rows_read: int = 0
    """Rows that snapshots told in this run."""

    transactions: int = 0
    position: str | None = None
    behind_bytes: int | None = None
    retained_bytes: int | None = None
    behind_ms: int | None = None
    """How old the last change was when it was committed to the log; 0 when nothing waits."""

    restarts: int = 0
    failure: str = ""
    """Why it waits for another try, or failed."""

    tables: list[TableProgress] = field(default_factory=list)

    def become(self, other: "CaptureProgress") -> None:
        """Tell the same as another one, field by field, to those who hold this one."""
        for each in fields(self):
            setattr(self, each.name, getattr(other, each.name))

    def told(self) -> dict[str, Any]:
        """What people are told who ask from elsewhere."""
        return {
            "condition": self.condition.value,
            "changes": self.changes,
            "rows_read": self.rows_read,
            "behind_bytes": self.behind_bytes,
            "retained_bytes": self.retained_bytes,
            "behind_ms": self.behind_ms,
            "failure": self.failure,
            "restarts": self.restarts,
        }

    def status(self, now_ms: int) -> dict[str, Any]:
        """The same as it is stored, with when and where."""
        return {
            **self.told(),
            "time_ms": now_ms,
            "host": socket.gethostname(),
            "process": os.getpid(),
        }
