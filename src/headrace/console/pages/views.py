"""All served views: how many rows they have, and how far behind they are."""

from nicegui import ui

from headrace.console.frame import Console, frame, live
from headrace.console.widgets import PagedTable, Row, column, empty, heading
from headrace.console.wording import count, link, short


def register(console: Console) -> None:
    """Make the page known."""

    @ui.page("/views")
    def views() -> None:
        with frame(console, "Views", at="/views"):
            _show(console)


def _show(console: Console) -> None:
    observed = console.observatory.views

    def rows() -> list[Row]:
        return [
            {
                "id": each.name,
                "name": each.name,
                "href": link("/view", name=each.name),
                "topic": each.topic,
                "state": "failing" if each.error else "building" if each.building else "serving",
                "health": each.health,
                "rows": count(each.rows),
                "staleness": each.staleness,
                "subscribers": each.subscribers,
                "sort": {"rows": each.rows or 0, "staleness": each.behind_ms},
            }
            for each in observed.value.rows.values()
        ]

    heading("Views", "Tables that are kept up to date, and answered from.")
    failure = ui.label().classes("hr-error")
    nothing = empty(
        "table_view",
        "No view is served yet",
        "Declare one with flow.view(...), or serve any topic:",
        "headrace serve --view orders=shop.public.orders --format debezium",
    )
    table = PagedTable(
        [
            column("name", "View", kind="link"),
            column("topic", "Of"),
            column("state", kind="tag"),
            column("rows", right=True),
            column("staleness", "Behind", right=True),
            column("subscribers", right=True),
        ],
        rows,
        sort="name",
    )

    def refresh() -> None:
        # That nobody serves is no failure before anybody has.
        failure.visible = bool(observed.seen.failure) and bool(observed.value.rows)
        failure.text = observed.seen.failure
        nothing.visible = not observed.value.rows and observed.seen.number > 0
        table.refresh()

    live(refresh)
    _sinks(console)


def _sinks(console: Console) -> None:
    observed = console.observatory.sinks

    def rows() -> list[Row]:
        return [
            {
                "id": each.name,
                "topic": each.topic,
                "href": f"/topics/{each.topic}",
                "store": each.store,
                "condition": each.condition,
                "health": each.health,
                "rows": count(each.rows),
                "behind": count(each.behind),
                "rejected": count(each.rejected),
                "failure": short(each.failure, 80),
                "sort": {"rows": each.rows, "behind": each.behind or 0},
            }
            for each in observed.value.rows.values()
        ]

    with ui.column().classes("w-full") as sinks:
        ui.label("Sinks").classes("hr-heading")
        table = PagedTable(
            [
                column("topic", kind="link"),
                column("store"),
                column("condition", "State", kind="tag"),
                column("rows", right=True),
                column("behind", right=True),
                column("rejected", right=True),
                column("failure", "Why", kind="clip"),
            ],
            rows,
            sort="topic",
            key="id",
        )

    def refresh() -> None:
        sinks.visible = bool(observed.value.rows)
        table.refresh()

    live(refresh)
