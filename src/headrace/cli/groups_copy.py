"""`headrace groups copy`: a second group, placed where another one is or was."""

from typing import Annotated

import typer

from headrace.cli.agreement import counted, is_agreed, refuse_contradiction
from headrace.cli.options import (
    BootstrapOption,
    DryRunOption,
    ExecuteOption,
    JsonOption,
    ShiftByOption,
    cluster_of,
    position_from,
)
from headrace.cli.output import print_json, print_table, remark
from headrace.kafka import OffsetCopy, ShiftBy, apply_copy, plan_copy


def copy(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The group to copy.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The name of the copy.")],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="POSITION",
            help="earliest, latest, an offset, a time (2026-03-01T12:00), or -1d for yesterday.  "
            "[default: where the source is]",
        ),
    ] = None,
    shift_by: ShiftByOption = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="Only this topic; repeatable.  [default: all it reads]"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace offsets that the target has.")
    ] = False,
    dry_run: DryRunOption = False,
    execute: ExecuteOption = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Place a new group where another one is, or was.

    The same application, started under the new name, reads the same records once more and can
    write elsewhere. The source is left as it is and may be running. Shows the plan first. In a
    terminal it asks; elsewhere it changes nothing without --execute.
    """
    if to is not None and shift_by is not None:
        raise typer.BadParameter("contradicts --to: say one of them.", param_hint="--shift-by")
    refuse_contradiction(dry_run=dry_run, execute=execute)
    position = position_from(to, "--to") if to is not None else ShiftBy(shift_by or 0)
    cluster = cluster_of(context, bootstrap)
    copies = plan_copy(cluster, source, target, position, topics=topic or (), force=force)
    if as_json:
        print_json([_copy_as_json(each) for each in copies])
    else:
        print_table(
            ("TOPIC", "PARTITION", "SOURCE", "REPLACED", "TARGET", "LAG"),
            [
                (*each.partition, each.source, each.replaced, each.after, each.lag)
                for each in copies
            ],
        )
    partitions = counted(len(copies), "partition")
    if is_agreed(f"Create {target} in {partitions}?", dry_run=dry_run, execute=execute):
        apply_copy(cluster, target, copies)
        remark(f"Copied {source} to {target} in {partitions}.")
    else:
        remark("Nothing was changed; say --execute to copy the group.")


def _copy_as_json(copy: OffsetCopy) -> dict[str, object]:
    return {
        "topic": copy.partition.topic,
        "partition": copy.partition.number,
        "source": copy.source,
        "replaced": copy.replaced,
        "target": copy.after,
        "lag": copy.lag,
    }
