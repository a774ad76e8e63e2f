"""`headrace groups watch`: how far groups are behind, as it changes."""

import queue
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.options import BootstrapOption, settings_of

if TYPE_CHECKING:
    from headrace.cli.lag_view import LagView
    from headrace.kafka import Cluster, LagSample
    from headrace.kafka.lag_history import LagHistory
    from headrace.kafka.lag_monitor import LagMonitor
    from headrace.settings import LagSettings

_REFRESH_SECONDS = 0.5
"""How long the main thread waits at a time, so that Ctrl-C is heard."""


def watch(
    context: typer.Context,
    groups: Annotated[
        list[str] | None,
        typer.Argument(metavar="GROUP", help="Only these.  [default: all]", show_default=False),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Time between measurements, such as 2s.", show_default=False
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Measure once and stop.")] = False,
    alerts: Annotated[
        bool, typer.Option("--alerts", help="Raise the alarms of [[lag.alerts]] meanwhile.")
    ] = False,
    time: Annotated[
        bool,
        typer.Option(
            "--time/--no-time", help="Read the first unread record of each partition for its age."
        ),
    ] = True,
    history: Annotated[
        bool, typer.Option("--history/--no-history", help="Keep what was measured for charts.")
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per group and measurement.")
    ] = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Show how far groups are behind, until Ctrl-C."""
    from headrace.cli.lag_view import view_for
    from headrace.kafka import Cluster, ClusterLagSource, LagMeter, isolation_by
    from headrace.kafka.lag_monitor import LagMonitor

    settings = settings_of(context, {"kafka.bootstrap": bootstrap, "lag.interval": interval})
    if alerts and not settings.lag.alerts:
        raise typer.BadParameter(
            "there are no rules to raise alarms by; write [[lag.alerts]] into headrace.toml.",
            param_hint="--alerts",
        )
    cluster = Cluster(settings.kafka)
    with ExitStack() as resources:
        kept = resources.enter_context(_history(cluster, settings.lag, wanted=history))
        source = resources.enter_context(ClusterLagSource(cluster))
        listeners = [resources.enter_context(_alarms(settings.lag))] if alerts else []
        view = resources.enter_context(
            view_for(sys.stdout, kept, as_json=as_json, in_detail=bool(groups), once=once)
        )
        samples: queue.SimpleQueue[LagSample] = queue.SimpleQueue()
        monitor = LagMonitor(
            LagMeter(source, isolation_of=isolation_by(settings.lag.read_uncommitted), time=time),
            groups=groups or (),
            interval_ms=settings.lag.interval_ms,
            listeners=[*listeners, samples.put, kept.add],
        )
        with suppress(KeyboardInterrupt):
            # What goes wrong now ends the command; what goes wrong later may pass.
            monitor.step()
            view.show(samples.get())
            if not once:
                _follow(monitor, samples, view)


def _follow(
    monitor: "LagMonitor", samples: "queue.SimpleQueue[LagSample]", view: "LagView"
) -> None:
    """Show what the monitor measures, until Ctrl-C."""
    monitor.start(at_once=False)
    try:
        while True:
            with suppress(queue.Empty):
                view.show(samples.get(timeout=_REFRESH_SECONDS))
    finally:
        monitor.stop()


def _history(cluster: "Cluster", settings: "LagSettings", *, wanted: bool) -> "LagHistory":
    from headrace.kafka.lag_history import LagHistory

    if not wanted:
        return LagHistory.in_memory(retention_ms=settings.history_ms)
    return LagHistory.open(settings.state, cluster.id, retention_ms=settings.history_ms)


@contextmanager
def _alarms(settings: "LagSettings") -> Iterator["Callable[[LagSample], None]"]:
    """A listener that raises alarms, and that waits for the last ones at the end."""
    from headrace.kafka.lag_alerts import Alerts
    from headrace.kafka.lag_delivery import Delivery, relay_of

    alerts, delivery = Alerts(settings.alerts), Delivery(relay=relay_of(settings))
    try:
        yield lambda sample: delivery.send(alerts.judge(sample))
    finally:
        delivery.close()
