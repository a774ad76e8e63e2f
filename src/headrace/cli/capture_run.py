"""`headrace capture URL`: run captures until Ctrl-C or SIGTERM."""

import gc
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.options import BootstrapOption, assignments_from, settings_of
from headrace.cli.output import remark
from headrace.cli.running import (
    MetricsOption,
    VerboseOption,
    log_to_stderr,
    run_until_signal,
    tables_of,
    words_of,
)

if TYPE_CHECKING:
    from headrace.capture.progress import CaptureProgress
    from headrace.capture.running import CaptureRuns
    from headrace.settings import CaptureSettings, Settings

_BAR = 24
_OBJECTS_PER_COLLECTION = 100_000
"""How many objects are made before Python looks for cycles, of which changes have none."""


def run(
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="URL",
            help="The database, such as postgresql://user@host/shop.  [default: those of "
            "headrace.toml]",
            show_default=False,
        ),
    ] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--tables",
            "-t",
            metavar="TABLE",
            help="A table, or a pattern; may be repeated.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="PREFIX", help="How the names of its topics begin."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="What it is called, if not as its topics."),
    ] = None,
    lost: Annotated[
        str | None,
        typer.Option(
            "--lost", metavar="stop|snapshot", help="What to do when its place in the log is lost."
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="TABLE=CONDITION",
            help="Only rows of a table that fulfil an SQL condition; may be repeated.",
            show_default=False,
        ),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any other setting of a [[capture]]; may be repeated.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only say what is missing, and change nothing.")
    ] = False,
    metrics: MetricsOption = None,
    verbose: VerboseOption = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Capture a database until Ctrl-C or SIGTERM."""
    from headrace.capture.running import CaptureRuns
    from headrace.kafka import Cluster

    log_to_stderr(verbose=verbose, otherwise="WARNING")
    settings = settings_of(context, {"kafka.bootstrap": bootstrap, "capture.metrics": metrics})
    conditions = dict(assignments_from(where or [], "--where"))
    options = {
        "tables": words_of(tables),
        "to": to,
        "name": name,
        "lost": lost,
        "where": conditions,
        **assignments_from(given or [], "--set"),
    }
    captures = _captures(settings, url, {key: value for key, value in options.items() if value})
    if check:
        _check(captures)
        return
    cluster = Cluster(settings.kafka)
    _run(CaptureRuns(captures, cluster), settings.capture.metrics)


def _captures(
    settings: "Settings", url: str | None, options: dict[str, Any]
) -> "tuple[CaptureSettings, ...]":
    from headrace.settings import CaptureSettings

    if url is not None:
        for key, meant in (("tables", 'a table, or "*"'), ("to", "how the names of topics begin")):
            if key not in options:
                raise typer.BadParameter(f"is missing: {meant}.", param_hint=f"--{key}")
    return tables_of(
        CaptureSettings,
        settings.capture.captures,
        None if url is None else {"url": url},
        options,
        table="capture",
        what="the URL of a database",
        argument="URL",
    )


def _check(captures: "tuple[CaptureSettings, ...]") -> None:
    from headrace.capture.databases import source_of
    from headrace.capture.errors import NotPrepared
    from headrace.capture.selection import Selection, not_there
    from headrace.settings.address import shown

    for each in captures:
        source = source_of(each)
        try:
            found = source.check()
            for advice in found.advice:
                remark(f"{each.called}: {advice}")
            if found.problems:
                raise NotPrepared(shown(each.address), found.problems)
            names = [table.name for table in source.tables()]
            for pattern in Selection(each.tables).unmatched(names, source.schema):
                remark(f"{each.called}: {not_there(pattern)}")
        finally:
            source.close()
        remark(f"{each.called}: ready")


def _run(runs: "CaptureRuns", metrics: str | None) -> None:
    from headrace.capture.metrics import exposition

    def progress() -> "list[CaptureProgress]":
        return [run.progress for run in runs.runs]

    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    run_until_signal(
        runs,
        lines=lambda: [line_of(each) for each in progress()],
        begun=lambda: [
            f"capturing {each.name}; Ctrl-C ends"
            for each in progress()
            if each.position is not None
        ],
        metrics=metrics,
        exposition=lambda: exposition(progress()),
    )


def line_of(progress: "CaptureProgress") -> str:
    """A capture in a line, with a bar while it reads tables."""
    done = sum(table.rows for table in progress.tables)
    expected = sum(table.rows if table.done else table.estimate for table in progress.tables)
    line = f"{progress.name}: {progress.condition}"
    if any(not table.done for table in progress.tables):
        share = done / expected if expected else 0.0
        filled = round(share * _BAR)
        line += f" [{'#' * filled}{'.' * (_BAR - filled)}] {share:.0%}, {done:,} rows"
    line += f", {progress.changes:,} changes"
    if progress.behind_ms is not None:
        line += f", {progress.behind_ms / 1000:.1f} s behind"
    return f"{line}, {progress.failure}" if progress.failure else line
