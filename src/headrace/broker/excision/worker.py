"""The process that does an excision's work: `python -m headrace.broker.excision.worker`.

It takes commands as lines of JSON on stdin and answers each with lines of JSON on stdout: any
number of `{"progress": bytes}`, then `{"done": result}` or `{"refused": reason}`. What is to be
erased comes that way too, and is never on a command line or on a disk. It does one thing at a time,
with low priority, and ends when its parent does.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from headrace.broker.worker_process import become_nice
from headrace.log.disk import SYSTEM_DISK
from headrace.log.errors import LogError
from headrace.log.excision import SegmentFile, Wanted
from headrace.log.excision_check import DirectoryCheck, Evidence
from headrace.log.excision_rewrite import Progress, find_records, rewrite_segment

NICENESS: Final = 10
"""How much it steps back behind the broker and everybody else."""

REPORTED_BYTES: Final = 32 << 20
"""How many bytes are done between two reports of progress."""


class Worker:
    """One excision's worth of commands."""

    def __init__(self, wanted: Wanted, tag: str, progress: Progress) -> None:
        from headrace.records.matching import Criteria

        pairs = [(name.encode(), value) for name, value in wanted.headers]
        self._criteria = Criteria.of(wanted.keys, pairs)
        self._progress = progress
        self._tag = tag
        self._evidence = Evidence()
        self._evidence.add(wanted.keys)
        self._evidence.add(value for _, value in pairs)

    def find(self, segment: list[Any]) -> object:
        """See `find_records`."""
        return find_records(
            SYSTEM_DISK, SegmentFile(*segment), self._criteria, self._progress, lambda _: None
        )

    def rewrite(self, segment: list[Any]) -> object:
        """See `rewrite_segment`."""
        return rewrite_segment(
            SYSTEM_DISK,
            SegmentFile(*segment),
            self._criteria,
            self._tag,
            self._progress,
            self._evidence.add_rows,
        )

    def check(self, root: str, until: Mapping[str, int]) -> object:
        """See `DirectoryCheck`."""
        return DirectoryCheck(
            SYSTEM_DISK, Path(root), until, self._criteria, self._evidence, self._progress
        ).run()


class _Reports:
    """Says every now and then how much is done, and ends the process if nobody listens."""

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._done = 0

    def __call__(self, size: int) -> None:
        if os.getppid() != self._parent:
            sys.exit(1)
        self._done += size
        if self._done >= REPORTED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Report what was not reported yet."""
        if self._done:
            _say({"progress": self._done})
        self._done = 0


def main() -> None:
    """Do what stdin says; its first line says what is to be erased."""
    become_nice(NICENESS)
    reports = _Reports()
    first = sys.stdin.readline()
    if not first:
        return
    introduction = json.loads(first)
    worker = Worker(Wanted.from_json(introduction), introduction["tag"], reports)
    commands: dict[str, Callable[..., object]] = {
        "find": worker.find,
        "rewrite": worker.rewrite,
        "check": worker.check,
    }
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        try:
            result = commands[command](*arguments)
        except LogError as error:
            _say({"refused": str(error)})
        else:
            reports.flush()
            _say({"done": result})


def _say(message: object) -> None:
    try:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The broker is gone. The interpreter would fail once more when it flushes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
