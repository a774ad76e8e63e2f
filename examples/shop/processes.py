"""The processes of a running shop: what they are called, and what they take."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.console.supervising.record import read_record


@dataclass(frozen=True, slots=True)
class Process:
    """One process, and the part of the shop that it belongs to."""

    pid: int
    part: str
    program: str

    @property
    def is_main(self) -> bool:
        """Whether it is the one that was started for its part."""
        return self.program == self.part

    def __str__(self) -> str:
        return self.part if self.is_main else f"{self.program} of {self.part}"


def processes(state: Path) -> list[Process]:
    """Everything that `headrace up` runs, with all that this has started."""
    found: list[Process] = []
    for part in read_record(state).parts:
        if part.pid is None:
            continue
        found.append(Process(part.pid, part.name, part.name))
        others = (each for each in descendants(part.pid) if each != part.pid)
        found += (Process(pid, part.name, _program(pid)) for pid in others)
    return found


def descendants(pid: int) -> Iterator[int]:
    """A process, its children, theirs, and so on, as far as the system tells."""
    yield pid
    try:
        tasks = [each.name for each in Path(f"/proc/{pid}/task").iterdir()]
        children = [Path(f"/proc/{pid}/task/{each}/children").read_text() for each in tasks]
    except OSError:
        return
    for child in " ".join(children).split():
        yield from descendants(int(child))


def memory_bytes(pid: int) -> int:
    """What a process takes of the memory, with its share of what it shares with others."""
    try:
        told = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(r"^Pss:\s+(\d+) kB", told, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def memory_of_all(pid: int) -> int:
    """The same for a process and all of its descendants."""
    return sum(memory_bytes(each) for each in descendants(pid))


def _program(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return "process"
    # A server that names its own processes, as PostgreSQL does, says more than a path.
    return os.path.basename(command.split(": ")[-1]).strip() or "process"  # noqa: PTH119 - it is no path
