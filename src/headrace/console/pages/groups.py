"""All consumer groups: how far behind they are, and whether they catch up."""

from nicegui import ui

from headrace.console.frame import Console, frame, live
from headrace.console.observing.groups import GroupRow
from headrace.console.widgets import PagedTable, Row, column, empty, heading
from headrace.console.wording import count, duration, link, rate


def register(console: Console) -> None:
    """Make the page known."""

    @ui.page("/groups")
    def groups() -> None:
        with frame(console, "Groups", at="/groups"):
            _show(console)


def _show(console: Console) -> None:
    observed = console.observatory.groups

    def rows() -> list[Row]:
        return [_row(each) for each in observed.value.rows.values()]

    with ui.row().classes("w-full items-end justify-between"):
        heading("Groups", "Who reads, and how far behind.")
        search = ui.input(placeholder="Search").props("outlined dense clearable debounce=200")
        search.props('aria-label="Search groups"')
    nothing = empty(
        "groups",
        "No consumer group has committed an offset yet",
        "Flows, and programs that read with a group.id, appear here.",
    )
    table = PagedTable(
        [
            column("name", "Group", kind="link"),
            column("state", kind="tag"),
            column("lag", right=True),
            column("time", "Behind", right=True),
            column("rate", "Reads", right=True),
            column("catches", "Catches up"),
            column("lost", right=True),
        ],
        rows,
        sort="lag",
        descending=True,
    )
    search.on_value_change(lambda event: table.search(event.value or ""))

    def refresh() -> None:
        nothing.visible = not rows() and observed.seen.at_ms is not None
        table.refresh()

    live(refresh)


def _row(row: GroupRow) -> Row:
    lag = row.lag
    return {
        "id": lag.name,
        "name": lag.name,
        "href": link("/group", name=lag.name),
        "state": lag.state,
        "health": "ok" if lag.state == "stable" else "warn" if "rebalance" in lag.state else "idle",
        "lag": count(lag.records),
        "time": duration(lag.time_ms),
        "rate": "-" if row.pace is None else rate(row.pace.consumed),
        "catches": catches_up(row),
        "lost": count(lag.lost),
        "sort": {
            "lag": lag.records,
            "time": lag.time_ms or 0,
            "rate": 0 if row.pace is None else row.pace.consumed,
            "lost": lag.lost,
        },
    }


def catches_up(row: GroupRow) -> str:
    """Whether and when a group has read everything."""
    if row.pace is None:
        return "-"
    seconds = row.catches_up
    if seconds is None:
        return "falls behind" if row.pace.produced > row.pace.consumed else "stands still"
    return f"in {duration(round(seconds) * 1000)}" if seconds else "is there"
