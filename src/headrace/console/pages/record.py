"""One record, in full."""

import html

from nicegui import ui

from headrace.console.frame import Console
from headrace.console.observing.decoding import Change, Decoded
from headrace.console.observing.records import RecordSeen
from headrace.console.observing.writing import origin_of, reason_of, redrive
from headrace.console.widgets import asking, attempt, facts
from headrace.console.wording import count, link, moment, shown, size


def show_record(console: Console, record: RecordSeen) -> None:
    """Open a record over the page."""
    with ui.dialog() as dialog, ui.card().classes("hr-card").style("width: 820px"):
        with ui.row().classes("w-full items-center justify-between no-wrap"):
            ui.label(f"{record.topic} · {record.partition} · {record.offset}").classes("hr-heading")
            ui.button(icon="close", on_click=dialog.close).props(
                'flat round dense aria-label="Close"'
            )
        facts(
            {
                "Time (UTC)": moment(record.timestamp),
                "Size": size(record.size),
                "Format": record.value.kind,
            }
        )
        if record.key.kind != "none":
            ui.label("Key").classes("hr-faint")
            _shown(record.key)
        if record.value.change is not None:
            _change(record.value.change)
            with ui.expansion("The whole record").classes("w-full").props("dense"):
                _shown(record.value)
        else:
            ui.label("Value").classes("hr-faint")
            _shown(record.value)
        if record.headers:
            ui.label("Headers").classes("hr-faint")
            rows = "".join(
                f"<tr><td>{html.escape(name)}</td><td>{html.escape(text)}</td></tr>"
                for name, text in record.headers
            )
            ui.html(f'<table class="hr-diff">{rows}</table>', sanitize=False).classes("w-full")
        with ui.row().classes("w-full justify-end"):
            _send_back(console, record)
            ui.button(
                "Trace it",
                icon="route",
                on_click=lambda: ui.navigate.to(
                    link(
                        "/trace",
                        topic=record.topic,
                        partition=record.partition,
                        offset=record.offset,
                    )
                ),
            ).props("unelevated color=primary")
    dialog.on("hide", dialog.delete)
    dialog.open()


def _shown(decoded: Decoded) -> None:
    if decoded.problem:
        ui.label(decoded.problem).classes("hr-error")
    text = decoded.text if decoded.kind != "none" else "(nothing: whoever compacts deletes the key)"
    with ui.element("pre").classes("hr-pre").props("tabindex=0"):
        ui.html(html.escape(text), sanitize=False)


def _change(change: Change) -> None:
    source = change.source
    table = ".".join(str(source[name]) for name in ("db", "schema", "table") if source.get(name))
    place = source.get("lsn") or source.get("pos") or source.get("change_lsn")
    with ui.row().classes("items-center gap-3"):
        ui.label(change.verb).classes("hr-tag hr-ok" if change.op != "d" else "hr-tag hr-bad")
        ui.label(table).classes("hr-mono")
        if place is not None:
            ui.label(f"at {count(place) if isinstance(place, int) else place}").classes("hr-sub")
        if isinstance(source.get("ts_ms"), int):
            ui.label(f"committed {moment(source['ts_ms'])}").classes("hr-sub")
    rows = []
    for name, was, now in change.differences():
        differs = change.before is not None and change.after is not None and was != now
        before = "" if change.before is None else html.escape(shown(was))
        after = "" if change.after is None else html.escape(shown(now))
        marks = (' class="was"', ' class="is"') if differs else ("", "")
        rows.append(
            f"<tr><td>{html.escape(name)}</td><td{marks[0]}>{before}</td>"
            f"<td{marks[1]}>{after}</td></tr>"
        )
    ui.html(
        '<table class="hr-diff"><thead><tr><th>Column</th><th>Before</th><th>After</th></tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table>",
        sanitize=False,
    ).classes("w-full")


def _send_back(console: Console, record: RecordSeen) -> None:
    topic = origin_of(record)
    if topic is None:
        return
    ui.label(f"Rejected: {reason_of(record)}").classes("hr-error")

    async def deed() -> None:
        await attempt(
            console,
            "redrive",
            record.place,
            redrive,
            console.observatory.cluster,
            [record],
            done=f"Sent back to {topic}.",
            records=1,
        )

    question = f"It is written once more to {topic}, as it was."
    ui.button(
        "Send it back", icon="replay", on_click=asking("Send it back?", question, "Send it", deed)
    ).props("outline color=primary")
