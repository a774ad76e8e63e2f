"""`headrace groups`: list and describe consumer groups, and move them to other offsets."""

import sys
from typing import Annotated

import typer

from headrace.cli.options import BootstrapOption, JsonOption, cluster_of, position_from
from headrace.cli.output import print_facts, print_json, print_table, remark
from headrace.kafka import (
    GroupDetail,
    OffsetMove,
    ShiftBy,
    apply_reset,
    describe_group,
    list_groups,
    plan_reset,
)

app = typer.Typer(
    help="List, describe and reset consumer groups.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="Its name.")]


@app.command("list")
def list_(
    context: typer.Context, as_json: JsonOption = False, bootstrap: BootstrapOption = None
) -> None:
    """List the consumer groups of a cluster."""
    found = list_groups(cluster_of(context, bootstrap))
    if as_json:
        print_json(
            [
                {"group": group.name, "state": group.state, "protocol": group.protocol}
                for group in found
            ]
        )
    elif found:
        print_table(
            ("GROUP", "STATE", "PROTOCOL"),
            [(group.name, group.state, group.protocol) for group in found],
        )
    else:
        remark("There are no consumer groups yet.")


@app.command()
def describe(
    context: typer.Context,
    group: GroupArgument,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Show who is in a group, who reads what, and how far behind it is."""
    found = describe_group(cluster_of(context, bootstrap), group)
    if as_json:
        print_json(_detail_as_json(found))
        return
    print_facts(
        {
            "Group": found.name,
            "State": found.state,
            "Assignor": found.assignor,
            "Coordinator": found.coordinator,
            "Lag": found.lag,
        }
    )
    if found.progress:
        print()
        print_table(
            ("TOPIC", "PARTITION", "COMMITTED", "LATEST", "LAG", "MEMBER"),
            [
                (
                    *each.partition,
                    each.committed,
                    each.latest,
                    each.lag,
                    each.member.id if each.member else None,
                )
                for each in found.progress
            ],
        )
    if found.members:
        print()
        print_table(
            ("MEMBER", "CLIENT", "HOST", "PARTITIONS"),
            [
                (each.id, each.client_id, each.host, ", ".join(map(str, each.partitions)))
                for each in found.members
            ],
        )


@app.command()
def reset(
    context: typer.Context,
    group: GroupArgument,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="POSITION",
            help="earliest, latest, an offset, a time (2026-03-01T12:00), or -10m for ago.",
        ),
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option(metavar="N", help="Move N offsets forward, or backward if negative."),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="Only this topic; repeatable.  [default: all it reads]"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change.")
    ] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Do it without asking.")] = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Move a group that has no running members to other offsets.

    Shows the plan first. In a terminal it asks; elsewhere it changes nothing without --execute.
    """
    if (to is None) == (shift_by is None):
        raise typer.BadParameter("say where to: one of --to and --shift-by.", param_hint="--to")
    if dry_run and execute:
        raise typer.BadParameter("contradicts --dry-run.", param_hint="--execute")
    target = position_from(to, "--to") if to is not None else ShiftBy(shift_by or 0)
    cluster = cluster_of(context, bootstrap)
    moves = plan_reset(cluster, group, target, topics=topic or ())
    if as_json:
        print_json([_move_as_json(each) for each in moves])
    else:
        print_table(
            ("TOPIC", "PARTITION", "BEFORE", "AFTER", "LAG AFTER"),
            [(*each.partition, each.before, each.after, each.lag) for each in moves],
        )
    if not moves:
        remark("There is nothing to move.")
    elif _is_agreed(len(moves), dry_run=dry_run, execute=execute):
        apply_reset(cluster, group, moves)
        remark(f"Moved {group} in {_counted(len(moves))}.")
    else:
        remark("Nothing was changed; say --execute to move the group.")


def _is_agreed(partitions: int, *, dry_run: bool, execute: bool) -> bool:
    if dry_run or execute:
        return execute
    return sys.stdin.isatty() and typer.confirm(f"Move in {_counted(partitions)}?", err=True)


def _counted(partitions: int) -> str:
    return f"{partitions} partition{'' if partitions == 1 else 's'}"


def _move_as_json(move: OffsetMove) -> dict[str, object]:
    return {
        "topic": move.partition.topic,
        "partition": move.partition.number,
        "before": move.before,
        "after": move.after,
        "lag": move.lag,
    }


def _detail_as_json(group: GroupDetail) -> dict[str, object]:
    return {
        "group": group.name,
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "lag": group.lag,
        "partitions": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.number,
                "committed": each.committed,
                "latest": each.latest,
                "lag": each.lag,
                "member": each.member.id if each.member else None,
            }
            for each in group.progress
        ],
        "members": [
            {
                "member": each.id,
                "client": each.client_id,
                "host": each.host,
                "instance": each.instance_id,
                "partitions": [
                    {"topic": partition.topic, "partition": partition.number}
                    for partition in each.partitions
                ],
            }
            for each in group.members
        ],
    }
