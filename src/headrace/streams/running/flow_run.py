"""A flow while it runs: its queries side by side, each with its own fate."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from headrace.kafka.reachability import reason_nobody_answers
from headrace.streams.outputs import Output, queries_of
from headrace.streams.realtime.cores import require_cores
from headrace.streams.running.backoff import Backoff
from headrace.streams.running.checkpoints import Checkpoint
from headrace.streams.running.errors import FlowAlreadyRunning, QueryGivenUp
from headrace.streams.running.holding import held
from headrace.streams.running.preparing import checkpoints_of, prepare
from headrace.streams.running.progress import QueryProgress, QueryState
from headrace.streams.running.query import Policy, Prepared, QueryRun
from headrace.streams.running.reporting import reporter_of
from headrace.streams.running.stage import Stage, stage_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.streams.flow import Flow


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run has done."""

    flow: str
    queries: tuple[QueryProgress, ...]

    @property
    def written(self) -> int:
        """Rows written by all queries."""
        return sum(each.written for each in self.queries)


class FlowRun:
    """Every query of a flow, running in the background.

        run = flow.start()
        ...
        run.stop()

    Also a context manager that stops at its end. At most one run of a version at a time; with
    `rebuild` it is the version of that name, else the current one.

    Whoever starts several goes step by step, so that one that is refused keeps all from reading:
    `check`, which needs no Spark, `start_spark`, `prepare` and `begin`.
    """

    def __init__(
        self,
        flow: "Flow",
        *,
        once: bool = False,
        rebuild: str | None = None,
        tell: "Callable[[str], None]" = lambda line: None,
    ) -> None:
        settings = flow.settings.streams
        self._flow = flow
        self._rebuild = rebuild
        self._tell = tell
        bootstrap = flow.settings.kafka.bootstrap
        self._policy = Policy(
            settings.tries,
            Backoff(settings.backoff_ms, settings.backoff_max_ms),
            once,
            reachable=lambda: reason_nobody_answers(bootstrap) is None,
        )
        self._resources = ExitStack()
        self._stage: Stage | None = None
        self._checkpoints: dict[Output, Checkpoint] = {}
        self._prepared: list[Prepared] = []
        self._queries: list[QueryRun] = []
        self._overtaken = ""

    @property
    def flow(self) -> "Flow":
        """What is running."""
        return self._flow

    def start(self) -> Self:
        """Check everything, then start every query; what is refused has changed nothing."""
        try:
            self.check()
            self.prepare()
            self.begin()
        except BaseException:
            self._resources.close()
            raise
        return self

    def check(self) -> None:
        """Hold the version, and refuse what can be refused without Spark."""
        self._stage = stage = stage_of(self._flow, self._rebuild)
        self._checkpoints = checkpoints_of(stage)
        stage.require_topics()
        kafka = self._flow.settings.kafka
        self._resources.enter_context(
            held(stage.place, stage.version.title, kafka, self._end_overtaken)
        )
        if not self._policy.once:
            require_cores(stage)

    def start_spark(self) -> None:
        """Wait for the Spark of the flow, which may take seconds."""
        _ = self._flow.spark

    def prepare(self) -> None:
        """Let Spark understand every query, or refuse it; nothing is read."""
        stage = self._checked
        self._prepared = [
            prepare(stage, each, self._checkpoints[each[0]]) for each in queries_of(stage.outputs)
        ]

    def begin(self) -> None:
        """Start every query."""
        self._checked.note()
        for each in self._prepared:
            if each.noting is not None:
                each.noting.declare()
        self._queries = [self._run_of(each) for each in self._prepared]
        for query in self._queries:
            query.start()
        if (reporter := reporter_of(self._checked, lambda: self.progress)) is not None:
            self._resources.callback(reporter.start().close)

    @property
    def _checked(self) -> Stage:
        assert self._stage is not None, "a run is checked before it goes on"
        return self._stage

    def _run_of(self, prepared: Prepared) -> QueryRun:
        from headrace.streams.realtime.running import RealtimePrepared, RealtimeRun

        kind = RealtimeRun if isinstance(prepared, RealtimePrepared) else QueryRun
        return kind(prepared, self._policy, self._tell)

    @property
    def progress(self) -> tuple[QueryProgress, ...]:
        """Every query at this moment; of a run that was stopped before it had any, its outputs."""
        if not self._queries:
            name, stopped = self._flow.name, QueryState.STOPPED
            return tuple(QueryProgress(name, each.name, stopped) for each in self._flow.outputs)
        return tuple(tally.now for query in self._queries for tally in query.tallies)

    def ask_to_stop(self) -> None:
        """Let the batches that are running be the last, without waiting for them."""
        for query in self._queries:
            query.ask_to_stop()

    def stop(self) -> RunReport:
        """Finish the batches that are running, and end."""
        self.ask_to_stop()
        return self.wait()

    def ended(self, seconds: float) -> bool:
        """Whether every query has ended, after waiting for that so long."""
        share = seconds / max(len(self._queries), 1)
        return all(query.wait(share) for query in self._queries)

    def wait(self) -> RunReport:
        """Wait until every query has ended; QueryGivenUp says which did not end well, and why.

        FlowAlreadyRunning means that another run has taken over.
        """
        for query in self._queries:
            query.wait()
        self._resources.close()
        if self._overtaken:
            raise FlowAlreadyRunning(self._overtaken)
        failed = [query.cause.message for query in self._queries if query.cause is not None]
        if failed:
            raise QueryGivenUp("\n".join(failed))
        return RunReport(self._flow.name, self.progress)

    def _end_overtaken(self, message: str) -> None:
        self._overtaken = message
        self._tell(message)
        self.ask_to_stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()
