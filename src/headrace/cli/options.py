"""Options that several commands share, and what they lead to."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.clock import SystemClock

if TYPE_CHECKING:
    from headrace.kafka import Cluster, Position
    from headrace.settings import Settings

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        help="Where the cluster is, if not where the settings say.",
        show_default=False,
    ),
]
"""Which cluster to talk to."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
"""Output for programs."""

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="Its name.")]
"""A consumer group."""

ShiftByOption = Annotated[
    int | None,
    typer.Option(
        "--shift-by", metavar="N", help="Move N offsets forward, or backward if negative."
    ),
]
"""A place that is relative to where a group is."""

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
"""Look, do not touch."""

ExecuteOption = Annotated[bool, typer.Option("--execute", help="Do it without asking.")]
"""Consent given in advance."""


def settings_of(context: typer.Context, flags: dict[str, object] | None = None) -> "Settings":
    """The settings that hold for a command: `headrace --config` names the file."""
    from headrace.settings import load_settings

    config: Path | None = context.find_root().obj
    return load_settings(config, flags=flags)


def cluster_of(context: typer.Context, bootstrap: str | None) -> "Cluster":
    """The cluster that a command talks to."""
    from headrace.kafka import Cluster

    return Cluster(settings_of(context, {"kafka.bootstrap": bootstrap}).kafka)


def now_ms() -> int:
    """The time that "-10m" on the command line is relative to."""
    return SystemClock().now_ms()


def position_from(text: str, option: str) -> "Position":
    """A position from the command line; a usage error names the option."""
    from headrace.kafka import parse_position

    try:
        return parse_position(text, now_ms=now_ms())
    except ValueError as error:
        raise typer.BadParameter(f"{error}.", param_hint=option) from None


def assignments_from(pairs: list[str], option: str) -> dict[str, str]:
    """NAME=VALUE arguments as a mapping; a usage error names the option."""
    assignments = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f'"{pair}" is not NAME=VALUE.', param_hint=option)
        assignments[name.strip()] = value
    return assignments
