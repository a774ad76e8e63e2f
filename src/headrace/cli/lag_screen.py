"""The live screen of `headrace groups watch`."""

from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cli.lag_view import HEADINGS, GroupLine, Lines, partition_table
from headrace.cli.output import Cell
from headrace.kafka import LagSample

_NUMERIC = frozenset(
    {"LAG", "TIME", "RATE", "CATCHES UP", "LOST", "PARTITION", "COMMITTED", "LATEST"}
)
"""Columns that stand to the right."""

_NAMES = frozenset({"GROUP", "TOPIC"})
"""Columns that may take several lines, so that the others need not be cut off."""

_CHART_WIDTH = 100
"""Terminals narrower than this have no room for the chart, which is the last column."""


class LagScreen:
    """Rewrites its tables in place; the last one stays when it is left."""

    def __init__(self, lines: Lines, *, in_detail: bool, console: Console | None = None) -> None:
        self._lines = lines
        self._in_detail = in_detail
        self._live = Live(Text("measuring ...", style="dim"), console=console, auto_refresh=False)

    def show(self, sample: LagSample) -> None:
        """Show the newest sample."""
        self._live.update(self._rendered(sample), refresh=True)

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._live.stop()

    def _rendered(self, sample: LagSample) -> RenderableType:
        if not sample.groups:
            return Text("There are no consumer groups yet.", style="dim")
        columns = len(HEADINGS) - (self._live.console.width < _CHART_WIDTH)
        table = _table(HEADINGS[:columns])
        for line in self._lines.of(sample):
            table.add_row(*map(_written, line.cells()[:columns]), style=_style(line))
        if not self._in_detail:
            return table
        headings, rows = partition_table(sample)
        detail = _table(headings)
        for row in rows:
            detail.add_row(*map(_written, row))
        return Group(table, Text(), detail)


def _table(headings: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(
            heading,
            justify="right" if heading in _NUMERIC else "left",
            no_wrap=heading not in _NAMES,
            overflow="fold",
        )
    return table


def _style(line: GroupLine) -> str:
    if line.group.lost:
        return "red"
    return "yellow" if line.group.records else "green"


def _written(cell: Cell) -> Text:
    if cell is None or cell == "":
        return Text("-", style="dim")
    return Text(f"{cell:,}" if isinstance(cell, int) else cell)
