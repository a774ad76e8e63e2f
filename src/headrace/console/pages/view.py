"""One view: its rows as they change, a box for questions, and how fresh it is."""

from typing import Any, Final

from nicegui import ui

from headrace.console.frame import Console, frame, live
from headrace.console.observing.views import Answer
from headrace.console.widgets import PagedTable, Row, column, facts, heading, in_background
from headrace.console.wording import count, short, shown
from headrace.errors import HeadraceError

_LIMIT: Final = 200
_PAUSE_SECONDS: Final = 0.2


def register(console: Console) -> None:
    """Make the page known."""

    @ui.page("/view")
    def view(name: str = "") -> None:
        with frame(console, name, at="/views"):
            _show(console, name)


def _show(console: Console, name: str) -> None:
    observed = console.observatory.views

    def known() -> dict[str, str]:
        row = observed.value.rows.get(name)
        if row is None:
            return dict.fromkeys(("Rows", "Behind", "Position", "Subscribers", "Rejected"), "-")
        return {
            "Rows": count(row.rows),
            "Behind": row.staleness,
            "Position": short(row.position, 60) or "-",
            "Subscribers": count(row.subscribers),
            "Rejected": count(row.rejected),
        }

    heading(name)
    change = facts(known())
    failure = ui.label().classes("hr-error")

    def refresh() -> None:
        change(known())
        row = observed.value.rows.get(name)
        failure.text = observed.seen.failure or (row.error if row else "")
        failure.visible = bool(failure.text)

    live(refresh)
    Rows(console, name)


class Rows:
    """The rows that somebody asks for, asked for again when the change feed tells of a change."""

    def __init__(self, console: Console, name: str) -> None:
        self._console = console
        self._name = name
        self._answer: Answer | None = None
        self._where = self._order_by = ""
        self._busy = False
        self._changes = 0
        with ui.element("div").classes("hr-row-form"):
            self._words = ui.input("Where", placeholder="total > 100 and status = 'new'")
            self._words.props("outlined dense clearable").classes("col-grow")
            self._order = ui.input("Order", placeholder="total desc")
            self._order.props("outlined dense clearable").style("width: 180px")
            ui.button("Ask", icon="search", on_click=self._ask).props("unelevated color=primary")
            for each in (self._words, self._order):
                each.on("keydown.enter", self._ask)
        self._said = ui.label("").classes("hr-sub").props("aria-live=polite")
        self._place = ui.column().classes("w-full")
        self._table: PagedTable | None = None
        self._columns: list[str] = []
        ui.timer(0.05, self._ask, once=True)
        ui.timer(_PAUSE_SECONDS, self._follow)

    async def _ask(self) -> None:
        self._where, self._order_by = self._words.value or "", self._order.value or ""
        self._changes = 0
        await self._load()

    async def _load(self) -> None:
        server = self._console.observatory.view_server
        try:
            self._answer = await in_background(
                server.query, self._name, self._where, self._order_by, _LIMIT
            )
        except HeadraceError as error:
            self._answer = None
            self._said.text = str(error)
            return
        rows = self._answer.rows
        more = f"the first {_LIMIT} rows" if len(rows) == _LIMIT else f"{count(len(rows))} rows"
        self._said.text = f"{more}, live; {count(self._changes)} changes while you look."
        self._draw()

    async def _follow(self) -> None:
        answer = self._answer
        if answer is None or self._busy:
            return
        self._busy = True
        server = self._console.observatory.view_server
        try:
            events, token = await in_background(
                server.changes, self._name, answer.token, self._where
            )
        except HeadraceError as error:
            self._said.text = str(error)
            await self._load()
            return
        finally:
            self._busy = False
        if answer is not self._answer:
            return
        self._answer = Answer(answer.rows, answer.position, token)
        if events:
            self._changes += len(events)
            await self._load()

    def _rows(self) -> list[Row]:
        found = self._answer.rows if self._answer else ()
        return [
            {"id": each["key"], "number": place, **_cells(each["row"])}
            for place, each in enumerate(found)
        ]

    def _draw(self) -> None:
        rows = self._answer.rows if self._answer else ()
        columns = list(dict.fromkeys(name for each in rows for name in each["row"]))
        if self._table is None or columns != self._columns:
            self._columns = columns
            self._place.clear()
            with self._place:
                self._table = PagedTable(
                    [column("id", "Key"), *(column(f"c {each}", each) for each in columns)],
                    self._rows,
                    sort="number",
                    key="id",
                )
        self._table.refresh()


def _cells(row: dict[str, Any]) -> dict[str, str]:
    """The columns of a row; their names may be any, so they are set apart from ours."""
    return {f"c {name}": short(shown(value), 80) for name, value in row.items()}
