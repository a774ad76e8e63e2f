"""`headrace groups reset`: move a group to other offsets."""

from typing import Annotated

import typer

from headrace.cli.agreement import counted, is_agreed, refuse_contradiction
from headrace.cli.options import (
    BootstrapOption,
    DryRunOption,
    ExecuteOption,
    GroupArgument,
    JsonOption,
    ShiftByOption,
    cluster_of,
    position_from,
)
from headrace.cli.output import print_json, print_table, remark
from headrace.kafka import OffsetMove, ShiftBy, apply_reset, plan_reset


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
    shift_by: ShiftByOption = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="Only this topic; repeatable.  [default: all it reads]"),
    ] = None,
    dry_run: DryRunOption = False,
    execute: ExecuteOption = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Move a group that has no running members to other offsets.

    Shows the plan first. In a terminal it asks; elsewhere it changes nothing without --execute.
    """
    if to is not None and shift_by is not None:
        raise typer.BadParameter("contradicts --to: say one of them.", param_hint="--shift-by")
    if to is None and shift_by is None:
        raise typer.BadParameter("say where to: one of --to and --shift-by.", param_hint="--to")
    refuse_contradiction(dry_run=dry_run, execute=execute)
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
    partitions = counted(len(moves), "partition")
    if not moves:
        remark("There is nothing to move.")
    elif is_agreed(f"Move in {partitions}?", dry_run=dry_run, execute=execute):
        apply_reset(cluster, group, moves)
        remark(f"Moved {group} in {partitions}.")
    else:
        remark("Nothing was changed; say --execute to move the group.")


def _move_as_json(move: OffsetMove) -> dict[str, object]:
    return {
        "topic": move.partition.topic,
        "partition": move.partition.number,
        "before": move.before,
        "after": move.after,
        "lag": move.lag,
    }
