"""The `headrace` command: its parts and what holds for all of them."""

from pathlib import Path
from typing import Annotated

import typer

from headrace import __version__
from headrace.cli.commands import Commands

app = typer.Typer(
    name="headrace",
    cls=Commands,
    help="Event streaming for Python: a log that speaks the Kafka protocol, and tools for it.",
    epilog="The tools work with any Kafka cluster: name it with --bootstrap or in headrace.toml.",
    no_args_is_help=True,
    # Plain help and plain tracebacks: importing rich would double the time until help appears.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def headrace(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Settings file.  [default: headrace.toml, if it is there]",
            show_default=False,
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Remember which settings file the command was given."""
    context.obj = config


def main() -> None:
    """Run the command line."""
    app()
