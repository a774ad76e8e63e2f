"""Flows from their start to their end, with signals, metrics and something to look at."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.prometheus import served
from headrace.settings import Settings
from headrace.streams.errors import StreamsError
from headrace.streams.launch import Launch
from headrace.streams.running.display import display_for
from headrace.streams.running.errors import FlowAlreadyRunning, QueryGivenUp
from headrace.streams.running.flow_run import FlowRun, RunReport
from headrace.streams.running.metrics import exposition
from headrace.streams.running.progress import QueryProgress, QueryState
from headrace.streams.running.stopping import (
    StoppedWhileStarting,
    StopRequest,
    stop_on_signals,
)

if TYPE_CHECKING:
    from headrace.streams.flow import Flow
    from headrace.views.serving.server import ViewServer

_SHOW_SECONDS = 0.25

_FINISHING = "Told to stop: the batches that are running are finished; Ctrl-C ends them at once."


def run(flow: "Flow", launch: Launch) -> RunReport:
    """Run a flow until it ends or is told to."""
    (report,) = run_all([flow], launch)
    return report


def run_all(flows: "Sequence[Flow]", launch: Launch) -> list[RunReport]:
    """Run several flows side by side until all have ended or are told to.

    One that is refused keeps all from starting. QueryGivenUp, and FlowAlreadyRunning of one that
    was taken over, come at the end, when everything else has ended too.
    """
    with ExitStack() as resources:
        display = display_for(once=launch.once, rebuild=launch.rebuild is not None)
        stop = resources.enter_context(stop_on_signals())
        runs = [
            FlowRun(flow, once=launch.once, rebuild=launch.rebuild, tell=display.say)
            for flow in flows
        ]
        try:
            _begin(runs, stop)
        except BaseException as error:
            for each in runs:
                each.stop()
            if not isinstance(error, StoppedWhileStarting):
                raise

        def progress() -> list[QueryProgress]:
            return [query for each in runs for query in each.progress]

        if (address := launch.metrics or launch.settings.streams.metrics) is not None:
            address = resources.enter_context(served(address, lambda: exposition(progress())))
            display.say(f"metrics at http://{address}/metrics")
        if launch.serve:
            server = resources.enter_context(_views(flows[0].settings, launch.serve))
            display.say(f"views at {server.url}")
        resources.enter_context(display)
        asked = False
        while not all(each.ended(_SHOW_SECONDS / len(runs)) for each in runs):
            display.show(progress())
            if stop and not asked:
                asked = True
                display.say(_FINISHING)
                for each in runs:
                    each.ask_to_stop()
        display.show(progress())
    reports = _reports(runs)
    queries = [query for each in reports for query in each.queries]
    unfinished = [each for each in queries if each.state is not QueryState.FINISHED]
    if stop.by is not None and launch.once and unfinished:
        launch.cut_short(stop.by, unfinished)
    return reports


def _views(settings: Settings, serve: bool | str) -> "ViewServer":
    from headrace.views.serving.server import ViewServer

    if isinstance(serve, str):
        settings = replace(settings, serve=replace(settings.serve, address=serve))
    return ViewServer(settings)


def _begin(runs: Sequence[FlowRun], stop: StopRequest) -> None:
    """Start all, each step of all before the next of any; none if it is told to stop before."""
    for each in runs:
        each.check()
    for each in runs:
        each.start_spark()
        if stop:
            return
        each.prepare()
    stop.starting = False
    if not stop:
        for each in runs:
            each.begin()


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
