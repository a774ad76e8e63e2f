"""The live displays: a table of queries, and a bar over the backlog."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from headrace.settings import readable_duration
from headrace.streams.running.display import skipped_of
from headrace.streams.running.progress import QueryProgress, QueryState
from headrace.streams.time.standing import Standing, moment_of

_HEADINGS = ("QUERY", "STATE", "RATE", "LAG", "BATCH", "TIME", "READ", "WRITTEN", "RESTARTS")
_MOST_SOURCES = 5
"""Sources of time that are shown of each query."""

_COLOURS = {QueryState.WAITING: "yellow", QueryState.GIVEN_UP: "red"}


class Screen:
    """Rewrites a table in place; the last one stays."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream)
        self._live = Live(Text("starting ...", style="dim"), console=self._console)

    def show(self, queries: Sequence[QueryProgress]) -> None:
        """Show the queries as they are now."""
        self._live.update(_table(queries))

    def say(self, line: str) -> None:
        """Write a line above the table."""
        self._console.print(Text(line))

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._live.stop()


class Bar:
    """A bar per query, over the records that were there when the run began."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.fields[of]}"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._tasks: dict[str, TaskID] = {}

    def show(self, queries: Sequence[QueryProgress]) -> None:
        """Move the bars."""
        for each in queries:
            name = f"{each.flow}.{each.output}"
            if name not in self._tasks:
                self._tasks[name] = self._progress.add_task(name, total=None, of="?", rate="")
            finished = each.state is QueryState.FINISHED
            total = each.read if finished else each.backlog
            self._progress.update(
                self._tasks[name],
                completed=each.read,
                total=total if total or not finished else 1,
                of="?" if total is None else f"{total:,}",
                rate="" if finished else f"{each.rate:,.0f}/s",
                description=Text(name, style=_COLOURS.get(each.state, "")).markup,
            )

    def say(self, line: str) -> None:
        """Write a line above the bars."""
        self._console.print(Text(line))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()


class CatchingUp:
    """A bar over the backlog until that is read, and from then on the table."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown: Bar | Screen = Bar(stream)

    def show(self, queries: Sequence[QueryProgress]) -> None:
        """Move the bars, or show the queries."""
        if isinstance(self._shown, Bar) and queries and all(map(_caught_up, queries)):
            self._shown.show(queries)
            self._shown.__exit__(None, None, None)
            self._shown = Screen(self._stream)
            self._shown.__enter__()
        self._shown.show(queries)

    def say(self, line: str) -> None:
        """Write a line above what is shown."""
        self._shown.say(line)

    def __enter__(self) -> Self:
        self._shown.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._shown.__exit__(kind, error, traceback)


def _caught_up(query: QueryProgress) -> bool:
    return query.backlog is not None and (query.lag == 0 or query.read >= query.backlog)


def _table(queries: Sequence[QueryProgress]) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in _HEADINGS:
        table.add_column(heading, justify="left" if heading in _HEADINGS[:2] else "right")
    for each in queries:
        table.add_row(
            f"{each.flow}.{each.output}",
            str(each.state),
            f"{each.rate:,.0f}/s",
            _number(each.lag),
            _number(each.batch),
            "-" if each.batch_ms is None else readable_duration(each.batch_ms),
            _number(each.read),
            _number(each.written),
            _number(each.restarts),
            style=_COLOURS.get(each.state),
        )
    # Below the table, since terminals are narrow and mostly there is nothing to tell.
    skipped = [
        Text(f"{each.flow}.{each.output}: {', '.join(found)}", style="yellow")
        for each in queries
        if (found := skipped_of(each))
    ]
    times = [
        Text(f"{each.flow}.{each.output}: {each.time}{_sources(each.time)}", style="dim")
        for each in queries
        if each.time is not None
    ]
    errors = [Text(each.error, style="dim") for each in queries if each.error]
    return Group(table, *times, *skipped, *errors)


def _sources(time: Standing) -> str:
    """How far each source of time has come, those furthest behind first."""
    if len(time.sources) < 2:
        return ""
    behind = sorted(time.sources, key=lambda each: (each.idle, each.bound, each.name))
    shown = [
        f"{each.name} {'idle since' if each.idle else 'at'} {moment_of(each.bound)}"
        for each in behind[:_MOST_SOURCES]
    ]
    more = len(behind) - len(shown)
    return f" ({', '.join(shown)}{f' and {more:,} more' if more else ''})"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
