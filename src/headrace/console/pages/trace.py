"""The way of one record: where it came from, and what has become of it."""

import html
from collections.abc import Sequence

from nicegui import ui

from headrace.console.frame import Console, frame
from headrace.console.observing.records import RecordSeen
from headrace.console.observing.tracing import Hop, Trace, Tracer
from headrace.console.pages.record import show_record
from headrace.console.widgets import empty, facts, heading, in_background
from headrace.console.wording import clock_time, duration, link, moment, short
from headrace.errors import HeadraceError


def register(console: Console) -> None:
    """Make the page known."""

    @ui.page("/trace")
    def trace(topic: str = "", partition: int = 0, offset: int = -1) -> None:
        with frame(console, "Trace", at="/trace"):
            _show(console, topic, partition, offset)


def _show(console: Console, topic: str, partition: int, offset: int) -> None:
    heading("Trace", "Follow one record: its commit, its topics, the batches and views it went to.")
    topics = [
        each.name for each in console.observatory.topics.value.rows.values() if not each.internal
    ]
    with ui.element("div").classes("hr-row-form"):
        names = (
            ui.select(
                topics, value=topic if topic in topics else None, label="Topic", with_input=True
            )
            .props("outlined dense")
            .classes("col-grow")
        )
        number = ui.number("Partition", value=partition, min=0, precision=0).props("outlined dense")
        place = ui.number("Offset", value=max(offset, 0), min=0, precision=0)
        place.props("outlined dense")

        def go() -> None:
            if names.value:
                ui.navigate.to(
                    link(
                        "/trace",
                        topic=names.value,
                        partition=int(number.value or 0),
                        offset=int(place.value or 0),
                    )
                )

        ui.button("Follow it", icon="route", on_click=go).props("unelevated color=primary")
    if not topic or offset < 0:
        empty(
            "route",
            "Choose a record",
            "Name a topic, a partition and an offset, or open a record of a topic and trace it.",
        )
        return
    result = ui.column().classes("w-full")
    with result, ui.row().classes("items-center"):
        ui.spinner()
        ui.label("Following it …").classes("hr-sub")

    async def load() -> None:
        observatory = console.observatory
        tracer = Tracer(
            observatory.cluster,
            observatory.decoder,
            observatory.flows.value,
            observatory.views.value,
        )
        try:
            found = await in_background(tracer.trace, topic, partition, offset)
        except HeadraceError as error:
            result.clear()
            with result:
                ui.label(str(error)).classes("hr-error")
            return
        result.clear()
        with result:
            _found(console, found)

    ui.timer(0.05, load, once=True)


def _found(console: Console, trace: Trace) -> None:
    record = trace.record
    if record is None:
        empty("route", "There is no such record", "It may be gone, or not written yet.")
        return
    ends = [branch[-1].at_ms for branch in trace.after if branch and branch[-1].at_ms is not None]
    began, ended = trace.began_ms, max(ends, default=record.timestamp)
    facts(
        {
            "Began (UTC)": moment(began),
            "Until now known": moment(ended),
            "From end to end": duration(
                None if began is None or ended is None else max(ended - began, 0)
            ),
        }
    )
    with ui.column().classes("hr-card gap-0"):
        last = _hops(trace.before, None)
        _own(console, record, last, more=bool(trace.after))
        if len(trace.after) == 1:
            _hops(trace.after[0], record.timestamp)
    if len(trace.after) > 1:
        for branch in trace.after:
            with ui.column().classes("hr-card gap-0"):
                _hops(branch, record.timestamp)
    if not trace.after:
        ui.label("No flow and no view has read it, as far as is known here.").classes("hr-sub")


def _own(console: Console, record: RecordSeen, before: int | None, *, more: bool) -> None:
    hop = Hop(
        "topic",
        record.topic,
        f"partition {record.partition}, offset {record.offset}: {short(record.value.text, 100)}",
        record.timestamp,
        link(f"/topics/{record.topic}", position=record.offset, partition=record.partition),
    )
    _hop(hop, before, more=more)
    ui.button("Open the record", on_click=lambda: show_record(console, record)).props(
        "flat dense color=primary"
    ).style("margin-left: 30px; margin-top: -10px; margin-bottom: 8px; align-self: flex-start")


def _hops(hops: Sequence[Hop], before: int | None) -> int | None:
    for number, each in enumerate(hops):
        _hop(each, before, more=number < len(hops) - 1)
        before = each.at_ms if each.at_ms is not None else before
    return before


def _hop(hop: Hop, before: int | None, *, more: bool) -> None:
    took = ""
    if hop.at_ms is not None and before is not None:
        later = hop.at_ms - before
        took = f"+{duration(later)}" if later >= 0 else f"-{duration(-later)}"
    title = html.escape(hop.title)
    if hop.href:
        title = f'<a class="hr-link" href="{html.escape(hop.href)}">{title}</a>'
    at = f"{clock_time(hop.at_ms)} · " if hop.at_ms is not None else ""
    ui.html(
        f'<div class="hr-hop{" missing" if hop.missing else ""}" data-hop="{hop.kind}">'
        f'<div class="rail"><i></i>{"<u></u>" if more else ""}</div>'
        f'<div>{title}</div><div class="took">{took}</div>'
        f'<div class="detail">{at}{html.escape(hop.detail)}</div></div>',
        sanitize=False,
    ).classes("w-full")
