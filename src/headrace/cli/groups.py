"""`headrace groups`: list and describe consumer groups, watch their lag, move, copy and delete."""

from typing import Annotated

import typer

from headrace.cli.groups_copy import copy
from headrace.cli.groups_delete import delete
from headrace.cli.groups_describe import describe
from headrace.cli.groups_reset import reset
from headrace.cli.groups_watch import watch
from headrace.cli.options import BootstrapOption, JsonOption, cluster_of
from headrace.cli.output import print_json, print_table, remark
from headrace.kafka import list_groups

app = typer.Typer(
    help="List, describe, watch, reset, copy and delete consumer groups.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.command("list")
def list_(
    context: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Show those in which flows keep their progress too.")
    ] = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """List the consumer groups of a cluster."""
    groups = list_groups(cluster_of(context, bootstrap))
    found = [group for group in groups if everything or not group.internal]
    if as_json:
        print_json(
            [
                {"group": group.name, "state": group.state, "protocol": group.protocol}
                for group in found
            ]
        )
    elif found:
        print_table(
            ("GROUP", "STATE", "KIND"),
            [(group.name, group.state, group.protocol) for group in found],
        )
    else:
        remark("There are no consumer groups yet.")


for _command in (describe, watch, reset, copy, delete):
    app.command()(_command)
