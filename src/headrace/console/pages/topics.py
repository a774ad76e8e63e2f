"""All topics: how many records they have, how large they are, and how fast they grow."""

from nicegui import ui

from headrace.console.frame import Console, frame, live
from headrace.console.pages.creating import create_topic_dialog
from headrace.console.widgets import PagedTable, Row, column, empty, heading
from headrace.console.wording import count, rate, size


def register(console: Console) -> None:
    """Make the page known."""

    @ui.page("/topics")
    def topics() -> None:
        with frame(console, "Topics", at="/topics"):
            _show(console)


def _show(console: Console) -> None:
    observed = console.observatory.topics
    internal = {"shown": False}

    def rows() -> list[Row]:
        return [
            {
                "id": each.name,
                "name": each.name,
                "href": f"/topics/{each.name}",
                "partitions": each.partitions,
                "records": count(each.records),
                "size": size(each.size),
                "rate": rate(each.rate),
                "state": f"{each.leaderless} without leader" if each.leaderless else "ok",
                "health": "bad" if each.leaderless else "ok" if each.rate else "idle",
                "sort": {"records": each.records, "size": each.size, "rate": each.rate},
            }
            for each in observed.value.rows.values()
            if internal["shown"] or not each.internal
        ]

    with ui.row().classes("w-full items-end justify-between"):
        heading("Topics", "What is in the log, and how fast it grows.")
        with ui.row().classes("items-center"):
            search = ui.input(placeholder="Search").props("outlined dense clearable debounce=200")
            search.props('aria-label="Search topics"')
            ui.button("New topic", icon="add", on_click=create_topic_dialog(console)).props(
                "unelevated color=primary"
            )
    nothing = empty(
        "reorder",
        "There are no topics yet",
        "Make one here, or let a capture or a program write to one:",
        "headrace produce orders hello",
    )
    with ui.column().classes("w-full gap-2") as full:
        table = PagedTable(
            [
                column("name", "Topic", kind="link"),
                column("partitions", right=True),
                column("records", right=True),
                column("size", right=True),
                column("rate", right=True),
                column("state", kind="tag"),
            ],
            rows,
            sort="name",
        )

        def show_internal(shown: bool) -> None:
            internal["shown"] = shown
            table.refresh()

        ui.switch(
            "Show the cluster's own topics", on_change=lambda event: show_internal(event.value)
        ).props("dense").classes("hr-sub")
    search.on_value_change(lambda event: table.search(event.value or ""))

    def refresh() -> None:
        known = bool(rows()) or observed.seen.at_ms is None
        full.visible, nothing.visible = known, not known
        table.refresh()

    live(refresh)
