"""What pages are made of: tables that fetch a page at a time, facts, states, questions."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from nicegui import run, ui

from headrace.console.frame import Console
from headrace.errors import HeadraceError

T = TypeVar("T")
Row = dict[str, Any]

_PAGE_ROWS: Final = 50

_LINK: Final = (
    '<q-td :props="props"><a v-if="props.row.href" :href="props.row.href" class="hr-link">'
    "{{ props.value }}</a><span v-else>{{ props.value }}</span></q-td>"
)
_TAG: Final = (
    '<q-td :props="props"><span :class="\'hr-tag hr-\' + props.row.health">{{ props.value }}</span>'
    "</q-td>"
)
_CLIP: Final = '<q-td :props="props"><span class="hr-mono hr-clip">{{ props.value }}</span></q-td>'
_WIDE: Final = (
    '<q-td :props="props" class="hr-wide"><span class="hr-mono hr-clip">{{ props.value }}</span>'
    "</q-td>"
)


def column(name: str, label: str = "", *, right: bool = False, kind: str = "") -> dict[str, Any]:
    """A column of a table; its kind is "link", "tag", "clip", "wide" or nothing."""
    return {
        "name": name,
        "label": label or name.capitalize(),
        "field": name,
        "align": "right" if right else "left",
        "sortable": True,
        "kind": kind,
    }


class PagedTable:
    """A table that sends one page of its rows, however many there are.

    A row is what is shown, by column; what it is sorted by, where that is not what is shown, is
    under "sort" by column. `fetch` is asked for all rows, which costs no more than making them.
    """

    def __init__(
        self,
        columns: Sequence[dict[str, Any]],
        fetch: Callable[[], Sequence[Row]],
        *,
        sort: str,
        descending: bool = False,
        key: str = "name",
        on_row: Callable[[Row], Any] | None = None,
        rows: int = _PAGE_ROWS,
    ) -> None:
        self._fetch = fetch
        self._words = ""
        self._shown: list[Row] = []
        pagination = {
            "page": 1,
            "rowsPerPage": rows,
            "sortBy": sort,
            "descending": descending,
            "rowsNumber": 1,
        }
        self._table = ui.table(
            columns=[{k: v for k, v in each.items() if k != "kind"} for each in columns],
            rows=[],
            row_key=key,
            pagination=pagination,
        ).classes("hr-table")
        self._table.props('flat no-data-label="Nothing here"')
        self._table.props["rows-per-page-options"] = [25, 50, 100]
        self._table.on("request", self._request)
        slots = {"link": _LINK, "tag": _TAG, "clip": _CLIP, "wide": _WIDE}
        for each in columns:
            if each["kind"] in slots:
                self._table.add_slot(f"body-cell-{each['name']}", slots[each["kind"]])
        if on_row is not None:
            self._table.on("rowClick", lambda event: on_row(event.args[1]), [[], ["id", key], None])
            self._table.classes("cursor-pointer")

    def search(self, words: str) -> None:
        """Show only rows that have these words somewhere in their key."""
        self._words = words.strip().casefold()
        self._table.pagination = {**self._table.pagination, "page": 1}
        self.refresh()

    def refresh(self) -> None:
        """Fetch the rows anew, and send the page that is looked at if it has changed."""
        pagination = self._table.pagination
        rows = [row for row in self._fetch() if self._words in str(row["id"]).casefold()]
        by = pagination.get("sortBy")
        if by:
            rows.sort(
                key=lambda row: _sortable(row.get("sort", {}).get(by, row.get(by))),
                reverse=bool(pagination.get("descending")),
            )
        per_page = pagination.get("rowsPerPage") or len(rows) or 1
        page = min(pagination.get("page", 1), max(-(-len(rows) // per_page), 1))
        part = rows[(page - 1) * per_page : page * per_page]
        shown = [{name: value for name, value in row.items() if name != "sort"} for row in part]
        changed = {**pagination, "page": page, "rowsNumber": len(rows)}
        if shown != self._shown or changed != pagination:
            self._shown = shown
            self._table.props["pagination"] = changed
            self._table.rows = shown
            self._table.update()

    def _request(self, event: Any) -> None:
        self._table.props["pagination"] = event.args["pagination"]
        self._shown = []
        self.refresh()


def facts(values: Mapping[str, str]) -> Callable[[Mapping[str, str]], None]:
    """Names and values in a row; gives what changes the values."""
    labels: dict[str, ui.label] = {}
    with ui.element("div").classes("hr-facts"):
        for name, value in values.items():
            with ui.element("div").classes("hr-fact"):
                ui.label(name).classes("k")
                labels[name] = ui.label(value).classes("v")

    def change(new: Mapping[str, str]) -> None:
        for name, value in new.items():
            if labels[name].text != value:
                labels[name].text = value

    return change


def tag(text: str, health: str) -> ui.label:
    """A state in a word, with its colour."""
    return ui.label(text).classes(f"hr-tag hr-{health}")


def set_tag(label: ui.label, text: str, health: str) -> None:
    """Another state in the same place."""
    label.text = text
    label.classes(replace=f"hr-tag hr-{health}")


def empty(icon: str, title: str, advice: str, command: str = "") -> ui.column:
    """That there is nothing, and what to do about it."""
    with ui.column().classes("hr-card hr-empty") as box:
        ui.icon(icon)
        ui.label(title).classes("hr-empty-title")
        ui.label(advice)
        if command:
            ui.label(command).classes("hr-code")
    return box


def heading(title: str, about: str = "") -> None:
    """The title of a page."""
    with ui.column().classes("gap-0"):
        ui.label(title).classes("hr-title").props("role=heading aria-level=1")
        if about:
            ui.label(about).classes("hr-sub")


def chart(
    series: Sequence[tuple[int, float]], *, name: str, height: int = 120
) -> Callable[[Sequence[tuple[int, float]]], None]:
    """A line over time; gives what changes it."""
    options: dict[str, Any] = {
        "animation": False,
        "grid": {"left": 46, "right": 12, "top": 10, "bottom": 22},
        "xAxis": {
            "type": "time",
            "axisLine": {"lineStyle": {"color": "#8b98a355"}},
            "axisLabel": {"color": "#8b98a3", "fontSize": 10, "hideOverlap": True},
            "splitLine": {"show": False},
        },
        "yAxis": {
            "type": "value",
            "min": 0,
            "splitNumber": 3,
            "axisLabel": {"color": "#8b98a3", "fontSize": 10},
            "splitLine": {"lineStyle": {"color": "#8b98a333"}},
        },
        "tooltip": {"trigger": "axis"},
        "series": [
            {
                "name": name,
                "type": "line",
                "showSymbol": False,
                "lineStyle": {"width": 1.6, "color": "#0b9ab0"},
                "itemStyle": {"color": "#0b9ab0"},
                "areaStyle": {"color": "#0b9ab0", "opacity": 0.08},
                "data": [[at, round(value, 2)] for at, value in series],
            }
        ],
    }
    plot = ui.echart(options).style(f"height: {height}px; width: 100%")
    plot.props(f'role=img aria-label="{name}"')

    def change(new: Sequence[tuple[int, float]]) -> None:
        data = [[at, round(value, 2)] for at, value in new]
        if plot.options["series"][0]["data"] != data:
            plot.options["series"][0]["data"] = data
            plot.update()

    return change


async def confirmed(title: str, text: str, verb: str, *, danger: bool = False) -> bool:
    """Whether somebody really wants it."""
    with ui.dialog() as dialog, ui.card().classes("hr-card"):
        ui.label(title).classes("hr-heading")
        ui.label(text).classes("hr-sub").style("white-space: pre-line")
        with ui.row().classes("w-full justify-end"):
            ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat")
            ui.button(verb, on_click=lambda: dialog.submit(True)).props(
                f"unelevated color={'negative' if danger else 'primary'}"
            )
    try:
        return bool(await dialog)
    finally:
        dialog.delete()


async def in_background(function: Callable[..., T], *arguments: Any) -> T:
    """What blocks, done in a thread."""
    result = await run.io_bound(function, *arguments)
    return cast("T", result)


async def attempt(
    console: Console,
    action: str,
    what: str,
    function: Callable[..., Any],
    *arguments: Any,
    done: str,
    **details: object,
) -> bool:
    """Note that something is changed, change it in a thread, and say how it went."""
    by = ui.context.client.ip or "unknown"
    try:
        await in_background(lambda: console.audit.note(action, what, by, **details))
        await in_background(function, *arguments)
    except (HeadraceError, OSError) as error:
        ui.notify(str(error), type="negative", multi_line=True, close_button="Close", timeout=0)
        return False
    ui.notify(done, type="positive")
    return True


def asking(
    title: str, text: str, verb: str, deed: Callable[[], Awaitable[Any]], *, danger: bool = False
) -> Callable[[], Awaitable[None]]:
    """A handler that asks first."""

    async def handle() -> None:
        if await confirmed(title, text, verb, danger=danger):
            await deed()

    return handle


def _sortable(value: Any) -> tuple[int, Any]:
    """Nothing before numbers before text, so that a column may have all of them."""
    if value is None:
        return (0, 0)
    return (1, value) if isinstance(value, (int, float)) else (2, str(value).casefold())
