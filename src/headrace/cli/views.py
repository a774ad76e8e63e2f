"""`headrace views`: what is served, another version beside it, and the switch between them."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.failures import FAILED
from headrace.cli.options import BootstrapOption, JsonOption, settings_of
from headrace.cli.output import print_json, print_table, remark

if TYPE_CHECKING:
    from headrace.kafka import Cluster
    from headrace.views import Views

app = typer.Typer(
    help="List views, rebuild, compare and promote versions, drop one.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

ServerOption = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="Where views are served, if not as set."),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token", metavar="TOKEN", envvar="HEADRACE_TOKEN", help="A token that opens the views."
    ),
]
ViewArgument = Annotated[str, typer.Argument(metavar="VIEW", help="Its name.")]


@app.command("list")
def list_(
    context: typer.Context,
    as_json: JsonOption = False,
    server: ServerOption = None,
    token: TokenOption = None,
) -> None:
    """List the views of a server: their names, which version is shown, and how it stands."""
    _, views = _reached(context, server, token, None)
    found = views.views()
    if as_json:
        print_json(found)
        return
    if not found:
        remark("No view is served there yet.")
        return
    print_table(
        ("VIEW", "SHOWN", "STATE", "ROWS", "LAG", "FEEDS", "OF", "POSITION"),
        [
            (
                each["name"],
                each["served_by"],
                _state(each),
                each["rows"],
                each["lag"],
                each["subscribers"],
                f"flow {each['flow']}" if each["flow"] else f"topic {each['topic']}",
                each["position"],
            )
            for each in found
        ],
    )


@app.command()
def rebuild(
    context: typer.Context,
    view: ViewArgument,
    beside: Annotated[
        str, typer.Option("--as", metavar="NAME", help="What the new version is called.")
    ],
    server: ServerOption = None,
    token: TokenOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Build a view once more, from the beginning of its topic, beside the one that is served.

    Both are served; `headrace views diff` compares them, and `headrace views promote` shows the new
    one to the readers of the old one. A flow's logic is rebuilt with `headrace run --rebuild`.
    """
    from headrace.views.migrating import await_built
    from headrace.views.migrating import rebuild as begin

    cluster, views = _reached(context, server, token, bootstrap)
    begin(cluster, views, view, beside)
    with _bar(beside) as tell:
        status = await_built(views, beside, tell=tell)
    assert status is not None
    remark(f"Built {beside} with {status['rows']:,} rows.")


@app.command()
def promote(
    context: typer.Context,
    view: ViewArgument,
    force: Annotated[
        bool, typer.Option("--force", help="Even if it is behind the one that is shown now.")
    ] = False,
    server: ServerOption = None,
    token: TokenOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Show a version of a view to its readers; their feeds begin anew."""
    from headrace.views.migrating import promote as switch

    cluster, views = _reached(context, server, token, bootstrap)
    name = switch(cluster, views, view, force=force)
    remark(f"Readers of {name} are shown {view}.")


@app.command()
def diff(
    context: typer.Context,
    one: Annotated[str, typer.Argument(metavar="VIEW", help="A view.")],
    other: Annotated[str, typer.Argument(metavar="VIEW", help="Another one.")],
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="Differences that are listed.")
    ] = 20,
    as_json: JsonOption = False,
    server: ServerOption = None,
    token: TokenOption = None,
) -> None:
    """Compare two views, row by row, at one position; the exit code is 1 if they differ."""
    _, views = _reached(context, server, token, None)
    found = views.diff(one, other, limit=limit)
    differing = found["different"] + found["only_in_one"] + found["only_in_other"]
    if as_json:
        print_json(found)
    else:
        _print_differences(one, other, found)
    if differing:
        raise typer.Exit(FAILED)


@app.command()
def drop(
    context: typer.Context,
    view: ViewArgument,
    server: ServerOption = None,
    token: TokenOption = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Forget a view that nobody is shown, and remove its rows; its topic stays."""
    from headrace.views.migrating import drop as forget

    cluster, views = _reached(context, server, token, bootstrap)
    forget(cluster, views, view)
    remark(f"Dropped {view}.")


def _reached(
    context: typer.Context, server: str | None, token: str | None, bootstrap: str | None
) -> "tuple[Cluster, Views]":
    from headrace.kafka import Cluster
    from headrace.views import Views

    settings = settings_of(context, {"kafka.bootstrap": bootstrap})
    if token is None and settings.serve.tokens:
        token = settings.serve.tokens[0].token
    address = server or f"http://{settings.serve.address}"
    return Cluster(settings.kafka), Views(address, token=token)


def _state(status: dict[str, Any]) -> str:
    if status["error"]:
        return "waiting"
    return f"building {status['progress']:.0%}" if status["building"] else "current"


def _print_differences(one: str, other: str, found: dict[str, Any]) -> None:
    for each in found["examples"]:
        first, second = each["one"], each["other"]
        print(f"{each['key']}")
        print(f"  {one}: {'-' if first is None else first}")
        print(f"  {other}: {'-' if second is None else second}")
    remark(
        f"{found['same']:,} rows are the same, {found['different']:,} differ, "
        f"{found['only_in_one']:,} are only in {one}, {found['only_in_other']:,} only in {other} "
        f"(at {found['position'] or 'the beginning'})."
    )


class _bar:  # noqa: N801 - used like a function
    """A progress bar on stderr, where that is a terminal."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        lag = TextColumn("{task.fields[lag]}")
        columns = (TextColumn(name), BarColumn(), TaskProgressColumn(), lag)
        shown = sys.stderr.isatty()
        self._progress = Progress(*columns, console=Console(stderr=True), disable=not shown)
        self._task = self._progress.add_task(name, total=1.0, lag="")

    def __enter__(self) -> Any:
        self._progress.start()
        return self._tell

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def _tell(self, status: dict[str, Any]) -> None:
        left = f"{status['lag']:,} records left"
        self._progress.update(self._task, completed=status["progress"], lag=left)
