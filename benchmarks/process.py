"""What a process costs, read from /proc: CPU time and memory, its children included."""

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time that the process and its children have used since they began."""
    return sum(_ticks(member) for member in _family(pid)) / _TICKS_PER_SECOND


def memory_bytes(pid: int) -> int:
    """The process's memory as its proportional set size: shared pages count by their share."""
    return sum(_proportional_set_size(member) for member in _family(pid))


def _family(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _read(children).split():
            yield from _family(int(child))


def _read(path: Path) -> str:
    """A file of a process; empty if the process has ended, also if nobody has heard of it yet."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _ticks(pid: int) -> int:
    # The command's name stands in parentheses and may itself hold spaces and parentheses.
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    user, system = fields[11:13] or (0, 0)
    return int(user) + int(system)


def _proportional_set_size(pid: int) -> int:
    told = _read(Path(f"/proc/{pid}/smaps_rollup"))
    if not told:
        return 0
    for line in told.splitlines():
        name, _, value = line.partition(":")
        if name == "Pss":
            return int(value.removesuffix("kB")) * 1024
    raise LookupError(f"/proc/{pid}/smaps_rollup has no Pss line; it needs Linux 4.14 or newer")
