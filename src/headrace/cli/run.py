"""`headrace run`: run the flows of a Python file."""

import logging
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from headrace.cli.options import BootstrapOption, settings_of

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_LOG_FORMAT = "%(levelname)s %(name)s: %(message)s"


class _RebuildAs(TyperCommand):
    """A command in which `--rebuild as v2` says the same as `--rebuild v2`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leave the small word out, where a name follows."""
        for place, (option, word) in enumerate(pairwise(args)):
            named = args[place + 2 : place + 3]
            if (option, word) == ("--rebuild", "as") and named and not named[0].startswith("-"):
                args = [*args[: place + 1], *args[place + 2 :]]
                break
        return super().parse_args(ctx, args)


@app.command(cls=_RebuildAs)
def run(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The file.", exists=True, dir_okay=False),
    ],
    once: Annotated[bool, typer.Option("--once", help="Read what is there now, then end.")] = False,
    flow: Annotated[
        str | None,
        typer.Option("--flow", metavar="NAME", help="Run this flow only.", show_default=False),
    ] = None,
    rebuild: Annotated[
        str | None,
        typer.Option(
            "--rebuild",
            metavar="as NAME",
            help="Run as the version NAME, from the beginning, beside the current one.",
            show_default=False,
        ),
    ] = None,
    bootstrap: BootstrapOption = None,
    master: Annotated[
        str | None,
        typer.Option(metavar="MASTER", help="Spark to run on: local[*] or spark://HOST:PORT."),
    ] = None,
    checkpoints: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Where flows keep their positions and state."),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve Prometheus metrics here.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show all that Spark says about a failure.")
    ] = False,
) -> None:
    """Run the flows of a Python file until Ctrl-C or SIGTERM.

    A flow.run() in the file runs with these options; if there is none, every flow that the file
    defines is run. The batches that are running when it is told to stop are finished.

    With --rebuild as NAME it is a new version of the flows that runs, from the beginning and into
    topics of its own; `headrace flows promote` makes it the current one.
    """
    from headrace.cli.flow_file import run_flow_file
    from headrace.streams.launch import Launch

    logging.basicConfig(level="DEBUG" if verbose else "WARNING", format=_LOG_FORMAT)
    logging.getLogger("py4j").setLevel("WARNING")
    settings = settings_of(
        context,
        {
            "kafka.bootstrap": bootstrap,
            "streams.master": master,
            "streams.checkpoints": checkpoints,
            "streams.metrics": metrics,
        },
    )
    run_flow_file(file, Launch(once=once, flow=flow, rebuild=rebuild, given=settings))
