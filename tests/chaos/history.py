"""What the clients of a run did and saw, in order: the checker's only input.

Every operation that changes something has two events, its invocation and its completion, because
what lies between them may have happened or not. An operation without a completion, or whose
completion is `UNKNOWN`, may have taken effect at any time after its invocation.

A history is kept as JSON lines, so that a run that failed can be looked at, and judged again.
"""

import dataclasses
import json
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

FORMAT = {"format": "headrace-chaos-history", "version": 1}
"""The first line of a history's file."""


class Outcome(StrEnum):
    """What a client knows of an operation."""

    OK = "ok"
    FAIL = "fail"
    """It did not happen, and never will."""
    UNKNOWN = "unknown"


class Isolation(StrEnum):
    """What a reader wants to see."""

    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


class Record(NamedTuple):
    """A record as a reader got it."""

    partition: int
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Event:
    """Something that one process did or saw; `time` is in seconds since the run began."""

    time: float
    process: str


@dataclass(frozen=True, slots=True)
class Send(Event):
    """A record is handed to a producer; no other record of the run has its value."""

    value: str
    partition: int
    transaction: str | None = None


@dataclass(frozen=True, slots=True)
class Delivered(Event):
    """A producer says what became of a record."""

    value: str
    outcome: Outcome
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class End(Event):
    """A producer begins to commit a transaction, or to abort it."""

    transaction: str
    commit: bool


@dataclass(frozen=True, slots=True)
class Ended(Event):
    """A producer says what became of the transaction that it ended.

    `OK` is that it was ended as asked; `FAIL`, that it is aborted although a commit was asked for.
    """

    transaction: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Session(Event):
    """A reader begins to read somewhere; what it saw before no longer orders what it sees.

    A `final` session reads everything, after all faults have ended.
    """

    isolation: Isolation
    partitions: tuple[int, ...]
    final: bool = False


@dataclass(frozen=True, slots=True)
class Poll(Event):
    """A reader got records, in this order."""

    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Misled(Event):
    """A reader was told that the place it stood at does not exist."""

    problem: str


@dataclass(frozen=True, slots=True)
class Committed(Event):
    """A group's position in a partition was committed."""

    group: str
    partition: int
    offset: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Resumed(Event):
    """A member of a group was told where to go on; it began to ask at `asked`."""

    group: str
    partition: int
    offset: int
    asked: float


@dataclass(frozen=True, slots=True)
class Watermark(Event):
    """A partition's end, as readers of an isolation level are told it."""

    isolation: Isolation
    partition: int
    end: int


@dataclass(frozen=True, slots=True)
class Fault(Event):
    """Something was done to the broker."""

    fault: str
    details: str = ""


@dataclass(frozen=True, slots=True)
class Calm(Event):
    """The last fault has ended, no producer goes on; every transaction ends within `timeout`."""

    timeout: float


@dataclass(frozen=True, slots=True)
class Stuck(Event):
    """Something that a healthy broker would have done by now was not done."""

    what: str
    partition: int | None = None


History: TypeAlias = Sequence[Event]
"""Events in the order in which they happened."""

_KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in Event.__subclasses__()}


class Recorder:
    """Collects a history from many threads."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self.events: list[Event] = []

    def now(self) -> float:
        """Seconds since the run began."""
        return round(time.monotonic() - self._began, 6)

    def add(self, kind: type[Event], process: str, *details: Any, **more: Any) -> None:
        """Note that something happens now."""
        with self._lock:
            self.events.append(kind(self.now(), process, *details, **more))


def write_history(path: Path, history: Iterable[Event]) -> None:
    """Keep a history in a file."""
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(FORMAT) + "\n")
        for event in history:
            file.write(json.dumps({"kind": type(event).__name__} | dataclasses.asdict(event)))
            file.write("\n")


def read_history(path: Path) -> list[Event]:
    """Read what `write_history` kept."""
    with path.open(encoding="utf-8") as file:
        if json.loads(next(file)) != FORMAT:
            raise ValueError(f"{path} is not a history of version {FORMAT['version']}")
        return [_event(json.loads(line)) for line in file]


def _event(fields: dict[str, Any]) -> Event:
    kind = _KINDS[fields.pop("kind")]
    if "records" in fields:
        fields["records"] = tuple(Record(*record) for record in fields["records"])
    if "partitions" in fields:
        fields["partitions"] = tuple(fields["partitions"])
    if "outcome" in fields:
        fields["outcome"] = Outcome(fields["outcome"])
    if "isolation" in fields:
        fields["isolation"] = Isolation(fields["isolation"])
    return kind(**fields)
