"""The pictures in docs/time.md, drawn from what the operators of windows and time really say.

    python -m examples.time_pictures docs/images

Nothing of what is drawn is written here: the events are, and all that is made of them is computed
by the classes that run on Spark, in one bucket and without Spark.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa

from examples.drawing import (
    BLUE,
    DIM,
    INK,
    LIGHT,
    RED,
    WIDTH,
    box,
    dot,
    draw_all,
    line,
    picture,
    text,
)
from headrace.streams.state.blobs import to_polars
from headrace.streams.state.bucket import Bucket, Job
from headrace.streams.state.cache import Copies
from headrace.streams.state.storage import MemoryStorage
from headrace.streams.time import Watermark
from headrace.streams.time.tracker import Tracker
from headrace.streams.windows import Window, hopping, session, sliding, tumbling
from headrace.streams.windows.aggregates.sums import Count
from headrace.streams.windows.layout import INPUT
from headrace.streams.windows.measures import Call
from headrace.streams.windows.operators import window_operator

START: Final = datetime(2026, 1, 1, 10, tzinfo=UTC)
EVENTS: Final = ("0:40", "1:30", "3:39", "8:12", "8:50")
"""Minutes and seconds after ten, in the picture of windows."""

ARRIVALS: Final = ("0:05", "0:20", "0:12", "0:40", "0:35", "1:00", "0:52", "0:30", "1:20", "1:12")
"""The same, in the order of arrival, in the picture of the watermark."""

STEPS: Final = (("0:15", "0:40", "1:10"), ("0:50", "2:00"), ("0:30", "6:30"), ("0:20",))
"""The batches of the picture of stragglers."""

RULES: Final = Watermark(out_of_order="20 seconds")

_SCHEMA: Final = pa.schema([("at", pa.timestamp("us", "UTC"))])
_MEMORY: Final = 1 << 24
_LEFT: Final = 130


class Windows:
    """A window operator in one bucket, with the watermark that the events so far allow."""

    def __init__(self, kind: Window, **options: Any) -> None:
        self._operator = window_operator(
            "windows",
            kind,
            by=(),
            aggregates={"n": Call(Count())},
            time="at",
            input_schema=_SCHEMA,
            **options,
        )
        self._storage = MemoryStorage()
        self._copies = Copies(_MEMORY, _MEMORY)

    def tell(self, times: Iterable[str], watermark: datetime) -> Mapping[str, pl.DataFrame]:
        """What a batch makes the operator say, by the names of its outputs."""
        rows = pl.DataFrame({"at": [moment(each) for each in times]}, to_polars_schema())
        events = {INPUT: self._operator.prepare(INPUT, rows)}
        job = Job("pictures", self._operator, Tracker({INPUT: RULES}))
        bucket = Bucket(job, 0, self._storage, self._copies)
        told = bucket.apply(
            "pictures", events, {f"promise {INPUT}/topic-0": micros(watermark)}
        ).outputs
        return {name: to_polars(each) for name, each in told.items()}


def moment(text: str) -> datetime:
    """Minutes and seconds after ten.

    >>> moment("3:39").time().isoformat()
    '10:03:39'
    """
    minutes, seconds = text.split(":")
    return START + timedelta(minutes=int(minutes), seconds=int(seconds))


def micros(time: datetime) -> int:
    """Microseconds since 1970."""
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def to_polars_schema() -> Any:
    """The columns of the events."""
    return to_polars(_SCHEMA.empty_table()).schema


def windows_picture() -> str:
    """The same five events in the four kinds of windows."""
    kinds: dict[str, Window] = {
        "tumbling 5 min": tumbling("5 minutes"),
        "hopping 5 by 2 min": hopping("5 minutes", "2 minutes"),
        "sliding 5 min": sliding("5 minutes"),
        "session 3 min": session("3 minutes"),
    }
    first, last = START - timedelta(minutes=5), START + timedelta(minutes=15)

    def x(time: datetime) -> float:
        return _LEFT + (WIDTH - _LEFT - 20) * ((time - first) / (last - first))

    drawn: list[str] = []
    y = 40
    for name, kind in kinds.items():
        drawn.append(text(10, y + 14, name, anchor="start"))
        told = Windows(kind).tell(EVENTS, last)["main"].sort("window_start", "window_end")
        for row in told.iter_rows(named=True):
            begin, end = x(row["window_start"]), x(row["window_end"])
            drawn.append(box(begin + 1, y, max(end - begin - 2, 2), 16, BLUE))
            drawn.append(text((begin + end) / 2, y + 12, str(row["n"]), colour="white"))
            y += 20
        y += 14
    top = [text(10, 20, "events", anchor="start")]
    for each in EVENTS:
        at = x(moment(each))
        top += [dot(at, 16, INK), line([(at, 16), (at, y)], DIM, dashed=True)]
    ticks = (START + timedelta(minutes=each) for each in range(-5, 16, 5))
    axis = [text(x(each), y + 14, f"{each:%H:%M}", colour=DIM) for each in ticks]
    return picture(y + 24, [*top, *drawn, *axis])


def watermark_picture() -> str:
    """Event times in the order of arrival, and the watermark that follows the latest of them."""
    tracker, memory = Tracker({INPUT: RULES}), ""
    rows: list[tuple[datetime, datetime, bool]] = []
    reached: datetime | None = None
    for each in map(moment, ARRIVALS):
        late = reached is not None and each < reached
        memory, mark = tracker.advance(memory, {f"time {INPUT}/topic-0": micros(each)})
        assert mark is not None
        reached = datetime.fromtimestamp(mark / 1e6, UTC)
        rows.append((each, reached, late))
    bottom, seconds = 260, 100.0

    def y(time: datetime) -> float:
        return bottom - (bottom - 30) * ((time - START).total_seconds() + 20) / (seconds + 20)

    step = (WIDTH - _LEFT - 20) / len(rows)
    drawn: list[str] = []
    path: list[tuple[float, float]] = []
    for number, (time, mark_at, late) in enumerate(rows):
        x = _LEFT + step * (number + 0.5)
        drawn.append(dot(x, y(time), RED if late else INK))
        above = y(time) + (18 if late else -9)
        drawn.append(text(x, above, f"{time:%M:%S}", colour=RED if late else INK))
        path += [(x, y(mark_at)), (x + step, y(mark_at))]
    drawn += [line(path, BLUE), text(10, y(START), "event time", anchor="start", colour=DIM)]
    drawn.append(text(WIDTH - 20, path[-1][1] - 8, "watermark", anchor="end", colour=BLUE))
    drawn.append(text(_LEFT, bottom + 20, "in the order of arrival", anchor="start", colour=DIM))
    return picture(bottom + 30, drawn)


def stragglers_picture() -> str:
    """What a minute says, and says again, while stragglers come in."""
    windows = Windows(tumbling("1 minute"), late="correct", lateness="5 minutes")
    drawn = [
        text(10, 20, "a batch brings", anchor="start", colour=DIM),
        text(220, 20, "watermark", anchor="start", colour=DIM),
        text(330, 20, "what is said", anchor="start", colour=DIM),
    ]
    latest, y = START, 46
    for times in STEPS:
        latest = max(latest, *map(moment, times))
        mark = latest - timedelta(microseconds=RULES.delay)
        told = list(_said(windows.tell(times, mark)))
        brought = ", ".join(f"{moment(each):%H:%M:%S}" for each in times)
        drawn.append(text(10, y, brought, anchor="start"))
        drawn.append(text(220, y, f"{mark:%H:%M:%S}", anchor="start", colour=BLUE))
        for said, colour in told or [("nothing yet", DIM)]:
            drawn.append(text(330, y, said, anchor="start", colour=colour))
            y += 20
        drawn.append(line([(10, y - 10), (WIDTH - 10, y - 10)], LIGHT))
        y += 10
    return picture(y, drawn)


def _said(told: Mapping[str, pl.DataFrame]) -> Iterator[tuple[str, str]]:
    words = {"insert": "", "update_before": "no longer ", "update_after": "but "}
    main = told.get("main", pl.DataFrame({"window_start": []}))
    for row in main.sort("window_start", maintain_order=True).iter_rows(named=True):
        counted = f"{row['window_start']:%H:%M} had {row['n']}"
        yield f"{words[row['_change']]}{counted}", DIM if "before" in row["_change"] else INK
    for row in told.get("late", pl.DataFrame()).iter_rows(named=True):
        yield f"{row['at']:%H:%M:%S} is too late, and goes to .late", RED


PICTURES: Final = {
    "time-watermark.svg": watermark_picture,
    "time-windows.svg": windows_picture,
    "time-stragglers.svg": stragglers_picture,
}


if __name__ == "__main__":
    draw_all(PICTURES, Path(sys.argv[1]))
