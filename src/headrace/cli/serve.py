"""`headrace serve`: answer with the rows of views, and push their changes."""

import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.options import BootstrapOption, assignments_from, settings_of
from headrace.cli.output import remark

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def serve(
    context: typer.Context,
    view: Annotated[
        list[str] | None,
        typer.Option(
            "--view",
            metavar="NAME=TOPIC",
            help="Serve a view of a topic, besides those of flows and settings; repeatable.",
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="COLUMN",
            help="Column that rows of --view are found by; repeatable.  [default: records' keys]",
        ),
    ] = None,
    format: Annotated[  # noqa: A002 - the word that everybody knows
        str,
        typer.Option("--format", metavar="FORMAT", help="Values of --view: json or debezium."),
    ] = "json",
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="HOST:PORT", help="Where to serve.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--directory", metavar="DIR", help="Where rows are kept.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="URL", help="sqlite, postgresql://... or redis://..."),
    ] = None,
    bootstrap: BootstrapOption = None,
) -> None:
    """Serve views over HTTP, with their changes, until Ctrl-C or SIGTERM.

    Every view that a flow declares with flow.view(), every [[view]] of headrace.toml and every
    --view is kept up to date from its topic, and read over HTTP: GET /views tells which there are.
    """
    from headrace.views.materialized.description import ViewDescription
    from headrace.views.serving.server import ViewServer

    settings = settings_of(
        context,
        {
            "kafka.bootstrap": bootstrap,
            "serve.address": listen,
            "serve.directory": None if directory is None else str(directory),
            "serve.store": store,
        },
    )
    views = [
        ViewDescription(name, topic, tuple(key or ()), format)
        for name, topic in assignments_from(view or [], "--view").items()
    ]
    told = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: told.set())
    with ViewServer(replace(settings), views) as server:
        remark(f"Views at {server.url}")
        while not told.wait(0.2) and not server.wait(0):
            pass
