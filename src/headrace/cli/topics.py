"""`headrace topics`: list, create, describe, delete and configure topics."""

import sys
from typing import Annotated

import typer

from headrace.cli.options import BootstrapOption, JsonOption, assignments_from, cluster_of
from headrace.cli.output import print_facts, print_json, print_table, remark
from headrace.kafka import (
    ConfigOrigin,
    add_partitions,
    change_topic_config,
    create_topic,
    delete_topic,
    describe_topic,
    ensure_topic,
    list_topics,
    topic_config,
)

app = typer.Typer(
    help="List, create, describe, delete and configure topics.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Its name.")]
TopicsArgument = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Their names.")]


@app.command("list")
def list_(
    context: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Show the cluster's own topics too.")
    ] = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """List the topics of a cluster."""
    found = list_topics(cluster_of(context, bootstrap))
    shown = [topic for topic in found if everything or not topic.internal]
    if as_json:
        print_json(
            [
                {
                    "topic": topic.name,
                    "partitions": topic.partitions,
                    "replicas": topic.replicas,
                    "internal": topic.internal,
                }
                for topic in shown
            ]
        )
    elif shown:
        print_table(
            ("TOPIC", "PARTITIONS", "REPLICAS"),
            [(topic.name, topic.partitions, topic.replicas) for topic in shown],
        )
    else:
        remark("There are no topics yet.")


@app.command()
def create(
    context: typer.Context,
    topics: TopicsArgument,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", metavar="N", min=1, help="How many.  [default: the cluster's]"
        ),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas", "-r", metavar="N", min=1, help="Copies of each partition in the cluster."
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="NAME=VALUE", help="Configuration; repeatable."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave a topic that exists as it is.")
    ] = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Create topics, and return when they can be written to."""
    cluster = cluster_of(context, bootstrap)
    settings = assignments_from(config or [], "--config")
    for topic in topics:
        if if_not_exists:
            created = ensure_topic(
                cluster, topic, partitions=partitions, replicas=replicas, config=settings
            )
        else:
            create_topic(cluster, topic, partitions=partitions, replicas=replicas, config=settings)
            created = True
        remark(f"Created {topic}." if created else f"{topic} exists already.")


@app.command()
def describe(
    context: typer.Context,
    topic: TopicArgument,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Show a topic's partitions and what they hold.

    Also what is configured for the topic itself; `headrace topics config` shows everything.
    """
    cluster = cluster_of(context, bootstrap)
    found = describe_topic(cluster, topic)
    config = {
        entry.name: entry.value
        for entry in topic_config(cluster, topic)
        if entry.origin is ConfigOrigin.TOPIC
    }
    if as_json:
        print_json(
            {
                "topic": found.name,
                "id": found.id,
                "config": config,
                "partitions": [
                    {
                        "partition": each.number,
                        "leader": each.leader,
                        "replicas": each.replicas,
                        "in_sync": each.in_sync,
                        "earliest": each.earliest,
                        "latest": each.latest,
                    }
                    for each in found.partitions
                ],
            }
        )
        return
    print_facts(
        {
            "Topic": found.name,
            "Id": found.id,
            "Config": ", ".join(f"{name}={value}" for name, value in config.items()),
        }
    )
    print()
    print_table(
        ("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "EARLIEST", "LATEST", "OFFSETS"),
        [
            (
                each.number,
                each.leader,
                ",".join(map(str, each.replicas)),
                ",".join(map(str, each.in_sync)),
                each.earliest,
                each.latest,
                each.latest - each.earliest,
            )
            for each in found.partitions
        ],
    )


@app.command()
def delete(
    context: typer.Context,
    topics: TopicsArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Delete topics and every record in them."""
    cluster = cluster_of(context, bootstrap)
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter(
                f"there is no terminal to ask in; say --yes to delete {', '.join(topics)} "
                "and every record in it.",
                param_hint="--yes",
            )
        typer.confirm(f"Delete {', '.join(topics)} and every record?", abort=True, err=True)
    for topic in topics:
        delete_topic(cluster, topic)
        remark(f"Deleted {topic}.")


@app.command()
def config(
    context: typer.Context,
    topic: TopicArgument,
    assign: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Entries to set.", show_default=False),
    ] = None,
    reset: Annotated[
        list[str] | None,
        typer.Option("--reset", metavar="NAME", help="Return to the default; repeatable."),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", metavar="N", min=1, help="Grow to so many partitions."),
    ] = None,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Show a topic's configuration, or change it."""
    cluster = cluster_of(context, bootstrap)
    assignments = assignments_from(assign or [], "NAME=VALUE")
    if assignments or reset:
        change_topic_config(cluster, topic, assign=assignments, reset=reset or ())
        remark(f"Changed the configuration of {topic}.")
    if partitions is not None:
        add_partitions(cluster, topic, partitions)
        remark(f"{topic} has {partitions} partitions now.")
    if assignments or reset or partitions is not None:
        return
    entries = topic_config(cluster, topic)
    if as_json:
        print_json({entry.name: {"value": entry.value, "from": entry.origin} for entry in entries})
    else:
        print_table(
            ("NAME", "VALUE", "FROM"),
            [(entry.name, entry.value, str(entry.origin)) for entry in entries],
        )
