"""Deadlines over anything that can call back later; an asyncio event loop can."""

from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    """A callback that has been scheduled."""

    def cancel(self) -> None:
        """Do not call back."""
        ...


class Timers(Protocol):
    """Schedules callbacks."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> TimerHandle:
        """Call back once, after `delay` seconds."""
        ...


class Deadline:
    """One deadline that can be moved: setting it forgets the previous setting."""

    __slots__ = ("_handle", "_timers")

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._handle: TimerHandle | None = None

    def set(self, milliseconds: int, missed: Callable[[], object]) -> None:
        """Call `missed` in that many milliseconds, unless set again or cancelled before."""
        self.cancel()
        self._handle = self._timers.call_later(milliseconds / 1000, missed)

    def cancel(self) -> None:
        """There is no deadline any more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
