"""`headrace flows`: the versions of flows, which is current, and switching from one to another."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.options import BootstrapOption, JsonOption, settings_of
from headrace.cli.output import print_json, print_table, remark

if TYPE_CHECKING:
    from headrace.settings import Settings
    from headrace.streams.running.places import Place
    from headrace.streams.running.promoting import Promotion
    from headrace.streams.running.standing import VersionStanding

app = typer.Typer(
    help="List flows and their versions, promote one, drop one.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

CheckpointsOption = Annotated[
    str | None,
    typer.Option(
        "--checkpoints", metavar="DIR", help="Where flows keep what they know, if not as set."
    ),
]
FlowArgument = Annotated[str, typer.Argument(metavar="FLOW", help="Its name.")]
VersionArgument = Annotated[str, typer.Argument(metavar="VERSION", help="Its version.")]


@app.command("list")
def list_(
    context: typer.Context,
    as_json: JsonOption = False,
    checkpoints: CheckpointsOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """List the flows that have run here, their versions, how far behind each is and its topics."""
    from headrace.kafka.connection import connect
    from headrace.streams.running.registry import RegistryFile
    from headrace.streams.running.standing import standings

    settings = _settings(context, checkpoints, bootstrap)
    root = _root(settings)
    registry = RegistryFile(root).read()
    if not registry.flows:
        if as_json:
            print_json([])
        remark(f"No flow has run with the checkpoints in {root.address} yet.")
        return
    found = list(standings(registry, root, connect(settings.kafka)))
    if as_json:
        print_json([_as_json(each) for each in found])
        return
    print_table(
        ("FLOW", "VERSION", "CURRENT", "STATE", "OUTPUT", "TOPIC", "LAG"),
        [
            (
                each.version.flow,
                each.version.name,
                "yes" if each.current else None,
                "running" if each.running else None,
                output.name,
                output.topic,
                output.lag,
            )
            for each in found
            for output in each.outputs
        ],
    )


@app.command()
def promote(
    context: typer.Context,
    flow: FlowArgument,
    version: VersionArgument,
    force: Annotated[
        bool, typer.Option("--force", help="Even if it has not read everything yet.")
    ] = False,
    checkpoints: CheckpointsOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Make a version the current one: plain runs continue it, and other flows read its topics.

    Both versions may be running meanwhile. To go back, promote the older one.
    """
    from headrace.kafka import Cluster
    from headrace.kafka.connection import connect
    from headrace.streams.running import promoting
    from headrace.streams.versions import Version, checked_version

    settings = _settings(context, checkpoints, bootstrap)
    done = promoting.promote(
        _root(settings),
        Version(flow, checked_version(version)),
        connect(settings.kafka),
        Cluster(settings.kafka),
        force=force,
    )
    _tell(done)


@app.command()
def drop(
    context: typer.Context,
    flow: FlowArgument,
    version: VersionArgument,
    topics: Annotated[
        bool, typer.Option("--topics", help="Delete the topics that it wrote as well.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    checkpoints: CheckpointsOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Delete the checkpoints and groups of a version that is not current."""
    from headrace.kafka import Cluster
    from headrace.streams.running import promoting
    from headrace.streams.running.registry import RegistryFile
    from headrace.streams.versions import Version, checked_version

    settings = _settings(context, checkpoints, bootstrap)
    root = _root(settings)
    doomed = Version(flow, checked_version(version))
    written = promoting.droppable_topics(RegistryFile(root).read(), doomed)
    also = f" and the topics {', '.join(written)}" if topics and written else ""
    what = f"the checkpoints of {flow} {version}{also}"
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter(
                f"there is no terminal to ask in; say --yes to delete {what}.", param_hint="--yes"
            )
        typer.confirm(f"Delete {what}?", abort=True, err=True)
    deleted = promoting.drop(root, doomed, Cluster(settings.kafka), topics=topics)
    remark(f"Dropped version {version} of {flow}.")
    for each in deleted:
        remark(f"Deleted the topic {each}.")
    if kept := [each for each in written if each not in deleted and not topics]:
        remark(f"Its topics are still there: {', '.join(kept)}.")


def _tell(done: "Promotion") -> None:
    after = done.after
    remark(
        f"{after.name} is the current version of {after.flow}, in the place of {done.before.name}."
    )
    for name, (old, new) in done.topics.items():
        remark(f"{name} now means the topic {new}; before, it was {old}.")
    for flow in done.flows:
        remark(
            f"Flow {flow} reads one of them and will not go on by itself: what it has made comes "
            f"from {done.before.name}. Rebuild it with `headrace run FILE --rebuild as NAME`."
        )
    if done.groups:
        remark(
            f"Other programs read the topics of {done.before.name}, with the groups "
            f"{', '.join(done.groups)}; they have to be pointed to the new topics by hand."
        )


def _as_json(standing: "VersionStanding") -> dict[str, object]:
    return {
        "flow": standing.version.flow,
        "version": standing.version.name,
        "current": standing.current,
        "running": standing.running,
        "lag": standing.lag,
        "outputs": [
            {"output": each.name, "topic": each.topic, "lag": each.lag} for each in standing.outputs
        ],
    }


def _settings(context: typer.Context, checkpoints: str | None, bootstrap: str | None) -> "Settings":
    return settings_of(context, {"kafka.bootstrap": bootstrap, "streams.checkpoints": checkpoints})


def _root(settings: "Settings") -> "Place":
    from headrace.streams.running.places import root_of
    from headrace.streams.session import spark_session

    return root_of(settings.streams, lambda: spark_session(settings.streams))
