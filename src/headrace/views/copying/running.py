"""Copies from their start to their end: in threads, and again after failures."""

import logging
from collections.abc import Iterable
from dataclasses import asdict
from importlib import import_module
from typing import Final, Self

from headrace.clock import Clock, SystemClock
from headrace.kafka import Cluster, ClusterError, ClusterUnreachable, UnknownTopic
from headrace.kafka.gaps import OffsetsGone
from headrace.kafka.runs import Run, Runs, require_names
from headrace.kafka.statuses import StatusReporter
from headrace.settings import KafkaSettings, SinkSettings
from headrace.settings.address import shown
from headrace.views.copying.errors import InvalidCopy
from headrace.views.copying.progress import Condition, CopyProgress
from headrace.views.stores import StoreUnreachable, store_of

_SESSION: Final = "headrace.views.copying.session"
"""What copies, and loads what reads and decodes records."""

STATUSES: Final = "sink/"
"""How the keys of sinks begin in the topic of statuses."""

_REPORT_MS: Final = 1000
"""Between two looks at what there is to tell about a copy."""

logger = logging.getLogger(__name__)


class CopyRun(Run):
    """A copy in a thread of its own."""

    def __init__(
        self,
        settings: SinkSettings,
        kafka: KafkaSettings,
        *,
        once: bool = False,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(settings.called, "sink")
        self.settings = settings
        self.progress = CopyProgress(settings.called)
        self._kafka = kafka
        self._once = once
        self._clock = clock or SystemClock()
        self._store = store_of(settings.address)

    def start(self) -> Self:
        """Begin; returns at once."""
        # Here and not in the thread: whoever starts it is told what is not installed.
        import_module(_SESSION)
        return super().start()

    def _run(self) -> None:
        try:
            finished = self._persist()
            self.progress.condition = Condition.FINISHED if finished else Condition.STOPPED
        except BaseException as failure:
            self.progress.failure = str(failure)
            self.progress.condition = Condition.FAILED
            raise

    def _persist(self) -> bool:
        from headrace.views.copying.session import CopySession

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
                logger.warning("the sink %s tries again: %s", self.name, error)
                self.progress.failure = str(error)
            self.progress.condition = Condition.WAITING
            self.progress.restarts += 1
            self._rest(progressed=self.progress.batches > before)
        return False

    def _may_pass(self, error: Exception) -> bool:
        """Whether another try may help: before anything was copied, most of it is a mistake."""
        if isinstance(error, (UnknownTopic, OffsetsGone)):
            return False
        begun = self.progress.batches > 0 or self.progress.restarts > 0
        return begun or not isinstance(error, ClusterUnreachable)


class CopyRuns(Runs[CopyRun]):
    """Several copies in one process."""

    def __init__(
        self, sinks: Iterable[SinkSettings], kafka: KafkaSettings, *, once: bool = False
    ) -> None:
        runs = [CopyRun(each, kafka, once=once) for each in sinks]
        require_names(runs, "sink", InvalidCopy)
        super().__init__(runs, [] if once else [_reporter(run, Cluster(kafka)) for run in runs])


def _reporter(run: CopyRun, cluster: Cluster) -> StatusReporter:
    """Who tells about a copy, for the console and whoever else asks."""
    settings, key = run.settings, f"{STATUSES}{run.name}"
    about = {"topic": settings.topic, "store": shown(settings.address), "table": settings.table}
    return StatusReporter(
        cluster, key, lambda: {key: about | asdict(run.progress)}, interval_ms=_REPORT_MS
    )
