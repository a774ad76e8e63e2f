"""`headrace groups delete`: forget groups and where they were."""

import sys
from typing import Annotated

import typer

from headrace.cli.options import BootstrapOption, cluster_of
from headrace.cli.output import remark
from headrace.kafka import delete_group


def delete(
    context: typer.Context,
    groups: Annotated[list[str], typer.Argument(metavar="GROUP", help="Their names.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Delete groups that have no running members, and their offsets."""
    cluster = cluster_of(context, bootstrap)
    names = ", ".join(groups)
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter(
                f"there is no terminal to ask in; say --yes to delete {names} and all offsets.",
                param_hint="--yes",
            )
        typer.confirm(f"Delete {names} and all offsets?", abort=True, err=True)
    for group in groups:
        delete_group(cluster, group)
        remark(f"Deleted {group}.")
