"""Work that goes on in threads until it is told to end: again after failures, and told about.

A `Run` is one such work and has a name; `Runs` are several in one process, each with a reporter of
how it stands. Captures and copies are both.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Generic, Self, TypeVar

from headrace.errors import HeadraceError
from headrace.kafka.statuses import StatusReporter

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 30.0
"""Seconds before another try: after a failure, and after many."""


class Run(ABC):
    """A work in a thread of its own.

    Args:
        name: What it is called.
        kind: What it is, for the name of its thread.
    """

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self._stopping = threading.Event()
        self._pause = _FIRST_PAUSE
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._live, name=f"{kind} {name}", daemon=True)

    def start(self) -> Self:
        """Begin; returns at once."""
        self._thread.start()
        return self

    def ask_to_stop(self) -> None:
        """Let it finish the step that it is in, and end."""
        self._stopping.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended, after so many seconds at most; raises what it failed with."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def stop(self) -> None:
        """End it and wait for that; raises what it failed with."""
        self.ask_to_stop()
        self.wait()

    def ended(self, seconds: float) -> bool:
        """Whether it has ended, in whatever way, after so many seconds at most."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _rest(self, *, progressed: bool) -> None:
        """Wait before another try: longer each time, unless the last one came to something."""
        if progressed:
            self._pause = _FIRST_PAUSE
        self._stopping.wait(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)

    @abstractmethod
    def _run(self) -> None:
        """The work, until `_stopping` is set or it is done; what it raises is its failure."""

    def _live(self) -> None:
        try:
            self._run()
        except BaseException as failure:
            self._failure = failure


R = TypeVar("R", bound=Run)


class Runs(Generic[R]):
    """Several works of a kind in one process, with reporters that tell how they stand."""

    def __init__(self, runs: Sequence[R], reporters: Sequence[StatusReporter]) -> None:
        self.runs = list(runs)
        self._reporters = list(reporters)

    def start(self) -> Self:
        """Begin with all of them."""
        for run in self.runs:
            run.start()
        for reporter in self._reporters:
            reporter.start()
        return self

    def ask_to_stop(self) -> None:
        """Let all of them end."""
        for run in self.runs:
            run.ask_to_stop()

    def ended(self, seconds: float) -> bool:
        """Whether all have ended, after so many seconds at most."""
        return all(run.ended(seconds / len(self.runs)) for run in self.runs)

    def stop(self) -> None:
        """End all and wait for that; raises what the first one failed with."""
        self.ask_to_stop()
        try:
            for run in self.runs:
                run.wait()
        finally:
            for reporter in self._reporters:
                reporter.close()


def require_names(runs: Sequence[Run], kind: str, invalid: type[HeadraceError]) -> None:
    """Raise `invalid` if two are called the same: each would take over from the other."""
    names = [run.name for run in runs]
    if twice := {name for name in names if names.count(name) > 1}:
        raise invalid(f"Two {kind}s are called {twice.pop()}; give one another name.")
