"""Copies from their start to their end: in threads, and again after failures."""

import logging
import threading
from collections.abc import Iterable
from dataclasses import asdict
from importlib import import_module
from typing import Final

from headrace.clock import Clock, SystemClock
from headrace.kafka import Cluster, ClusterError, ClusterUnreachable, UnknownTopic
from headrace.kafka.gaps import OffsetsGone
from headrace.kafka.statuses import StatusReporter
from headrace.settings import KafkaSettings, SinkSettings
from headrace.settings.address import shown
from headrace.views.copying.errors import InvalidCopy
from headrace.views.copying.progress import Condition, CopyProgress
from headrace.views.stores import StoreUnreachable, store_of

_SESSION: Final = "headrace.views.copying.session"
"""What copies, and loads what reads and decodes records."""

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 30.0

STATUSES: Final = "sink/"
"""How the keys of sinks begin in the topic of statuses."""

_REPORT_MS: Final = 1000
"""Between two looks at what there is to tell about a copy."""

logger = logging.getLogger(__name__)


class CopyRun:
    """A copy in a thread of its own."""

    def __init__(
        self,
        settings: SinkSettings,
        kafka: KafkaSettings,
        *,
        once: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings
        self.progress = CopyProgress(settings.called)
        self._kafka = kafka
        self._once = once
        self._clock = clock or SystemClock()
        self._store = store_of(settings.address)
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"sink {settings.called}", daemon=True
        )

    def start(self) -> "CopyRun":
        """Begin; returns at once."""
        # Here and not in the thread: whoever starts it is told what is not installed.
        import_module(_SESSION)
        self._thread.start()
        return self

    def ask_to_stop(self) -> None:
        """Let it finish the batch that it writes, and end."""
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

    def _run(self) -> None:
        try:
            finished = self._persist()
            self.progress.condition = Condition.FINISHED if finished else Condition.STOPPED
        except BaseException as failure:
            self._failure = failure
            self.progress.failure = str(failure)
            self.progress.condition = Condition.FAILED

    def _persist(self) -> bool:
        from headrace.views.copying.session import CopySession

        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            before = self.progress.batches
            try:
                return CopySession(
                    self.settings,
                    self._kafka,
                    self._store,
                    clock=self._clock,
                    progress=self.progress,
                    stopping=self._stopping,
                    once=self._once,
                ).run()
            except (StoreUnreachable, ClusterError) as error:
                if not self._may_pass(error):
                    raise
                logger.warning("the sink %s tries again: %s", self.settings.called, error)
                self.progress.failure = str(error)
            self.progress.condition = Condition.WAITING
            self.progress.restarts += 1
            if self.progress.batches > before:
                pause = _FIRST_PAUSE
            self._stopping.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        return False

    def _may_pass(self, error: Exception) -> bool:
        """Whether another try may help: before anything was copied, most of it is a mistake."""
        if isinstance(error, (UnknownTopic, OffsetsGone)):
            return False
        begun = self.progress.batches > 0 or self.progress.restarts > 0
        return begun or not isinstance(error, ClusterUnreachable)


class CopyRuns:
    """Several copies in one process."""

    def __init__(
        self, sinks: Iterable[SinkSettings], kafka: KafkaSettings, *, once: bool = False
    ) -> None:
        self.runs = [CopyRun(each, kafka, once=once) for each in sinks]
        names = [run.settings.called for run in self.runs]
        if twice := {name for name in names if names.count(name) > 1}:
            raise InvalidCopy(f"Two sinks are called {twice.pop()}; give one another name.")
        self._reporters = [] if once else [_reporter(run, Cluster(kafka)) for run in self.runs]

    def start(self) -> "CopyRuns":
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
        return all(_ended(run, seconds / len(self.runs)) for run in self.runs)

    def stop(self) -> None:
        """End all and wait for that; raises what the first one failed with."""
        self.ask_to_stop()
        try:
            for run in self.runs:
                run.wait()
        finally:
            for reporter in self._reporters:
                reporter.close()


def _reporter(run: CopyRun, cluster: Cluster) -> StatusReporter:
    """Who tells about a copy, for the console and whoever else asks."""
    settings, key = run.settings, f"{STATUSES}{run.settings.called}"
    about = {"topic": settings.topic, "store": shown(settings.address), "table": settings.table}
    return StatusReporter(
        cluster, key, lambda: {key: about | asdict(run.progress)}, interval_ms=_REPORT_MS
    )


def _ended(run: CopyRun, seconds: float) -> bool:
    try:
        return run.wait(seconds)
    except BaseException:
        return True
