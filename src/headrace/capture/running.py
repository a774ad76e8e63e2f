"""Captures from their start to their end: in threads, again after failures, told when to pause."""

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from headrace.capture.databases import source_of
from headrace.capture.errors import (
    CaptureBusy,
    CaptureError,
    CaptureTakenOver,
    DatabaseUnreachable,
    GivenUp,
    InvalidCapture,
    LogRetained,
    NotPrepared,
    PositionLost,
)
from headrace.capture.progress import CaptureProgress, Condition
from headrace.capture.session import Session
from headrace.capture.source import Source
from headrace.capture.state import Wishes
from headrace.capture.store import ensure_store, follow_wishes
from headrace.clock import Clock, SystemClock
from headrace.kafka import Cluster, ClusterError, ClusterUnreachable
from headrace.kafka.statuses import StatusReporter
from headrace.settings import CaptureSettings

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 30.0
_BUSY_TRIES: Final = 6
"""How often a start is tried again. A process that was killed leaves its place in the log in use
until the server notices, and a database that was captured before may be just starting, too."""

STATUSES: Final = "capture/"
"""How the keys of captures begin in the topic of statuses."""

_REPORT_MS: Final = 1000
"""Between two looks at what there is to tell about a capture."""

_LASTING: Final = (InvalidCapture, NotPrepared, PositionLost, LogRetained, CaptureTakenOver)
"""What another try would not change."""

logger = logging.getLogger(__name__)


class CaptureRun:
    """A capture in a thread of its own.

    Args:
        settings: What to capture.
        cluster: Where to write.
        clock: The time.
    """

    def __init__(
        self, settings: CaptureSettings, cluster: Cluster, *, clock: Clock | None = None
    ) -> None:
        self.settings = settings
        self.progress = CaptureProgress(settings.called)
        self._cluster = cluster
        self._clock = clock or SystemClock()
        self._stopping = threading.Event()
        self._wishes: queue.SimpleQueue[Wishes] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"capture {settings.called}", daemon=True
        )
        self._source: Source = source_of(settings)

    def start(self) -> "CaptureRun":
        """Begin; returns at once."""
        self._thread.start()
        return self

    def ask_to_stop(self) -> None:
        """Let it finish the transaction that it tells, and end."""
        self._stopping.set()
        self._source.give_up()

    def stop(self) -> None:
        """End it and wait for that; raises what it failed with."""
        self.ask_to_stop()
        self.wait()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended, after so many seconds at most; raises what it failed with."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def heed(self, wishes: Wishes) -> None:
        """Do what people want."""
        self._wishes.put(wishes)

    def _run(self) -> None:
        try:
            self._persist()
            self.progress.condition = Condition.STOPPED
        except BaseException as failure:
            self._failure = failure
            self.progress.failure = str(failure)
            self.progress.condition = Condition.FAILED
        finally:
            self._source.close()

    def _persist(self) -> None:
        pause, tries = _FIRST_PAUSE, 0
        while not self._stopping.is_set():
            before = self.progress.transactions
            session = self._session()
            try:
                session.run()
                if session.paused:
                    self._wait_for_resume()
                continue
            except _LASTING:
                raise
            except GivenUp:
                return
            except (CaptureError, ClusterError) as error:
                begun = self.progress.position is not None
                tries += 1
                if not begun and not self._may_pass(error, tries, session.resumed):
                    raise
                logger.warning("the capture %s tries again: %s", self.settings.called, error)
                self.progress.failure = str(error)
            self.progress.condition = Condition.WAITING
            self.progress.restarts += 1
            if self.progress.transactions > before:
                pause = _FIRST_PAUSE
            self._stopping.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _may_pass(self, error: Exception, tries: int, resumed: bool) -> bool:
        """Whether to try again although nothing was captured yet: most of it is a mistake."""
        if isinstance(error, DatabaseUnreachable):
            return resumed and tries < _BUSY_TRIES
        if isinstance(error, ClusterUnreachable):
            return False
        return isinstance(error, (CaptureBusy, ClusterError)) and tries < _BUSY_TRIES

    def _session(self) -> Session:
        return Session(
            self.settings,
            self._cluster,
            self._source,
            clock=self._clock,
            progress=self.progress,
            stopping=self._stopping,
            wishes=self._wishes,
        )

    def _wait_for_resume(self) -> None:
        while not self._stopping.is_set():
            try:
                if not self._wishes.get(timeout=0.25).paused:
                    return
            except queue.Empty:
                continue


class CaptureRuns:
    """Several captures in one process, and the wishes that people leave for them."""

    def __init__(
        self,
        captures: Iterable[CaptureSettings],
        cluster: Cluster,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._cluster = cluster
        self.runs = [CaptureRun(each, cluster, clock=clock) for each in captures]
        names = [run.settings.called for run in self.runs]
        if twice := {name for name in names if names.count(name) > 1}:
            raise InvalidCapture(f"Two captures are called {twice.pop()}; give one another name.")
        self._over = threading.Event()
        self._follower: threading.Thread | None = None
        self._reporters = [self._reporter(run) for run in self.runs]

    def start(self) -> "CaptureRuns":
        """Begin with all of them."""
        for run in self.runs:
            ensure_store(self._cluster, run.settings.called)
        wishes = follow_wishes(self._cluster, [run.settings.called for run in self.runs])
        # The first ones are those from now on: a session reads itself what was there before.
        next(wishes)
        self._follower = threading.Thread(
            target=self._follow, args=[wishes], name="wishes", daemon=True
        )
        self._follower.start()
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
        return all(_ended(run, seconds / len(self.runs)) for run in self.runs)

    def stop(self) -> None:
        """End all and wait for that; raises what the first one failed with."""
        self.ask_to_stop()
        try:
            for run in self.runs:
                run.wait()
        finally:
            self._over.set()
            if self._follower is not None:
                self._follower.join()
                for reporter in self._reporters:
                    reporter.close()

    def _reporter(self, run: CaptureRun) -> StatusReporter:
        """Who tells about a capture, above all when it cannot commit what it says itself."""
        key = f"{STATUSES}{run.settings.called}"
        return StatusReporter(
            self._cluster, key, lambda: {key: run.progress.told()}, interval_ms=_REPORT_MS
        )

    def _follow(self, wishes: Iterator[list[tuple[str, Wishes]]]) -> None:
        by_name: dict[str, Callable[[Wishes], None]] = {
            run.settings.called: run.heed for run in self.runs
        }
        for batch in wishes:
            for name, wanted in batch:
                by_name[name](wanted)
            if self._over.is_set():
                return


def _ended(run: CaptureRun, seconds: float) -> bool:
    try:
        return run.wait(seconds)
    except BaseException:
        return True
