"""`headrace groups describe`: who is in a group, who reads what, and how far behind it is."""

from typing import Annotated

import typer

from headrace.cli.options import BootstrapOption, GroupArgument, JsonOption, cluster_of, settings_of
from headrace.cli.output import Cell, duration, print_facts, print_json, print_table
from headrace.kafka import GroupDetail, GroupProgress, describe_group, isolation_by


def describe(
    context: typer.Context,
    group: GroupArgument,
    time: Annotated[
        bool,
        typer.Option(
            "--time/--no-time", help="Read the first unread record of each partition for its age."
        ),
    ] = True,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Show who is in a group and how far behind it is."""
    isolation = isolation_by(settings_of(context).lag.read_uncommitted)(group)
    found = describe_group(cluster_of(context, bootstrap), group, isolation=isolation, time=time)
    if as_json:
        print_json(_as_json(found))
        return
    time_lag = duration(found.time_lag_ms)
    print_facts(
        {
            "Group": found.name,
            "Kind": found.protocol,
            "State": found.state,
            "Assignor": found.assignor,
            "Coordinator": found.coordinator,
            "Lag": f"{found.lag}, {time_lag}" if time_lag else found.lag,
            **({"Lost": f"{found.lost} removed before they were read"} if found.lost else {}),
        }
    )
    if found.progress:
        print()
        _print_progress(found, with_time=time)
    if found.members:
        print()
        print_table(
            ("MEMBER", "CLIENT", "HOST", "PARTITIONS"),
            [
                (each.id, each.client_id, each.host, ", ".join(map(str, each.partitions)))
                for each in found.members
            ],
        )


def _print_progress(group: GroupDetail, *, with_time: bool) -> None:
    columns: dict[str, list[Cell]] = {
        "TOPIC": [each.lag.partition.topic for each in group.progress],
        "PARTITION": [each.lag.partition.number for each in group.progress],
        "COMMITTED": [each.lag.committed for each in group.progress],
        "LATEST": [each.lag.latest for each in group.progress],
        "LAG": [each.lag.records for each in group.progress],
    }
    if with_time:
        columns["TIME"] = [duration(each.lag.time_ms) for each in group.progress]
    if group.lost:
        columns["LOST"] = [each.lag.lost for each in group.progress]
    columns["MEMBER"] = [each.member.id if each.member else None for each in group.progress]
    print_table(list(columns), list(zip(*columns.values(), strict=True)))


def _as_json(group: GroupDetail) -> dict[str, object]:
    return {
        "group": group.name,
        "state": group.state,
        "protocol": group.protocol,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "isolation": group.isolation,
        "lag": group.lag,
        "time_lag_ms": group.time_lag_ms,
        "lost": group.lost,
        "partitions": [_progress_as_json(each) for each in group.progress],
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


def _progress_as_json(progress: GroupProgress) -> dict[str, object]:
    lag = progress.lag
    return {
        "topic": lag.partition.topic,
        "partition": lag.partition.number,
        "committed": lag.committed,
        "earliest": lag.earliest,
        "latest": lag.latest,
        "lag": lag.records,
        "time_lag_ms": lag.time_ms,
        "lost": lag.lost,
        "member": progress.member.id if progress.member else None,
    }
