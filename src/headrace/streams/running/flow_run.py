"""A flow while it runs: its queries side by side, each with its own fate."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from headrace.streams.running.backoff import Backoff
from headrace.streams.running.errors import FlowAlreadyRunning, QueryGivenUp
from headrace.streams.running.lease import only_run
from headrace.streams.running.lock import locked
from headrace.streams.running.places import LocalPlace
from headrace.streams.running.preparing import (
    checkpoints_of,
    place_of,
    prepare,
    require_topics,
)
from headrace.streams.running.progress import QueryProgress
from headrace.streams.running.query import Policy, QueryRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

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

    Also a context manager that stops at its end. At most one run of a flow at a time.
    """

    def __init__(
        self, flow: "Flow", *, once: bool = False, tell: "Callable[[str], None]" = lambda line: None
    ) -> None:
        settings = flow.settings.streams
        self._flow = flow
        self._tell = tell
        self._policy = Policy(
            settings.tries, Backoff(settings.backoff_ms, settings.backoff_max_ms), once
        )
        self._resources = ExitStack()
        self._queries: list[QueryRun] = []
        self._overtaken = ""

    @property
    def flow(self) -> "Flow":
        """What is running."""
        return self._flow

    def start(self) -> Self:
        """Check everything, then start every query; what is refused has changed nothing."""
        checkpoints = checkpoints_of(self._flow)
        require_topics(self._flow)
        with ExitStack() as resources:
            resources.enter_context(self._only_run())
            prepared = [prepare(self._flow, *each) for each in checkpoints.items()]
            self._queries = [QueryRun(each, self._policy, self._tell) for each in prepared]
            for query in self._queries:
                query.start()
            self._resources = resources.pop_all()
        return self

    @property
    def progress(self) -> tuple[QueryProgress, ...]:
        """Every query at this moment."""
        return tuple(query.tally.now for query in self._queries)

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

    def _only_run(self) -> "AbstractContextManager[None]":
        flow, place = self._flow, place_of(self._flow)
        if isinstance(place, LocalPlace):
            return locked(place.path, flow.name)
        return only_run(flow.settings.kafka, flow.name, place.address, self._end_overtaken)

    def _end_overtaken(self, message: str) -> None:
        self._overtaken = message
        self._tell(message)
        self.ask_to_stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()
