"""Flows from their start to their end, with signals, metrics and something to look at."""

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from headrace.prometheus import served
from headrace.streams.errors import StreamsError
from headrace.streams.launch import Launch
from headrace.streams.running.display import display_for
from headrace.streams.running.errors import FlowAlreadyRunning, QueryGivenUp
from headrace.streams.running.flow_run import FlowRun, RunReport
from headrace.streams.running.metrics import exposition
from headrace.streams.running.progress import QueryProgress
from headrace.streams.running.stopping import stop_on_signals

if TYPE_CHECKING:
    from headrace.streams.flow import Flow

_SHOW_SECONDS = 0.25


def run(flow: "Flow", launch: Launch) -> RunReport:
    """Run a flow until it ends or is told to."""
    (report,) = run_all([flow], launch)
    return report


def run_all(flows: "Sequence[Flow]", launch: Launch) -> list[RunReport]:
    """Run several flows side by side until all have ended or are told to.

    One that is refused keeps all from starting. QueryGivenUp, and FlowAlreadyRunning of one that
    was taken over, come at the end, when everything else has ended too.
    """
    stopping = threading.Event()
    with ExitStack() as resources:
        display = display_for(once=launch.once, rebuild=launch.rebuild is not None)
        resources.enter_context(stop_on_signals(stopping.set))
        runs: list[FlowRun] = []
        try:
            for flow in flows:
                run = FlowRun(flow, once=launch.once, rebuild=launch.rebuild, tell=display.say)
                runs.append(run.start())
        except BaseException:
            for each in runs:
                each.stop()
            raise
        # Spark has taken Ctrl-C for itself when it started.
        resources.enter_context(stop_on_signals(stopping.set))

        def progress() -> list[QueryProgress]:
            return [query for each in runs for query in each.progress]

        if (address := launch.metrics or launch.settings.streams.metrics) is not None:
            address = resources.enter_context(served(address, lambda: exposition(progress())))
            display.say(f"metrics at http://{address}/metrics")
        resources.enter_context(display)
        while not all(each.ended(_SHOW_SECONDS / len(runs)) for each in runs):
            display.show(progress())
            if stopping.is_set():
                for each in runs:
                    each.ask_to_stop()
        display.show(progress())
    return _reports(runs)


def _reports(runs: Sequence[FlowRun]) -> list[RunReport]:
    reports: list[RunReport] = []
    failed: list[StreamsError] = []
    for each in runs:
        try:
            reports.append(each.wait())
        except (FlowAlreadyRunning, QueryGivenUp) as error:
            failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise QueryGivenUp("\n".join(map(str, failed)))
    return reports
