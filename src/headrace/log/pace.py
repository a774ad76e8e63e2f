"""How fast something is read that nobody, or somebody, waits for."""

import time
from collections.abc import Callable
from threading import Lock
from typing import Final, TypeAlias

Pace: TypeAlias = Callable[[int], None]
"""Told how many bytes were read; may take its time, or raise an error that ends it."""

SLACK_SECONDS: Final = 0.02
"""How far ahead of its rate a throttled reader may get; spares it thousands of tiny naps."""


def at_once(count: int) -> None:
    """The pace of somebody who is waited for."""


class Throttle:
    """A pace that stays below a rate, of all the threads together that keep to it.

    Another thread may change the rates at any time; zero means no limit.
    """

    def __init__(
        self, bytes_per_second: int, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self.rate = bytes_per_second
        self.limit = 0
        """A rate to stay below besides, for the time being."""
        self._sleep = sleep
        self._lock = Lock()
        self._due = time.monotonic()

    def __call__(self, count: int) -> None:
        """Account for bytes that were read, and wait if they were too many."""
        rate = min((each for each in (self.rate, self.limit) if each > 0), default=0)
        if not rate:
            return
        with self._lock:
            now = time.monotonic()
            self._due = max(self._due, now) + count / rate
            ahead = self._due - now
        if ahead > SLACK_SECONDS:
            self._sleep(ahead)
