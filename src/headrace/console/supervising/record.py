"""The file in which a supervisor says what runs, for whoever has the directory."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from headrace.console.supervising.parts import CannotSupervise

VERSION: Final = 1
"""Of the file; a reader takes nothing from a later one."""

_FILE: Final = "up.json"
_LOCK: Final = "up.lock"


@dataclass(frozen=True, slots=True)
class PartSeen:
    """A part as it is now."""

    name: str
    kind: str
    doing: str
    pid: int | None
    restarts: int
    exit: int | None
    since_ms: int
    log: str
    file: str = ""
    said: str = ""
    """The last line of its log, where it has just failed."""


@dataclass(frozen=True, slots=True)
class UpSeen:
    """All parts of a supervisor."""

    process: int = 0
    """The supervisor; 0 if none runs."""

    socket: str = ""
    """Where it listens."""

    parts: tuple[PartSeen, ...] = ()

    def part(self, name: str) -> PartSeen | None:
        """The part of a name."""
        return next((each for each in self.parts if each.name == name), None)

    def of_process(self, pid: int) -> PartSeen | None:
        """The part that a process is."""
        return next((each for each in self.parts if each.pid == pid), None)


def write_record(directory: Path, seen: UpSeen) -> None:
    """Replace the file, all of it or nothing."""
    temporary = directory / f".{_FILE}.new"
    temporary.write_text(json.dumps({"version": VERSION, **asdict(seen)}, indent=1) + "\n")
    temporary.replace(directory / _FILE)


def read_record(directory: Path) -> UpSeen:
    """What runs; nothing if there is no supervisor, or one of a later version."""
    try:
        stored = json.loads((directory / _FILE).read_text())
        if stored.pop("version") > VERSION or not _alive(stored["process"]):
            return UpSeen()
        parts = tuple(PartSeen(**each) for each in stored.pop("parts"))
        return UpSeen(**stored, parts=parts)
    except (OSError, ValueError, KeyError, TypeError):
        return UpSeen()


@contextmanager
def only_supervisor(directory: Path) -> Iterator[None]:
    """Hold the directory; CannotSupervise if another supervisor does."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CannotSupervise(
                f"Another `headrace up` runs with {directory}. Stop it first, or let [up] state "
                "name another directory."
            ) from None
        try:
            yield
        finally:
            (directory / _FILE).unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
