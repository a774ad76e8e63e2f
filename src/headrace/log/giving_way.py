"""Work that gives way to everybody else's, but not for ever.

Work in the background should have what nobody else wants of the processors. The system knows what
that is, from one moment to the next, much better than a broker could tell by looking at its own
traffic. But it may be nothing for hours, and then logs would grow all that time.
"""

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, TypeVar, TypeVarTuple

SLACK_SECONDS: Final = 0.25
"""How much time work may be behind its floor and still give way: its bytes count when it is done,
and the time that it takes counts before."""

PATIENCE_SECONDS: Final = 60.0
"""How much time is made up for at most, of all that was spent waiting for a processor."""

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class Effort:
    """Does work piece by piece; this one does it at once."""

    pressed_bytes: int = 0
    """Bytes that could not wait any longer."""

    def do(self, size: int, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        """Do a piece of work, by which so many bytes will be done with."""
        return work(*arguments)


class GivingWay(Effort):
    """Does work in a thread that gives way, unless fewer bytes a second than `floor` were done.

    Then the caller's own thread makes up for it. So it does for what is done for the first time,
    which may have to be compiled and cannot be divided. Time between the pieces does not count.

    Work must leave files alone: a thread that gives way in the middle of a system call may hold a
    lock of the file system that producers wait for. Use it in a `with` statement.
    """

    def __init__(
        self,
        floor: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        yielding: Executor | None = None,
    ) -> None:
        self._floor = floor
        self._clock = clock
        self._yielding = yielding or ThreadPoolExecutor(1, "headrace-yielding", give_way)
        self._owed = 0.0
        self._begun: set[object] = set()

    def do(self, size: int, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        """Do a piece of work in one thread or the other, and return when it is done."""
        began = self._clock()
        if self._is_new(work):
            result = work(*arguments)
        elif self._owed > SLACK_SECONDS * self._floor:
            self.pressed_bytes += size
            result = work(*arguments)
        else:
            result = self._yielding.submit(work, *arguments).result()
        owed = self._owed + (self._clock() - began) * self._floor - size
        self._owed = min(max(owed, 0.0), PATIENCE_SECONDS * self._floor)
        return result

    def _is_new(self, work: object) -> bool:
        function = getattr(work, "__func__", work)
        if function in self._begun:
            return False
        self._begun.add(function)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let go of the thread."""
        self._yielding.shutdown()


def give_way() -> None:
    """Let the calling thread run only while nobody else wants its processor, or next to only.

    Unlike a high niceness, this makes it leave the processor at the moment somebody wakes up. Only
    Linux has it for single threads; elsewhere, the niceness of the process must do.
    """
    if sys.platform == "linux":
        # Some sandboxes forbid it.
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
