"""Watching one matter: looked at again and again in a thread, and always there to be shown."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.clock import Clock, SystemClock
from headrace.errors import HeadraceError

T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Seen(Generic[T]):
    """What was seen last, and whether it still could be seen after that."""

    value: T
    at_ms: int | None = None
    """When it was seen; None if nothing was seen yet."""

    failure: str = ""
    """Why the last look did not succeed; empty if it did."""

    since_ms: int | None = None
    """Since when no look has succeeded."""

    number: int = 0
    """Counts the looks, so that a page knows whether there is anything new."""


class Observation(Generic[T]):
    """Looks at intervals; a look that fails leaves what was seen before, and is tried again.

    Args:
        name: What is watched, for the log.
        gather: One look, which may block; raises a HeadraceError if nothing can be seen.
        empty: What there is before the first look.
        interval_ms: Time between two looks.
        close: Called in the thread at the end.
        clock: The time.
    """

    def __init__(
        self,
        name: str,
        gather: Callable[[], T],
        empty: T,
        *,
        interval_ms: int,
        close: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self._gather = gather
        self._close = close
        self._interval = interval_ms / 1000
        self._clock = clock or SystemClock()
        self._seen: Seen[T] = Seen(empty)
        self._listeners: list[Callable[[T], None]] = []
        self._wake = threading.Event()
        self._over = threading.Event()
        self._looked = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"console {name}", daemon=True)

    @property
    def seen(self) -> Seen[T]:
        """The last that was seen."""
        return self._seen

    @property
    def value(self) -> T:
        """The same without when and why."""
        return self._seen.value

    def tell(self, listener: Callable[[T], None]) -> None:
        """Tell somebody of every look that succeeds, from the thread."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; safe to call more than once, and before it was started."""
        self._over.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def look_again(self, seconds: float = 5.0) -> None:
        """Have a look now, as after a change, and wait for it so long."""
        before = self._seen.number
        self._wake.set()
        with self._looked:
            self._looked.wait_for(lambda: self._seen.number > before, seconds)

    def look(self) -> Seen[T]:
        """Look once, in the thread of the caller; for those who have not started it."""
        before, now = self._seen, self._clock.now_ms
        try:
            value = self._gather()
        except HeadraceError as error:
            since = before.since_ms if before.failure else now()
            seen = Seen(before.value, before.at_ms, str(error), since, before.number + 1)
        else:
            seen = Seen(value, now(), number=before.number + 1)
        with self._looked:
            self._seen = seen
            self._looked.notify_all()
        if not seen.failure:
            for listener in self._listeners:
                listener(seen.value)
        return seen

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                try:
                    self.look()
                except Exception:
                    # A defect; but a console that stands still is worse than a noisy one.
                    logger.exception("%s cannot be looked at, by a defect of Headrace", self.name)
                self._wake.wait(self._interval)
                self._wake.clear()
        finally:
            self._close()
