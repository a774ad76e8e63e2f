"""Captures: how far behind their databases they are, and what those keep for them."""

from nicegui import ui

from headrace.capture import control
from headrace.console.frame import Console, frame, live, now_ms
from headrace.console.observing.captures import CaptureRow
from headrace.console.widgets import (
    PagedTable,
    Row,
    asking,
    attempt,
    chart,
    column,
    empty,
    facts,
    heading,
    in_background,
    set_tag,
    tag,
)
from headrace.console.wording import ago, count, duration, rate, size


def register(console: Console) -> None:
    """Make the page known."""

    @ui.page("/captures")
    def captures() -> None:
        with frame(console, "Captures", at="/captures"):
            _show(console)


def capture_health(capture: CaptureRow) -> str:
    """The colour of a capture."""
    if not capture.healthy:
        return "bad"
    return "ok" if capture.condition in ("following", "reading tables") else "idle"


def _show(console: Console) -> None:
    observed = console.observatory.captures
    heading("Captures", "Databases that become streams.")
    nothing = empty(
        "storage",
        "No database is captured yet",
        "Name one, and its tables become topics:",
        "headrace capture postgresql://user@host/shop --tables orders --to shop",
    )
    cards = ui.column().classes("w-full")
    shown: list[str] = []

    def refresh() -> None:
        names = list(observed.value.rows)
        nothing.visible = not names and observed.seen.at_ms is not None
        if names != shown:
            shown[:] = names
            cards.clear()
            with cards:
                for name in names:
                    _card(console, name)

    live(refresh)


def _card(console: Console, name: str) -> None:
    observed = console.observatory.captures

    def row() -> CaptureRow:
        return observed.value.rows[name]

    def known(capture: CaptureRow) -> dict[str, str]:
        return {
            "Changes": rate(capture.rate),
            "Behind": duration(capture.behind_ms),
            "Not confirmed": size(capture.behind_bytes),
            "Log retained": size(capture.retained),
            "Schema changes": count(capture.schema_changes),
            "Restarts": count(capture.restarts),
            "Heard": ago(capture.heard_ms, now_ms()),
        }

    def rows() -> list[Row]:
        return [
            {
                "id": each.name,
                "name": each.topic,
                "href": f"/topics/{each.topic}",
                "table": each.name,
                "rows": count(each.rows),
                "read": "read" if each.done else f"{each.rows * 100 // max(each.expected, 1)} %",
                "health": "ok" if each.done else "warn",
                "shape": each.shape,
            }
            for each in row().tables
        ]

    with ui.column().classes("hr-card"):
        with ui.row().classes("w-full items-center justify-between"):
            with ui.row().classes("items-center gap-3"):
                ui.label(name).classes("hr-title")
                state = tag("", "idle")
                ui.label(row().database).classes("hr-sub hr-mono")
            _actions(console, name)
        failure = ui.label().classes("hr-error").props("role=alert")
        progress = ui.linear_progress(0, show_value=False).props("rounded aria-label=Snapshot")
        change = facts(known(row()))
        plot = chart(row().history, name="Changes per second", height=100)
        table = PagedTable(
            [
                column("table"),
                column("name", "Topic", kind="link"),
                column("rows", "Rows read", right=True),
                column("read", "Snapshot", kind="tag"),
                column("shape", "Shape", right=True),
            ],
            rows,
            sort="table",
            key="id",
            rows=25,
        )

    def refresh() -> None:
        capture = observed.value.rows.get(name)
        if capture is None:
            return
        paused = " (to pause)" if capture.paused and capture.condition != "paused" else ""
        set_tag(state, capture.condition + paused, capture_health(capture))
        failure.visible = bool(capture.failure)
        failure.text = capture.failure
        progress.visible = capture.progress is not None
        progress.value = capture.progress or 0.0
        change(known(capture))
        plot(capture.history)
        table.refresh()

    live(refresh)


def _actions(console: Console, name: str) -> None:
    observatory = console.observatory

    async def pause(*, paused: bool) -> None:
        word = "pause" if paused else "resume"
        done = f"{name} pauses." if paused else f"{name} goes on."
        await attempt(
            console,
            f"{word} capture",
            name,
            lambda: control.pause(observatory.cluster, name, paused=paused),
            done=done,
        )
        await in_background(observatory.captures.look_again)

    with ui.row().classes("gap-2"):
        ui.button(
            "Pause",
            icon="pause",
            on_click=asking(
                f"Pause {name}?",
                "Its database keeps its log until the capture goes on, which takes room there.",
                "Pause it",
                lambda: pause(paused=True),
            ),
        ).props("outline color=primary")
        ui.button("Resume", icon="play_arrow", on_click=lambda: pause(paused=False)).props(
            "outline color=primary"
        )
        ui.button(
            "Read a table again", icon="refresh", on_click=lambda: _snapshot(console, name)
        ).props("outline color=primary")


async def _snapshot(console: Console, name: str) -> None:
    tables = [each.name for each in console.observatory.captures.value.rows[name].tables]
    if not tables:
        ui.notify("It has no tables yet.", type="warning")
        return
    with ui.dialog() as dialog, ui.card().classes("hr-card"):
        ui.label(f"Read a table of {name} again").classes("hr-heading")
        ui.label("All its rows are told once more, while changes flow.").classes("hr-sub")
        chosen = ui.select(tables, value=tables[0], label="Table").props("outlined dense")
        chosen.classes("w-full")
        with ui.row().classes("w-full justify-end"):
            ui.button("Cancel", on_click=lambda: dialog.submit("")).props("flat")
            ui.button("Read it again", on_click=lambda: dialog.submit(chosen.value)).props(
                "unelevated color=primary"
            )
    table = await dialog
    dialog.delete()
    if table:
        await attempt(
            console,
            "snapshot",
            name,
            control.request_snapshot,
            console.observatory.cluster,
            name,
            table,
            done=f"{table} is read again.",
            table=table,
        )
