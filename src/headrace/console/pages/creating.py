"""Making a topic."""

from collections.abc import Awaitable, Callable

from nicegui import ui

from headrace.console.frame import Console
from headrace.console.widgets import attempt, in_background
from headrace.kafka import create_topic


def create_topic_dialog(console: Console) -> Callable[[], Awaitable[None]]:
    """A handler that asks for a name and makes the topic."""

    async def ask() -> None:
        with ui.dialog() as dialog, ui.card().classes("hr-card"):
            ui.label("New topic").classes("hr-heading")
            name = ui.input("Name").props("outlined dense autofocus").classes("w-full")
            partitions = ui.number("Partitions", value=1, min=1, precision=0).props(
                "outlined dense"
            )
            compacted = ui.checkbox("Compacted: keep the last record of each key")
            with ui.row().classes("w-full justify-end"):
                ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat")
                ui.button("Create", on_click=lambda: dialog.submit(True)).props(
                    "unelevated color=primary"
                )
        wanted = await dialog
        dialog.delete()
        if not wanted or not name.value:
            return
        topic = name.value.strip()
        config = {"cleanup.policy": "compact"} if compacted.value else {}

        def create() -> None:
            create_topic(
                console.observatory.cluster,
                topic,
                partitions=int(partitions.value or 1),
                config=config,
            )

        if await attempt(console, "create topic", topic, create, done=f"{topic} is there."):
            await in_background(console.observatory.topics.look_again)
            ui.navigate.to(f"/topics/{topic}")

    return ask
