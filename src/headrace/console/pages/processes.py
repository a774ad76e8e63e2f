"""The processes of `headrace up`: which run, which fail, what they say; stop and start."""

from collections import deque
from pathlib import Path
from typing import Final

from nicegui import ui

from headrace.console.frame import Console, frame, live, now_ms
from headrace.console.supervising.record import PartSeen
from headrace.console.widgets import (
    PagedTable,
    Row,
    asking,
    attempt,
    column,
    empty,
    heading,
    in_background,
)
from headrace.console.wording import ago, count, short

_LINES: Final = 200
_LOG_BYTES: Final = 65_536


def register(console: Console) -> None:
    """Make the page known."""

    @ui.page("/processes")
    def processes() -> None:
        with frame(console, "Processes", at="/processes"):
            _show(console)


def part_health(part: PartSeen) -> str:
    """The colour of a process."""
    if part.doing == "pausing":
        return "bad"
    return {"running": "ok", "starting": "warn", "stopping": "warn"}.get(part.doing, "idle")


def _show(console: Console) -> None:
    observed = console.observatory.up

    def rows() -> list[Row]:
        return [
            {
                "id": each.name,
                "name": each.name,
                "kind": each.kind,
                "doing": "failed, starts again" if each.doing == "pausing" else each.doing,
                "health": part_health(each),
                "pid": each.pid or "-",
                "since": ago(each.since_ms, now_ms()),
                "restarts": count(each.restarts),
                "said": short(each.said, 120),
                "sort": {"since": -each.since_ms, "restarts": each.restarts},
            }
            for each in observed.value.parts
        ]

    heading("Processes", "What `headrace up` keeps running beside this console.")
    nothing = empty(
        "memory",
        "No `headrace up` runs beside this console",
        "It starts broker, captures, flows, views and console from one headrace.toml:",
        "headrace up",
    )
    table = PagedTable(
        [
            column("name", "Process"),
            column("kind"),
            column("doing", "State", kind="tag"),
            column("pid", "Process id", right=True),
            column("since"),
            column("restarts", right=True),
            column("said", "Last words", kind="clip"),
        ],
        rows,
        sort="name",
        on_row=lambda row: _open(console, row["id"]),
    )
    ui.label("Click a process for its log, and to stop or start it.").classes("hr-faint")

    def refresh() -> None:
        nothing.visible = not observed.value.parts
        table.refresh()

    live(refresh)


def _open(console: Console, name: str) -> None:
    part = console.observatory.up.value.part(name)
    if part is None:
        return

    async def ask(do: str, done: str) -> None:
        observatory = console.observatory
        await attempt(
            console, f"{do} process", name, observatory.processes.ask, do, name, done=done
        )
        await in_background(observatory.up.look_again)
        dialog.close()

    with ui.dialog() as dialog, ui.card().classes("hr-card").style("width: 860px"):
        with ui.row().classes("w-full items-center justify-between no-wrap"):
            ui.label(name).classes("hr-heading")
            ui.button(icon="close", on_click=dialog.close).props(
                'flat round dense aria-label="Close"'
            )
        ui.label(part.log).classes("hr-sub hr-mono")
        with ui.element("pre").classes("hr-pre hr-log").props("tabindex=0"):
            log = ui.label("").style("white-space: pre-wrap")
        with ui.row().classes("w-full justify-end"):
            ui.button("Start", icon="play_arrow", on_click=lambda: ask("start", f"{name} starts."))
            ui.button(
                "Restart",
                icon="restart_alt",
                on_click=asking(
                    f"Restart {name}?",
                    _consequence(part),
                    "Restart it",
                    lambda: ask("restart", f"{name} was started again."),
                ),
            )
            ui.button(
                "Stop",
                icon="stop",
                on_click=asking(
                    f"Stop {name}?",
                    _consequence(part),
                    "Stop it",
                    lambda: ask("stop", f"{name} stops."),
                    danger=True,
                ),
            )

    async def read() -> None:
        log.text = await in_background(_tail, Path(part.log))

    with dialog:
        ui.timer(0.1, read, once=True)
        ui.timer(2, read)
    dialog.on("hide", dialog.delete)
    dialog.open()


def _consequence(part: PartSeen) -> str:
    return {
        "broker": "Everything that reads or writes waits until the broker is back.",
        "capture": "Databases keep their logs until the captures go on.",
        "flow": "It finishes its batches first; nothing is lost.",
        "console": "This page ends with it.",
    }.get(part.kind, "What needs it has to wait.")


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _LOG_BYTES, 0))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"{error.strerror}."
    return "\n".join(deque(lines, maxlen=_LINES)) or "It has said nothing yet."
