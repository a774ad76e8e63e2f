"""One flow: its queries in detail, what holds time back, what went wrong; stop, start, rebuild."""

import html
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from nicegui import ui

from headrace.console.frame import Console, frame, live, now_ms
from headrace.console.observing.flows import FlowRow
from headrace.console.pages.flows import health_of
from headrace.console.supervising.record import PartSeen
from headrace.console.widgets import (
    asking,
    attempt,
    chart,
    empty,
    facts,
    heading,
    in_background,
    set_tag,
    tag,
)
from headrace.console.wording import ago, count, duration, moment, rate, size
from headrace.kafka.connection import connect
from headrace.streams.running.places import is_local, root_of
from headrace.streams.versions import Version, checked_version

_STEPS: Final = {
    "addBatch": ("computing and writing", "#0b9ab0"),
    "queryPlanning": ("planning", "#7c6fd0"),
    "latestOffset": ("asking for offsets", "#d19a2a"),
    "getBatch": ("fetching the batch", "#5a9e5a"),
    "walCommit": ("noting offsets", "#c86a8a"),
    "commitOffsets": ("noting that it is done", "#8794a0"),
}
"""Spark's steps of a batch in our words, and their colours."""


def register(console: Console) -> None:
    """Make the page known."""

    @ui.page("/flow")
    def flow(title: str = "") -> None:
        with frame(console, title, at="/flows"):
            _show(console, title)


def _show(console: Console, title: str) -> None:
    observed = console.observatory.flows

    def row() -> FlowRow | None:
        return observed.value.rows.get(title)

    with ui.row().classes("w-full items-center justify-between"):
        with ui.row().classes("items-center gap-3"):
            heading(title)
            state = tag("", "idle")
        _actions(console, title)
    body = ui.column().classes("w-full")
    drawn: list[str] = []

    def appear() -> None:
        """Show what there is, also of a version that begins to run while one looks."""
        now = "nothing" if row() is None else "flow"
        if now in drawn or "flow" in drawn:
            return
        drawn.append(now)
        body.clear()
        with body:
            if now == "flow":
                _details(console, row, state)
            else:
                empty(
                    "waves",
                    f"There is no flow {title}",
                    "If it starts, it appears here. See the list of flows.",
                    "/flows",
                )

    live(appear)


def _details(console: Console, row: Callable[[], FlowRow | None], state: ui.label) -> None:
    found = row()
    assert found is not None

    def known(flow: FlowRow) -> dict[str, str]:
        part = _part_of(console, flow)
        return {
            "Reads": rate(flow.rate),
            "Lag": count(flow.lag),
            "Left out": count(flow.dropped),
            "Query restarts": count(flow.restarts),
            "Process restarts": count(part.restarts) if part else "-",
            "State kept": size(sum(each["state_bytes"] for each in flow.outputs)),
            "Heard": ago(flow.heard_ms, now_ms()),
        }

    change = facts(known(found))
    with ui.column().classes("hr-card"):
        ui.label("Rows read per second").classes("hr-heading")
        plot = chart(found.history, name="Rows read per second")
    error = ui.label().classes("hr-error").props("role=alert")
    outputs = ui.column().classes("w-full")
    drawn: list[object] = []

    def refresh() -> None:
        flow = row()
        if flow is None:
            return
        set_tag(state, "not running" if flow.state == "known" else flow.state, health_of(flow))
        change(known(flow))
        plot(flow.history)
        error.visible = bool(flow.error) and not (flow.state == "running" and not flow.restarts)
        error.text = flow.error
        if drawn != [flow.outputs]:
            drawn[:] = [flow.outputs]
            outputs.clear()
            with outputs:
                for each in flow.outputs:
                    _output(each)

    live(refresh)


def _output(told: Mapping[str, Any]) -> None:
    with ui.column().classes("hr-card"):
        with ui.row().classes("items-center gap-3"):
            ui.label(told["output"]).classes("hr-heading")
            for topic in told["reads"]:
                ui.link(topic, f"/topics/{topic}").classes("hr-link hr-mono")
            ui.icon("arrow_forward").classes("hr-faint")
            if told["writes"]:
                ui.link(told["writes"], f"/topics/{told['writes']}").classes("hr-link hr-mono")
            else:
                ui.label(told["sink"] or "a sink").classes("hr-mono")
            for topic in told["dead_letters"]:
                ui.link(f"dead letters: {topic}", f"/topics/{topic}").classes("hr-link hr-mono")
        facts(
            {
                "Rows read": count(told["read"]),
                "Rows written": count(told["written"]),
                "Batch": count(told["batch"]),
                "Batch time": duration(told["batch_ms"]),
                "Lag": count(told["lag"]),
                "Rejected": count(told["rejected"]),
                "Late": count(told["late"]),
                "Lost": count(told["lost"]),
                "State rows": count(told["state_rows"]),
            }
        )
        _split(told["split_ms"])
        if told["time"] is not None:
            _time(told["time"])


def _split(split: Mapping[str, int]) -> None:
    """The steps of the last batch, side by side."""
    whole = sum(split.values())
    if not whole:
        return
    steps = sorted(split.items(), key=lambda each: -each[1])
    named = [(*_STEPS.get(step, (step, "#8794a0")), took) for step, took in steps if took]
    bars = "".join(
        f'<span style="width:{took * 100 / whole:.1f}%;background:{colour}"></span>'
        for _, colour, took in named
    )
    legend = "".join(
        f'<span><i style="background:{colour}"></i>{html.escape(word)} {took} ms</span>'
        for word, colour, took in named
    )
    ui.html(
        f'<div class="hr-bar" role="img" aria-label="Time of the last batch">{bars}</div>'
        f'<div class="hr-legend" style="margin-top:6px">{legend}</div>',
        sanitize=False,
    ).classes("w-full")


