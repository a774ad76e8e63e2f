"""One consumer group: its course, its members, and moving it."""

from typing import Final

from nicegui import ui

from headrace.console.frame import Console, frame, live, now_ms
from headrace.console.pages.groups import catches_up
from headrace.console.widgets import (
    PagedTable,
    Row,
    attempt,
    chart,
    column,
    facts,
    heading,
    in_background,
)
from headrace.console.wording import count, duration, rate
from headrace.errors import HeadraceError
from headrace.kafka import (
    Cluster,
    GroupDetail,
    OffsetMove,
    Position,
    ShiftBy,
    apply_reset,
    describe_group,
    isolation_by,
    parse_position,
    plan_reset,
)

_WAYS: Final = {
    "earliest": "To the beginning",
    "latest": "To the end",
    "time": "To a time",
    "shift": "By so many offsets",
}


def register(console: Console) -> None:
    """Make the page known."""

    @ui.page("/group")
    def group(name: str = "") -> None:
        with frame(console, name, at="/groups"):
            _show(console, name)


def _show(console: Console, name: str) -> None:
    observed = console.observatory.groups
    with ui.row().classes("w-full items-center justify-between"):
        heading(name)
        ui.button(
            "Move offsets", icon="low_priority", on_click=lambda: _move_dialog(console, name)
        ).props("outline color=primary")

    def known() -> dict[str, str]:
        row = observed.value.rows.get(name)
        if row is None:
            return dict.fromkeys(("State", "Lag", "Behind", "Reads", "Catches up", "Lost"), "-")
        return {
            "State": row.lag.state,
            "Lag": count(row.lag.records),
            "Behind": duration(row.lag.time_ms),
            "Reads": "-" if row.pace is None else rate(row.pace.consumed),
            "Catches up": catches_up(row),
            "Lost": count(row.lag.lost),
        }

    change = facts(known())
    with ui.grid(columns="repeat(auto-fit, minmax(320px, 1fr))").classes("w-full"):
        with ui.column().classes("hr-card"):
            ui.label("Lag in records, last hour").classes("hr-heading")
            records = chart([], name="Lag in records")
        with ui.column().classes("hr-card"):
            ui.label("Lag in seconds, last hour").classes("hr-heading")
            seconds = chart([], name="Lag in seconds")

    async def course() -> None:
        try:
            points = await in_background(console.observatory.lag_points, name)
        except HeadraceError:
            return
        records([(at, lag) for at, lag, _ in points])
        seconds([(at, time / 1000) for at, _, time in points])

    live(lambda: change(known()))
    ui.timer(0.1, course, once=True)
    ui.timer(3, course)
    _members(console, name)


def _members(console: Console, name: str) -> None:
    found: list[GroupDetail] = []

    def progress() -> list[Row]:
        return [
            {
                "id": str(each.lag.partition),
                "topic": each.lag.partition.topic,
                "href": f"/topics/{each.lag.partition.topic}",
                "partition": each.lag.partition.number,
                "committed": count(each.lag.committed),
                "latest": count(each.lag.latest),
                "lag": count(each.lag.records),
                "time": duration(each.lag.time_ms),
                "member": each.member.client_id if each.member else "nobody",
                "sort": {"lag": each.lag.records or 0, "time": each.lag.time_ms or 0},
            }
            for detail in found
            for each in detail.progress
        ]

    def members() -> list[Row]:
        return [
            {
                "id": each.id,
                "client": each.client_id,
                "host": each.host,
                "partitions": ", ".join(map(str, each.partitions)) or "none",
            }
            for detail in found
            for each in detail.members
        ]

    ui.label("Partitions").classes("hr-heading")
    table = PagedTable(
        [
            column("topic", kind="link"),
            column("partition", right=True),
            column("committed", right=True),
            column("latest", right=True),
            column("lag", right=True),
            column("time", "Behind", right=True),
            column("member", "Read by"),
        ],
        progress,
        sort="lag",
        descending=True,
        key="id",
    )
    ui.label("Members").classes("hr-heading")
    people = PagedTable(
        [column("client"), column("host"), column("partitions", kind="clip")],
        members,
        sort="client",
        key="id",
    )

    async def load() -> None:
        observatory = console.observatory
        isolation = isolation_by(observatory.settings.lag.read_uncommitted)(name)
        try:
            detail = await in_background(
                lambda: describe_group(observatory.cluster, name, isolation=isolation)
            )
        except HeadraceError:
            return
        found[:] = [detail]
        table.refresh()
        people.refresh()

    ui.timer(0.1, load, once=True)
    ui.timer(3, load)


async def _move_dialog(console: Console, name: str) -> None:
    plan: list[OffsetMove] = []
    with ui.dialog() as dialog, ui.card().classes("hr-card").style("width: 720px"):
        ui.label(f"Move {name}").classes("hr-heading")
        ui.label("Only a group that nobody reads with can be moved.").classes("hr-sub")
        way = ui.select(_WAYS, value="earliest", label="Where to").props("outlined dense")
        way.classes("w-full")
        where = ui.input("Time or number", placeholder="2026-03-01T12:00, -10m, or -100")
        where.props("outlined dense").classes("w-full")
        where.bind_visibility_from(way, "value", lambda value: value in ("time", "shift"))
        said = ui.label().classes("hr-sub").props("aria-live=polite")

        def rows() -> list[Row]:
            return [
                {
                    "id": str(each.partition),
                    "partition": str(each.partition),
                    "before": "none" if each.before is None else count(each.before),
                    "after": count(each.after),
                    "lag": count(each.lag),
                }
                for each in plan
            ]

        table = PagedTable(
            [
                column("partition"),
                column("before", right=True),
                column("after", right=True),
                column("lag", "Lag after", right=True),
            ],
            rows,
            sort="partition",
            key="id",
            rows=25,
        )

        async def preview() -> None:
            plan.clear()
            move.disable()
            try:
                target = _target(str(way.value), where.value or "")
                cluster = console.observatory.cluster
                plan.extend(await in_background(plan_reset, cluster, name, target))
            except (HeadraceError, ValueError) as error:
                said.text = str(error)
            else:
                said.text = f"{len(plan)} partitions would move." if plan else "Nothing to move."
                move.set_enabled(bool(plan))
            table.refresh()

        with ui.row().classes("w-full justify-end"):
            ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat")
            ui.button("Preview", on_click=preview).props("outline color=primary")
            move = ui.button("Move it", on_click=lambda: dialog.submit(True))
            move.props("unelevated color=negative")
            move.disable()
    wanted = await dialog
    dialog.delete()
    if wanted and plan:
        moved = await attempt(
            console,
            "reset offsets",
            name,
            _apply,
            console.observatory.cluster,
            name,
            list(plan),
            done=f"{name} continues elsewhere in {len(plan)} partitions.",
            partitions={str(each.partition): [each.before, each.after] for each in plan},
        )
        if moved:
            await in_background(console.observatory.groups.look_again)


def _apply(cluster: Cluster, name: str, plan: list[OffsetMove]) -> None:
    apply_reset(cluster, name, plan)


def _target(way: str, text: str) -> Position | ShiftBy:
    if way == "shift":
        return ShiftBy(int(text.strip() or "0"))
    return parse_position(text if way == "time" else way, now_ms=now_ms())
