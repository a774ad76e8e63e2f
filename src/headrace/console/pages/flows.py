"""All flows: whether they run, how fast, how far behind, and what they left out."""

from nicegui import ui

from headrace.console.frame import Console, frame, live
from headrace.console.observing.flows import FlowRow
from headrace.console.widgets import PagedTable, Row, column, empty, heading
from headrace.console.wording import count, link, rate


def register(console: Console) -> None:
    """Make the page known."""

    @ui.page("/flows")
    def flows() -> None:
        with frame(console, "Flows", at="/flows"):
            _show(console)


def health_of(flow: FlowRow) -> str:
    """The colour of a flow."""
    if not flow.healthy:
        return "warn" if flow.state == "waiting" else "bad"
    return "ok" if flow.runs else "idle"


def _show(console: Console) -> None:
    observed = console.observatory.flows

    def rows() -> list[Row]:
        return [
            {
                "id": each.title,
                "name": each.title,
                "href": link("/flow", title=each.title),
                "state": "not running" if each.state == "known" else each.state,
                "health": health_of(each),
                "current": "current" if each.current else "",
                "rate": rate(each.rate),
                "lag": count(each.lag),
                "dropped": count(each.dropped),
                "restarts": count(each.restarts),
                "sort": {"rate": each.rate, "lag": each.lag or 0, "dropped": each.dropped},
            }
            for each in observed.value.rows.values()
        ]

    heading("Flows", "What turns streams into others, and how it is doing.")
    nothing = empty(
        "waves",
        "No flow has run with this cluster yet",
        "Describe one in a file and run it:",
        "headrace run flow.py",
    )
    table = PagedTable(
        [
            column("name", "Flow", kind="link"),
            column("state", kind="tag"),
            column("current", "Version"),
            column("rate", "Reads", right=True),
            column("lag", right=True),
            column("dropped", "Left out", right=True),
            column("restarts", right=True),
        ],
        rows,
        sort="name",
    )

    def refresh() -> None:
        nothing.visible = not rows() and observed.seen.at_ms is not None
        table.refresh()

    live(refresh)
