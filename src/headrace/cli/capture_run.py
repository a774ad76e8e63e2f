"""`headrace capture URL`: run captures until Ctrl-C or SIGTERM."""

import logging
import signal
import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.options import BootstrapOption, assignments_from, settings_of
from headrace.cli.output import remark

if TYPE_CHECKING:
    from headrace.capture.progress import CaptureProgress
    from headrace.capture.running import CaptureRuns
    from headrace.settings import CaptureSettings, Settings

_LOG_FORMAT = "%(levelname)s %(name)s: %(message)s"
_SHOW_SECONDS = 0.25
_LINE_SECONDS = 10.0
_BAR = 24


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
    metrics: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve Prometheus metrics here.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say more about what happens.")
    ] = False,
    bootstrap: BootstrapOption = None,
) -> None:
    """Capture a database until Ctrl-C or SIGTERM."""
    from headrace.capture.running import CaptureRuns
    from headrace.kafka import Cluster

    logging.basicConfig(level="INFO" if verbose else "WARNING", format=_LOG_FORMAT)
    settings = settings_of(context, {"kafka.bootstrap": bootstrap, "capture.metrics": metrics})
    options = {"tables": tables, "to": to, "name": name, "lost": lost} | dict(
        assignments_from(given or [], "--set")
    )
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
    from headrace.settings.tables import Tables

    if url is None:
        if options:
            raise typer.BadParameter(
                "needs the URL of a database.", param_hint=f"--{next(iter(options))}"
            )
        if not settings.capture.captures:
            raise typer.BadParameter(
                "name a database, or write [[capture]] into headrace.toml.", param_hint="URL"
            )
        return settings.capture.captures
    if isinstance(options.get("tables"), list):
        options["tables"] = [
            word for each in options["tables"] for word in each.split(",") if word.strip()
        ]
    try:
        return Tables(CaptureSettings).parse([{"url": url, **options}])
    except ValueError as error:
        said = str(error).removeprefix("number 1").removeprefix(":").strip()
        raise typer.BadParameter(f"{said}.", param_hint="the capture") from None


def _check(captures: "tuple[CaptureSettings, ...]") -> None:
    from headrace.capture.databases import source_of
    from headrace.capture.errors import NotPrepared
    from headrace.capture.naming import shown

    for each in captures:
        source = source_of(each)
        try:
            found = source.check()
        finally:
            source.close()
        for advice in found.advice:
            remark(f"{each.called}: {advice}")
        if found.problems:
            raise NotPrepared(shown(each.address), found.problems)
        remark(f"{each.called}: ready")


def _run(runs: "CaptureRuns", metrics: str | None) -> None:
    from headrace.capture.metrics import exposition
    from headrace.prometheus import served

    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    with ExitStack() as resources:
        runs.start()
        resources.callback(runs.stop)

        def progress() -> "list[CaptureProgress]":
            return [run.progress for run in runs.runs]

        if metrics is not None:
            address = resources.enter_context(served(metrics, lambda: exposition(progress())))
            remark(f"metrics at http://{address}/metrics")
        display = _Display()
        while not runs.ended(_SHOW_SECONDS):
            display.show(progress())
            if stopping.is_set():
                runs.ask_to_stop()
        display.end()


class _Display:
    """A line that is rewritten in a terminal, and a line now and then elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._due = time.monotonic() + _LINE_SECONDS
        self._last: list[str] = []
        self._said: set[str] = set()

    def show(self, captures: "list[CaptureProgress]") -> None:
        """Show captures as they are now."""
        for each in captures:
            if each.position is not None and each.name not in self._said:
                self._said.add(each.name)
                remark(f"capturing {each.name}; Ctrl-C ends")
        lines = [line_of(each) for each in captures]
        if self._live:
            print("\r\x1b[K" + " | ".join(lines), end="", file=sys.stderr, flush=True)
        elif lines != self._last and time.monotonic() >= self._due:
            self._due = time.monotonic() + _LINE_SECONDS
            self._last = lines
            for line in lines:
                remark(line)

    def end(self) -> None:
        """Make room for other lines."""
        if self._live:
            print(file=sys.stderr)


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
