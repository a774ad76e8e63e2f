"""`headrace run`: run the flows of a Python file."""

import logging
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from headrace.cli.options import BootstrapOption, settings_of
from headrace.cli.output import complain

if TYPE_CHECKING:
    from headrace.streams.running.progress import QueryProgress

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
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve views, too, as `headrace serve` does.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show all that Spark says about a failure.")
    ] = False,
) -> None:
    """Run the flows of a Python file until Ctrl-C or SIGTERM.

    A flow.run() in the file runs with these options; if there is none, every flow that the file
    defines is run. The batches that are running when it is told to stop are finished, and the exit
    code is 0; with --once it is 130 (143 after SIGTERM) unless everything had been read by then.

    With --rebuild as NAME it is a new version of the flows that runs, from the beginning and into
    topics of its own; `headrace flows promote` makes it the current one.
    """
    from headrace.cli.flow_file import run_flow_file
    from headrace.streams.launch import Launch

    _log(verbose=verbose)
    settings = settings_of(
        context,
        {
            "kafka.bootstrap": bootstrap,
            "streams.master": master,
            "streams.checkpoints": checkpoints,
            "streams.metrics": metrics,
        },
    )
    launch = Launch(once=once, flow=flow, rebuild=rebuild, serve=serve, given=settings)
    run_flow_file(file, launch)
    if launch.stopped_by:
        complain(f"stopped before everything was read: {_told(launch.unfinished)}.")
        raise typer.Exit(128 + launch.stopped_by)


def _log(*, verbose: bool) -> None:
    logging.basicConfig(level="DEBUG" if verbose else "WARNING", format=_LOG_FORMAT)
    logging.getLogger("py4j").setLevel("WARNING")
    if not verbose:
        for handler in logging.getLogger().handlers:
            handler.addFilter(_without_py4j)


def _without_py4j(record: logging.LogRecord) -> bool:
    """Leave out how the way to Java feels: what fails there is raised here, and told in a line."""
    return "py4j" not in Path(record.pathname).parts


def _told(unfinished: "list[QueryProgress]") -> str:
    return ", ".join(
        f"{each.flow}.{each.output}" + (f" (it failed: {each.error})" if each.error else "")
        for each in unfinished
    )
