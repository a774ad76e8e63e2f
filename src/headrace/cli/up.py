"""`headrace up`: everything that headrace.toml describes, until it is told to stop."""

import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.options import settings_of
from headrace.cli.output import remark

if TYPE_CHECKING:
    from headrace.settings import Settings

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def up(
    context: typer.Context,
    flows: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FLOWS]...",
            help="Files with flows, besides those that [up] names.",
            show_default=False,
        ),
    ] = None,
    console: Annotated[
        bool | None,
        typer.Option(
            "--console/--no-console", help="Whether to start the console.", show_default=False
        ),
    ] = None,
    broker: Annotated[
        bool | None,
        typer.Option("--broker/--no-broker", help="Whether to start a broker.", show_default=False),
    ] = None,
) -> None:
    """Run all that headrace.toml describes until Ctrl-C or SIGTERM.

    Broker, captures, flows, views, sinks and console are processes of their own, with logs in the
    directory of [up], that are started again when they end. A line with the address of the console
    says that everything runs.
    """
    from headrace.console.supervising.parts import CannotSupervise, listed, parts_of
    from headrace.console.supervising.supervisor import Supervisor

    given = settings_of(context, {"up.console": console, "up.broker": broker})
    settings = settings_of(
        context,
        {
            "up.console": console,
            "up.broker": broker,
            "up.flows": [*given.up.flows, *flows] if flows else None,
        },
    )
    parts = parts_of(settings, context.find_root().obj)
    if not parts:
        raise CannotSupervise("There is nothing to run; see [up] in docs/configuration.md.")
    remark(f"starting {listed(parts)}; logs in {settings.up.state / 'logs'}")
    stopping, hurry = threading.Event(), threading.Event()

    def hear(number: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            hurry.set()
        else:
            remark("stopping; once more ends everything at once")
        stopping.set()

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, hear)
    supervisor = Supervisor(parts, settings.up, tell=remark, ready=lambda: _announce(settings))
    supervisor.run(stopping, hurry)


def _announce(settings: "Settings") -> None:
    from headrace.console.supervising.parts import reachable

    where = f"at {settings.kafka.bootstrap}"
    if settings.up.console:
        where = f"at http://{reachable(settings.console.listen)}"
    print(f"Headrace is up {where}", flush=True)
