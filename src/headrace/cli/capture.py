"""`headrace capture`: databases become streams; see how they are, and let them rest or go."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from headrace.cli.capture_run import run
from headrace.cli.options import BootstrapOption, JsonOption, cluster_of, settings_of

_RUN = "run"


class _CaptureGroup(TyperGroup):
    """Commands among which what is none is the URL of a database to capture."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put in the command that is meant where none is named."""
        helps = ("-h", "--help")
        if not args or (args[0] not in self.commands and args[0] not in helps):
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_CaptureGroup,
    help="Turn what changes in a database into streams.\n\n"
    "`headrace capture URL --tables ... --to ...` runs one, and `headrace capture` alone those of "
    "headrace.toml, until Ctrl-C or SIGTERM. The commands below are for captures that run.",
    rich_markup_mode=None,
    add_completion=False,
)
app.command(_RUN)(run)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The capture's name.")]


@app.command()
def status(
    context: typer.Context, as_json: JsonOption = False, bootstrap: BootstrapOption = None
) -> None:
    """Show the captures of a cluster: what each is doing, and how far it has got."""
    from headrace.capture.control import states
    from headrace.cli.capture_status import show

    show(states(cluster_of(context, bootstrap)), as_json=as_json)


@app.command()
def pause(context: typer.Context, name: NameArgument, bootstrap: BootstrapOption = None) -> None:
    """Let a capture rest; the database keeps its log for it meanwhile."""
    from headrace.capture import control
    from headrace.cli.output import remark

    control.pause(cluster_of(context, bootstrap), name, paused=True)
    remark(f"{name} pauses. The database keeps its log until `headrace capture resume {name}`.")


@app.command()
def resume(context: typer.Context, name: NameArgument, bootstrap: BootstrapOption = None) -> None:
    """Let a capture go on from where it paused."""
    from headrace.capture import control
    from headrace.cli.output import remark

    control.pause(cluster_of(context, bootstrap), name, paused=False)
    remark(f"{name} goes on.")


@app.command()
def snapshot(
    context: typer.Context,
    name: NameArgument,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table.")],
    after: Annotated[
        list[str] | None,
        typer.Option(
            "--after",
            metavar="VALUE",
            help="Only rows whose key is greater; once per column of the key.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="VALUE",
            help="Only rows up to this key; once per column of the key.",
            show_default=False,
        ),
    ] = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Read a table again, or a range of its keys, while changes flow."""
    from headrace.capture.control import request_snapshot
    from headrace.cli.output import remark

    low, high = tuple(after) if after else None, tuple(to) if to else None
    asked = request_snapshot(cluster_of(context, bootstrap), name, table, low, high)
    remark(f"{name} reads {asked.table} again; `headrace capture status` shows how far it is.")


@app.command()
def drop(
    context: typer.Context,
    name: NameArgument,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="The database, if headrace.toml does not say.",
            show_default=False,
        ),
    ] = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Remove a capture and all that it made in the database; its topics stay."""
    from headrace.capture import control
    from headrace.cli.output import remark
    from headrace.kafka import Cluster
    from headrace.settings import CaptureSettings

    settings = settings_of(context, {"kafka.bootstrap": bootstrap})
    known = {each.called: each for each in settings.capture.captures}
    if url is not None:
        known[name] = CaptureSettings(url=url, tables=("*",), to=name)
    if name not in known:
        raise typer.BadParameter(
            f"headrace.toml has no capture {name}; name its database.", param_hint="--url"
        )
    for each in control.drop(Cluster(settings.kafka), known[name]) or ["nothing; there was none"]:
        remark(f"dropped {each}")
