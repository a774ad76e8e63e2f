"""The records of a topic: searched, followed, looked into, written, sent back."""

from collections import deque
from typing import Final

from nicegui import ui

from headrace.console.frame import Console, now_ms
from headrace.console.observing.filtering import Filter, parse_filter
from headrace.console.observing.messages import Tail, read_page
from headrace.console.observing.records import RecordSeen
from headrace.console.observing.writing import origin_of, produce, reason_of, redrive
from headrace.console.pages.record import show_record
from headrace.console.widgets import (
    PagedTable,
    Row,
    attempt,
    column,
    confirmed,
    in_background,
)
from headrace.console.wording import count, moment, short, shown
from headrace.errors import HeadraceError
from headrace.kafka import BeforeEnd, Position, parse_position

_SHOWN: Final = 200
"""Records that are found at a time, and that a tail keeps."""

_TAIL_SECONDS: Final = 0.5


class Browser:
    """The messages of one topic, for one visitor."""

    def __init__(
        self, console: Console, topic: str, position: str = "", partition: int | None = None
    ) -> None:
        self._console = console
        self._topic = topic
        self._records: deque[RecordSeen] = deque(maxlen=_SHOWN)
        self._tail: Tail | None = None
        self._paused = False
        self._busy = False
        self._filter: Filter = lambda record: True
        self._build(position, partition)

    def _build(self, position: str, partition: int | None) -> None:
        with ui.column().classes("w-full gap-3 q-pt-md"):
            with ui.element("div").classes("hr-row-form"):
                self._words = ui.input("Filter", placeholder="a word, or total > 100")
                self._words.props("outlined dense clearable").classes("col-grow")
                self._words.tooltip("refund · total > 100 · customer.name = Ada · status ~ ^paid")
                self._position = ui.input("From", value=position, placeholder="the last 200")
                self._position.props("outlined dense clearable").style("width: 180px")
                self._position.tooltip(
                    "earliest, latest, an offset, -100, -10m or 2026-03-01T12:00"
                )
                self._partition = ui.number("Partition", value=partition, min=0, precision=0)
                self._partition.props("outlined dense clearable").style("width: 110px")
                ui.button("Search", icon="search", on_click=self._search).props(
                    "unelevated color=primary"
                )
                self._live = ui.button("Follow", icon="play_arrow", on_click=self._follow)
                self._live.props("outline color=primary")
                ui.button("Write", icon="edit", on_click=self._write).props("flat color=primary")
                for field in (self._words, self._position, self._partition):
                    field.on("keydown.enter", self._search)
            with ui.row().classes("items-center gap-3"):
                self._said = ui.label("").classes("hr-sub").props("aria-live=polite")
                self._redrive = ui.button(
                    "Send these back", icon="replay", on_click=self._send_back
                ).props("outline dense color=primary")
                self._redrive.visible = False
            self._table = PagedTable(
                [
                    column("time"),
                    column("partition", "P", right=True),
                    column("offset", right=True),
                    column("key", kind="clip"),
                    column("value", kind="wide"),
                ],
                self._rows,
                sort="time",
                descending=True,
                key="id",
                on_row=self._open,
            )
        ui.timer(0.05, self._search, once=True)
        ui.timer(_TAIL_SECONDS, self._take)
        ui.context.client.on_disconnect(self._end)

    def _rows(self) -> list[Row]:
        return [
            {
                "id": each.place,
                "time": moment(each.timestamp),
                "partition": each.partition,
                "offset": count(each.offset),
                "key": _key(each),
                "value": _summary(each),
                "sort": {
                    "time": f"{each.timestamp or 0:020d}{each.offset:020d}",
                    "offset": each.offset,
                },
            }
            for each in self._records
        ]

    def _open(self, row: Row) -> None:
        found = next((each for each in self._records if each.place == row["id"]), None)
        if found is not None:
            show_record(self._console, found)

    async def _search(self) -> None:
        if self._busy:
            return
        self._end_tail()
        try:
            self._filter = parse_filter(self._words.value or "")
            position = self._wanted_position()
        except (HeadraceError, ValueError) as error:
            self._said.text = str(error)
            return
        self._busy = True
        self._said.text = "Searching …"
        try:
            page = await in_background(
                lambda: read_page(
                    self._console.observatory.cluster,
                    self._topic,
                    position,
                    self._filter,
                    self._console.observatory.decoder,
                    partition=self._wanted_partition(),
                    limit=_SHOWN,
                )
            )
        except HeadraceError as error:
            self._said.text = str(error)
            return
        finally:
            self._busy = False
        self._records = deque(page.records, maxlen=_SHOWN)
        more = "" if page.complete else "; there are more"
        self._said.text = (
            f"{count(len(page.records))} of {count(page.scanned)} records looked at{more}."
            if page.scanned
            else "There is nothing here. Write a record, or follow the topic and wait for one."
        )
        self._shown()

    def _wanted_position(self) -> Position:
        text = (self._position.value or "").strip()
        if not text:
            return BeforeEnd(_SHOWN if not self._words.value else 10_000)
        return parse_position(text, now_ms=now_ms())

    def _wanted_partition(self) -> int | None:
        return None if self._partition.value is None else int(self._partition.value)

    async def _follow(self) -> None:
        if self._tail is not None:
            self._paused = not self._paused
            self._name_button()
            return
        try:
            self._filter = parse_filter(self._words.value or "")
            self._tail = await in_background(
                lambda: Tail(
                    self._console.observatory.cluster,
                    self._topic,
                    self._console.observatory.decoder,
                    partition=self._wanted_partition(),
                )
            )
        except HeadraceError as error:
            self._said.text = str(error)
            return
        self._paused = False
        self._records.clear()
        self._name_button()
        self._shown()

    def _name_button(self) -> None:
        if self._tail is None:
            text, icon = "Follow", "play_arrow"
        elif self._paused:
            text, icon = "Resume", "play_arrow"
            self._said.text = "Paused; what comes in meanwhile is shown when you resume."
        else:
            text, icon = "Pause", "pause"
            self._said.text = "Following; records appear as they come in."
        self._live.text = text
        self._live.icon = icon

    async def _take(self) -> None:
        tail = self._tail
        if tail is None or self._paused or self._busy:
            return
        self._busy = True
        try:
            found = await in_background(tail.take, self._filter)
        except HeadraceError as error:
            self._said.text = str(error)
            self._end_tail()
            return
        finally:
            self._busy = False
        if tail is not self._tail:
            tail.close()
        elif found:
            self._records.extend(found)
            self._shown()

    def _shown(self) -> None:
        letters = [each for each in self._records if origin_of(each)]
        self._redrive.visible = bool(letters)
        self._table.refresh()

    async def _send_back(self) -> None:
        letters = [each for each in self._records if origin_of(each)]
        topics = sorted({origin_of(each) or "" for each in letters})
        reasons = sorted({short(reason_of(each), 100) for each in letters})[:3]
        text = (
            f"{len(letters)} dead letters are written once more to {', '.join(topics)}, as they "
            f"were. They were rejected because:\n" + "\n".join(reasons)
        )
        if await confirmed("Send dead letters back?", text, "Send them back"):
            await attempt(
                self._console,
                "redrive",
                self._topic,
                redrive,
                self._console.observatory.cluster,
                letters,
                done=f"{len(letters)} records sent back to {', '.join(topics)}.",
                records=len(letters),
            )

    async def _write(self) -> None:
        with ui.dialog() as dialog, ui.card().classes("hr-card"):
            ui.label(f"Write a record to {self._topic}").classes("hr-heading")
            key = ui.input("Key").props("outlined dense").classes("w-full")
            value = ui.textarea("Value").props("outlined autogrow").classes("w-full hr-mono")
            headers = ui.input("Headers", placeholder="name=value, name=value")
            headers.props("outlined dense").classes("w-full")
            with ui.row().classes("w-full justify-end"):
                ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat")
                ui.button("Write it", on_click=lambda: dialog.submit(True)).props(
                    "unelevated color=primary"
                )
        wanted = await dialog
        dialog.delete()
        if not wanted:
            return
        written = await attempt(
            self._console,
            "produce",
            self._topic,
            lambda: produce(
                self._console.observatory.cluster,
                self._topic,
                (value.value or "").encode(),
                (key.value or "").encode() or None,
                _headers(headers.value or ""),
                self._wanted_partition(),
            ),
            done="Written.",
        )
        if written and self._tail is None:
            await self._search()

    def _end_tail(self) -> None:
        tail, self._tail = self._tail, None
        self._name_button()
        if tail is not None and not self._busy:
            tail.close()

    def _end(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None and not self._busy:
            tail.close()


def _headers(text: str) -> list[tuple[str, bytes | None]]:
    pairs = [each.partition("=") for each in text.split(",") if each.strip()]
    return [(name.strip(), value.strip().encode()) for name, _, value in pairs]


def _key(record: RecordSeen) -> str:
    value = record.key.value
    return short(shown(value) if isinstance(value, (dict, list)) else record.key.text, 40)


def _summary(record: RecordSeen) -> str:
    """What a record says, in a line."""
    change = record.value.change
    if change is None:
        if isinstance(record.value.value, (dict, list)):
            return short(shown(record.value.value))
        return short(record.value.text) if record.value.kind != "none" else "(no value)"
    row = change.after or change.before or {}
    if change.op == "u" and change.before:
        parts = [f"{name}: {was} → {now}" for name, was, now in change.differences() if was != now]
        return short(f"{change.verb} {', '.join(parts)}")
    return short(f"{change.verb} " + ", ".join(f"{name}: {each}" for name, each in row.items()))
