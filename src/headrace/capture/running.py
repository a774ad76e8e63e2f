"""Captures from their start to their end: in threads, again after failures, told when to pause."""

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Self

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
from headrace.kafka.runs import Run, Runs, require_names
from headrace.kafka.statuses import StatusReporter
from headrace.settings import CaptureSettings

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


class CaptureRun(Run):
    """A capture in a thread of its own.

    Args:
        settings: What to capture.
        cluster: Where to write.
        clock: The time.
    """

    def __init__(
        self, settings: CaptureSettings, cluster: Cluster, *, clock: Clock | None = None
    ) -> None:
        super().__init__(settings.called, "capture")
        self.settings = settings
        self.progress = CaptureProgress(settings.called)
        self._cluster = cluster
        self._clock = clock or SystemClock()
        self._wishes: queue.SimpleQueue[Wishes] = queue.SimpleQueue()
        self._source: Source = source_of(settings)

    def ask_to_stop(self) -> None:
        """Let it finish the transaction that it tells, and end."""
        super().ask_to_stop()
        self._source.give_up()

    def heed(self, wishes: Wishes) -> None:
        """Do what people want."""
        self._wishes.put(wishes)

    def _run(self) -> None:
        try:
            self._persist()
            self.progress.condition = Condition.STOPPED
        except BaseException as failure:
            self.progress.failure = str(failure)
            self.progress.condition = Condition.FAILED
            raise
        finally:
            self._source.close()

    def _persist(self) -> None:
        tries = 0
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
                logger.warning("the capture %s tries again: %s", self.name, error)
                self.progress.failure = str(error)
            self.progress.condition = Condition.WAITING
            self.progress.restarts += 1
            self._rest(progressed=self.progress.transactions > before)

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


class CaptureRuns(Runs[CaptureRun]):
    """Several captures in one process, and the wishes that people leave for them."""

    def __init__(
        self,
        captures: Iterable[CaptureSettings],
        cluster: Cluster,
        *,
        clock: Clock | None = None,
    ) -> None:
        runs = [CaptureRun(each, cluster, clock=clock) for each in captures]
        require_names(runs, "capture", InvalidCapture)
        super().__init__(runs, [_reporter(run, cluster) for run in runs])
        self._cluster = cluster
        self._over = threading.Event()
        self._follower: threading.Thread | None = None

    def start(self) -> Self:
        """Begin with all of them."""
        for run in self.runs:
            ensure_store(self._cluster, run.name)
        wishes = follow_wishes(self._cluster, [run.name for run in self.runs])
        # The first ones are those from now on: a session reads itself what was there before.
        next(wishes)
        self._follower = threading.Thread(
            target=self._follow, args=[wishes], name="wishes", daemon=True
        )
        self._follower.start()
        return super().start()

    def stop(self) -> None:
        """End all and wait for that; raises what the first one failed with."""
        try:
            super().stop()
        finally:
            self._over.set()
            if self._follower is not None:
                self._follower.join()

    def _follow(self, wishes: Iterator[list[tuple[str, Wishes]]]) -> None:
        by_name: dict[str, Callable[[Wishes], None]] = {run.name: run.heed for run in self.runs}
        for batch in wishes:
            for name, wanted in batch:
                by_name[name](wanted)
            if self._over.is_set():
                return


def _reporter(run: CaptureRun, cluster: Cluster) -> StatusReporter:
    """Who tells about a capture, above all when it cannot commit what it says itself."""
    key = f"{STATUSES}{run.name}"
    return StatusReporter(cluster, key, lambda: {key: run.progress.told()}, interval_ms=_REPORT_MS)
