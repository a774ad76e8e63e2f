"""Where time comes from: code that needs the time is handed a `Clock` and never asks the system."""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of wall-clock and of monotonic time."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch; may jump in either direction."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never runs backwards."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""
        return time.monotonic()


class ManualClock:
    """A clock that moves only when it is told to; for tests and simulations.

    >>> clock = ManualClock(now_ms=1_000)
    >>> clock.advance(2.5)
    >>> clock.now_ms(), clock.monotonic()
    (3500, 2.5)
    """

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._monotonic = 0.0

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds advanced since the clock was made."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move both clocks forward."""
        self._now_ms += round(seconds * 1000)
        self._monotonic += seconds