def _time(time: Mapping[str, Any]) -> None:
    watermark = time["watermark"]
    said = "no watermark yet" if watermark is None else f"watermark {moment(watermark // 1000)}"
    with ui.row().classes("items-center gap-3"):
        ui.icon("schedule").classes("hr-faint")
        ui.label(said)
        if time["holding"] is not None:
            tag(f"held back by {time['holding']}", "warn")
    rows = "".join(
        f"<tr><td>{html.escape(each['name'])}</td><td>{moment(each['bound'] // 1000)}</td>"
        f"<td>{'idle' if each['idle'] else ''}"
        f"{'holds back' if each['name'] == time['holding'] else ''}</td></tr>"
        for each in time["sources"]
    )
    ui.html(
        '<table class="hr-diff"><thead><tr><th>Source</th><th>Nothing before</th><th></th></tr>'
        f"</thead><tbody>{rows}</tbody></table>",
        sanitize=False,
    ).classes("w-full")


def _part_of(console: Console, flow: FlowRow) -> PartSeen | None:
    """The process of `headrace up` that runs a flow, or that would."""
    seen = console.observatory.up.value
    here = flow.process and flow.host == socket.gethostname()
    by_process = seen.of_process(flow.process) if here else None
    if by_process is not None:
        return by_process
    names = (flow.title, flow.flow)
    return next((seen.part(each) for each in names if seen.part(each)), None)


def _actions(console: Console, title: str) -> None:
    observatory = console.observatory

    async def ask(do: str, done: str) -> None:
        flow = observatory.flows.value.rows[title]
        part = _part_of(console, flow)
        if part is None:
            ui.notify(
                "This flow is not run by a `headrace up` beside this console; stop and start it "
                "where it runs.",
                type="warning",
            )
            return
        await attempt(
            console, f"{do} flow", title, observatory.processes.ask, do, part.name, done=done
        )
        await in_background(observatory.up.look_again)

    async def stop() -> None:
        await ask("stop", f"{title} finishes its batches and stops.")

    async def start() -> None:
        await ask("start", f"{title} starts.")

    with ui.row().classes("gap-2"):
        ui.button("Start", icon="play_arrow", on_click=start).props("outline color=primary")
        ui.button(
            "Stop",
            icon="stop",
            on_click=asking(
                f"Stop {title}?",
                "It finishes its batches and reads nothing more until it is started again.",
                "Stop it",
                stop,
            ),
        ).props("outline color=primary")
        ui.button("Rebuild", icon="restart_alt", on_click=lambda: _rebuild(console, title)).props(
            "outline color=primary"
        )
        promote = ui.button(
            "Promote", icon="upgrade", on_click=lambda: _promote(console, title)
        ).props("unelevated color=primary")

        def refresh() -> None:
            flow = observatory.flows.value.rows.get(title)
            promote.visible = flow is not None and not flow.current

        live(refresh)


async def _rebuild(console: Console, title: str) -> None:
    flow = console.observatory.flows.value.rows[title]
    part = _part_of(console, flow)
    if part is None or part.kind != "flow":
        ui.notify(
            "Run `headrace run FILE --rebuild as NAME`: this flow is not run by a `headrace up` "
            "beside this console.",
            type="warning",
        )
        return
    with ui.dialog() as dialog, ui.card().classes("hr-card"):
        ui.label(f"Rebuild {flow.flow}").classes("hr-heading")
        ui.label(
            "A new version runs from the beginning, beside the current one and into topics of its "
            "own, until it is promoted."
        ).classes("hr-sub")
        name = ui.input("Name of the version", value="v2").props("outlined dense autofocus")
        with ui.row().classes("w-full justify-end"):
            ui.button("Cancel", on_click=lambda: dialog.submit("")).props("flat")
            ui.button("Rebuild", on_click=lambda: dialog.submit(name.value)).props(
                "unelevated color=primary"
            )
    version = await dialog
    dialog.delete()
    if not version:
        return

    def rebuild() -> None:
        checked_version(version)
        plain = part.name.partition("@")[0]
        console.observatory.processes.ask("rebuild", plain, version)

    await attempt(
        console, "rebuild flow", flow.flow, rebuild, done=f"{version} is being built.", to=version
    )


async def _promote(console: Console, title: str) -> None:
    observatory = console.observatory
    flow = observatory.flows.value.rows[title]
    settings = observatory.settings
    if not is_local(settings.streams.checkpoints):
        ui.notify("Run `headrace flows promote` where Spark is.", type="warning")
        return

    def promote() -> None:
        # Here, because it brings all that understands state, which is more than the console.
        from headrace.streams.running import promoting

        root = root_of(settings.streams, _no_spark)
        version = Version(flow.flow, flow.version)
        promoting.promote(root, version, connect(settings.kafka), observatory.cluster)
        seen = observatory.up.value
        rebuilt = seen.of_process(flow.process)
        if rebuilt is not None and "@" in rebuilt.name:
            # From now on the plain part is this version; both cannot run at a time.
            observatory.processes.ask("remove", rebuilt.name)
            observatory.processes.ask("restart", rebuilt.name.partition("@")[0])

    async def deed() -> None:
        await attempt(
            console, "promote flow", title, promote, done=f"{flow.version} is the current version."
        )

    question = (
        f"{flow.version} becomes the current version of {flow.flow}: other flows read its topics "
        "from now on. It must have read everything that is there."
    )
    await asking(f"Promote {title}?", question, "Promote it", deed)()


def _no_spark() -> Any:
    raise AssertionError("a local directory needs no Spark")
