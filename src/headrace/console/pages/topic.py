"""One topic: its records, partitions, configuration and readers."""

from nicegui import ui

from headrace.console.frame import Console, frame, live
from headrace.console.pages.browser import Browser
from headrace.console.widgets import (
    PagedTable,
    Row,
    attempt,
    column,
    confirmed,
    empty,
    facts,
    heading,
    in_background,
)
from headrace.console.wording import count, duration, link, rate, size
from headrace.errors import HeadraceError
from headrace.kafka import ConfigValue, TopicDetail, delete_topic, describe_topic, topic_config


def register(console: Console) -> None:
    """Make the page known."""

    @ui.page("/topics/{name}")
    async def topic(name: str, position: str = "", partition: int | None = None) -> None:
        with frame(console, name, at="/topics"):
            _show(console, name, position, partition)


def _show(console: Console, name: str, position: str, partition: int | None) -> None:
    observed = console.observatory.topics
    with ui.row().classes("w-full items-center justify-between"):
        heading(name)
        with ui.button(icon="more_vert").props('flat round dense aria-label="More"'), ui.menu():
            ui.menu_item("Delete this topic", on_click=lambda: _delete(console, name))

    def known() -> dict[str, str]:
        row = observed.value.rows.get(name)
        return {
            "Records": count(row.records if row else None),
            "Size": size(row.size if row else None),
            "Rate": rate(row.rate if row else 0.0),
            "Partitions": count(row.partitions if row else None),
        }

    change = facts(known())
    live(lambda: change(known()))
    with ui.tabs().props("dense align=left no-caps inline-label").classes("w-full") as tabs:
        messages = ui.tab("Messages")
        partitions = ui.tab("Partitions")
        configuration = ui.tab("Configuration")
        readers = ui.tab("Readers")
    with ui.tab_panels(tabs, value=messages).classes("w-full").props("keep-alive"):
        with ui.tab_panel(messages).classes("p-0"):
            Browser(console, name, position, partition)
        with ui.tab_panel(partitions).classes("p-0"):
            _partitions(console, name)
        with ui.tab_panel(configuration).classes("p-0"):
            _configuration(console, name)
        with ui.tab_panel(readers).classes("p-0"):
            _readers(console, name)


def _partitions(console: Console, name: str) -> None:
    found: list[TopicDetail] = []

    def rows() -> list[Row]:
        return [
            {
                "id": each.number,
                "number": each.number,
                "leader": "none" if each.leader is None else each.leader,
                "replicas": ", ".join(map(str, each.replicas)),
                "in_sync": ", ".join(map(str, each.in_sync)),
                "earliest": count(each.earliest),
                "latest": count(each.latest),
                "sort": {"earliest": each.earliest, "latest": each.latest},
            }
            for detail in found
            for each in detail.partitions
        ]

    table = PagedTable(
        [
            column("number", "Partition", right=True),
            column("leader", right=True),
            column("replicas"),
            column("in_sync", "In sync"),
            column("earliest", right=True),
            column("latest", right=True),
        ],
        rows,
        sort="number",
    )

    async def load() -> None:
        try:
            found[:] = [await in_background(describe_topic, console.observatory.cluster, name)]
        except HeadraceError:
            return
        table.refresh()

    ui.timer(0.1, load, once=True)
    ui.timer(5, load)


def _configuration(console: Console, name: str) -> None:
    found: list[ConfigValue] = []

    def rows() -> list[Row]:
        return [
            {
                "id": each.name,
                "name": each.name,
                "value": "hidden" if each.value is None else each.value,
                "origin": each.origin.value,
                "health": "ok" if each.origin.value == "topic" else "idle",
            }
            for each in found
        ]

    table = PagedTable(
        [column("name", "Setting"), column("value", kind="clip"), column("origin", kind="tag")],
        rows,
        sort="origin",
        descending=True,
    )

    async def load() -> None:
        try:
            found[:] = await in_background(topic_config, console.observatory.cluster, name)
        except HeadraceError:
            return
        table.refresh()

    ui.timer(0.1, load, once=True)


def _readers(console: Console, name: str) -> None:
    observed = console.observatory.groups

    def rows() -> list[Row]:
        found = []
        for row in observed.value.rows.values():
            mine = [each for each in row.lag.partitions if each.partition.topic == name]
            if mine:
                times = [each.time_ms for each in mine if each.time_ms is not None]
                records = sum(each.records or 0 for each in mine)
                found.append(
                    {
                        "id": row.lag.name,
                        "name": row.lag.name,
                        "href": link("/group", name=row.lag.name),
                        "state": row.lag.state,
                        "health": "ok" if row.lag.state == "stable" else "idle",
                        "lag": count(records),
                        "time": duration(max(times, default=None)),
                        "sort": {"lag": records, "time": max(times, default=0)},
                    }
                )
        return found

    nothing = empty(
        "groups",
        "No consumer group reads this topic",
        "A group appears here when it has committed an offset.",
    )
    table = PagedTable(
        [
            column("name", "Group", kind="link"),
            column("state", kind="tag"),
            column("lag", right=True),
            column("time", "Behind", right=True),
        ],
        rows,
        sort="lag",
        descending=True,
    )

    def refresh() -> None:
        nothing.visible = not rows()
        table.refresh()

    live(refresh)


async def _delete(console: Console, name: str) -> None:
    row = console.observatory.topics.value.rows.get(name)
    held = f"It holds {count(row.records)} records. " if row else ""
    text = f"{held}Deleting it cannot be undone, and flows that read it will fail."
    if not await confirmed(f"Delete {name}?", text, "Delete it", danger=True):
        return
    cluster = console.observatory.cluster
    if await attempt(console, "delete topic", name, delete_topic, cluster, name, done="Deleted."):
        await in_background(console.observatory.topics.look_again)
        ui.navigate.to("/topics")
