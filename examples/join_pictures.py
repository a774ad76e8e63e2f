"""The pictures in docs/joins.md, drawn from what the operators of joins really say.

    python -m examples.join_pictures docs/images

Nothing of what is drawn is written here: what comes in is, and all that is made of it is computed
by the classes that run on Spark, in one bucket and without Spark.
"""

import sys
from collections.abc import Mapping, Sequence
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
from headrace.streams.joins.lookup import Lookup
from headrace.streams.joins.sides import Side
from headrace.streams.joins.versions import VersionedLookup
from headrace.streams.joins.within import WithinJoin
from headrace.streams.plan import DELETED
from headrace.streams.state.blobs import to_polars
from headrace.streams.state.bucket import Bucket, Job
from headrace.streams.state.cache import Copies
from headrace.streams.state.operator import Operator
from headrace.streams.state.storage import MemoryStorage
from headrace.streams.tables.joined import TableJoin
from headrace.streams.tables.sides import TableSide

TEXT, MOMENT = pa.string(), pa.timestamp("us", "UTC")
START: Final = datetime(2026, 1, 1, 10, tzinfo=UTC)

_MEMORY: Final = 1 << 24
_LEFT: Final = 90

Row = dict[str, Any]


class Given:
    """A watermark that is told and not found out."""

    def observe(self, source: str, events: pl.DataFrame) -> Mapping[str, int]:
        """Nothing."""
        return {}

    def advance(self, memory: str, bounds: Mapping[str, int]) -> tuple[str, int | None]:
        """What was told last."""
        reached = bounds.get("given", int(memory) if memory else None)
        return "" if reached is None else str(reached), reached


class Join:
    """A join in one bucket."""

    def __init__(self, operator: Operator, inputs: Mapping[str, Any]) -> None:
        """Take the operator, and the Arrow schemas of its inputs."""
        self._job = Job("pictures", operator, Given())
        self._empty = {name: to_polars(each.empty_table()) for name, each in inputs.items()}
        self._storage = MemoryStorage()
        self._copies = Copies(_MEMORY, _MEMORY)

    def tell(self, watermark: datetime | None = None, **rows: Sequence[Row]) -> list[Row]:
        """What a batch of some rows of each input makes the join say."""
        events = {
            name: self._job.operator.prepare(name, pl.DataFrame(rows.get(name, []), empty.schema))
            for name, empty in self._empty.items()
        }
        bounds = {} if watermark is None else {"given": micros(watermark)}
        bucket = Bucket(self._job, 0, self._storage, self._copies)
        told = bucket.apply("pictures", events, bounds).outputs
        return to_polars(told["main"]).to_dicts() if "main" in told else []


def minute(number: float) -> datetime:
    """So many minutes after ten."""
    return START + timedelta(minutes=number)


def micros(time: datetime) -> int:
    """Microseconds since 1970."""
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def within_picture() -> str:
    """Searches and clicks in the order of arrival, and who meets whom within ten minutes."""
    schema = pa.schema([("session", TEXT), ("at", MOMENT)])
    side = Side(schema, ("session",), "at")
    bound = 10 * 60_000_000
    join = Join(WithinJoin("join", side, side, "left", 0, bound), {"left": schema, "right": schema})
    arrivals = [("right", "a", 4), ("left", "a", 1), ("left", "b", 6), ("left", "c", 9)]
    arrivals += [("right", "c", 12), ("right", "c", 15), ("right", "b", 18), ("left", "d", 24)]
    heights = {"left": 50, "right": 130}

    def x(time: datetime) -> float:
        return _LEFT + (WIDTH - _LEFT - 40) * ((time - START) / timedelta(minutes=26))

    drawn = [text(10, 54, "searches", anchor="start"), text(10, 134, "clicks", anchor="start")]
    for number, (name, session, at) in enumerate(arrivals, 1):
        place, y = x(minute(at)), heights[name]
        above = y - 12 if name == "left" else y + 22
        drawn += [dot(place, y, INK), text(place, above, f"{session} ({number})")]
        watermark = minute(at) if name == "left" else None
        told = join.tell(watermark, **{name: [{"session": session, "at": minute(at)}]})
        for row in told:
            begin = x(row["at"])
            if row["at_right"] is not None:
                drawn.append(line([(begin, 50), (x(row["at_right"]), 130)], BLUE))
            else:
                drawn.append(line([(begin, 58), (begin, 170)], RED, dashed=True))
                said = f"{row['session']} was not clicked within ten minutes, says ({number})"
                drawn.append(text(begin, 184, said, colour=RED))
    axis = [text(x(minute(each)), 212, f"{minute(each):%H:%M}", colour=DIM) for each in (0, 10, 20)]
    return picture(222, [*drawn, *axis])


def lookup_picture() -> str:
    """Batches of clicks and of a table's changes, and what the clicks find."""
    clicks = pa.schema([("user", TEXT), ("at", MOMENT)])
    users = pa.schema([("user", TEXT), ("city", TEXT), (DELETED, pa.bool_())])
    side = Side(clicks, ("user",), "at")
    operator = Lookup("join", side, users, ("user",), {"user": "user"}, wait=5 * 60_000_000)
    join = Join(operator, {"events": clicks, "table": users})
    steps: list[tuple[list[tuple[str, int]], list[tuple[str, str]]]] = [
        ([("ada", 1)], [("ada", "London")]),
        ([("bob", 2), ("eve", 3)], []),
        ([("ada", 5)], [("ada", "Paris"), ("bob", "Rome")]),
        ([("ada", 9)], []),
    ]
    rows = []
    for events, changes in steps:
        table = [{"user": user, "city": city, DELETED: False} for user, city in changes]
        came = [{"user": user, "at": minute(at)} for user, at in events]
        told = join.tell(minute(events[-1][1]), events=came, table=table)
        brought = [f"{user} lives in {city}" for user, city in changes]
        brought += [f"{user} clicks at {minute(at):%H:%M}" for user, at in events]
        said = [
            (f"{row['user']} at {row['at']:%H:%M}: {row['city'] or 'nobody knows where'}", INK)
            for row in told
        ]
        rows.append((brought, said))
    return _steps("a batch brings", "what is told", rows)


def versions_picture() -> str:
    """Two tax rates in the time in which they hold, and invoices in the order of arrival."""
    sales = pa.schema([("item", TEXT), ("country", TEXT), ("at", MOMENT)])
    rates = pa.schema(
        [("country", TEXT), ("rate", pa.int64()), ("since", MOMENT), (DELETED, pa.bool_())]
    )
    side = Side(sales, ("country",), "at")
    on = {"country": "country"}
    operator = VersionedLookup("join", side, rates, ("country",), "since", on, "at")
    join = Join(operator, {"events": sales, "table": rates})
    changes = [(19, 0), (16, 20), (21, 45)]
    table = [
        {"country": "de", "rate": rate, "since": minute(since), DELETED: False}
        for rate, since in changes
    ]
    join.tell(table=table)
    begin, end = minute(-8), minute(68)

    def x(time: datetime) -> float:
        return _LEFT + (WIDTH - _LEFT - 20) * ((time - begin) / (end - begin))

    ends = [*(since for _, since in changes[1:]), 68]
    drawn = [text(10, 52, "tax rate", anchor="start"), text(10, 134, "invoices", anchor="start")]
    middles = {}
    for (rate, since), until in zip(changes, ends, strict=True):
        left, right = x(minute(since)), x(minute(until))
        drawn += [box(left + 1, 38, right - left - 2, 20, BLUE)]
        drawn.append(text((left + right) / 2, 52, f"{rate} %", colour="white"))
        middles[rate] = (left + right) / 2
    for number, at in enumerate((10, 30, 60, 15, -4), 1):
        place = x(minute(at))
        came = [{"item": f"{number}", "country": "de", "at": minute(at)}]
        late = at < 60 and number > 3
        (row,) = join.tell(minute(max(at, 60) + 1 if number >= 3 else at + 1), events=came)
        colour = RED if late else INK
        drawn += [dot(place, 130, colour), text(place, 152, f"({number})", colour=colour)]
        if row["rate"] is not None:
            drawn.append(line([(place, 124), (place, 60)], DIM, dashed=True))
        found = "nothing" if row["rate"] is None else f"{row['rate']} %"
        drawn.append(text(place, 168, found, colour=colour))
    drawn.append(text(_LEFT, 190, "(4) and (5) came after (3)", anchor="start", colour=RED))
    ticks = [text(x(minute(each)), 30, f"{minute(each):%H:%M}", colour=DIM) for each in (0, 20, 45)]
    return picture(200, [*ticks, *drawn])


def tables_picture() -> str:
    """Posts and follows, and what their changes change in the timelines."""
    posts = pa.schema([("id", pa.int64()), ("sender", TEXT), ("text", TEXT)])
    follows = pa.schema([("reader", TEXT), ("sender", TEXT)])
    schemas = {
        "left": posts.append(pa.field("_change", TEXT)),
        "right": follows.append(pa.field(DELETED, pa.bool_())),
    }
    join = Join(
        TableJoin(
            "join",
            TableSide(posts, ("id",), ("sender",), changelog=True),
            TableSide(follows, ("reader", "sender"), ("sender",)),
        ),
        schemas,
    )

    def post(number: int, said: str, change: str = "insert") -> tuple[str, str, Row]:
        row = {"id": number, "sender": "ada", "text": said, "_change": change}
        return "left", f"ada {'deletes' if change == 'delete' else 'posts'} {said}", row

    def follow(reader: str, *, deleted: bool = False) -> tuple[str, str, Row]:
        row = {"reader": reader, "sender": "ada", DELETED: deleted}
        return "right", f"{reader} {'unfollows' if deleted else 'follows'} ada", row

    steps = [
        [follow("bob"), post(1, "one")],
        [post(2, "two")],
        [follow("eve")],
        [post(1, "one", "delete")],
        [follow("bob", deleted=True)],
        [post(2, "two", "delete")],
    ]
    rows = []
    for changes in steps:
        given: dict[str, list[Row]] = {}
        for name, _, row in changes:
            given.setdefault(name, []).append(row)
        told = join.tell(None, **given)
        # By reader and post: the order of keys is that of their hashes.
        told.sort(key=lambda row: (row["reader"], row["id"]))
        rows.append(([each for _, each, _ in changes], [_became(row) for row in told]))
    return _steps("a batch brings", "what becomes of the timelines", rows)


def _became(row: Row) -> tuple[str, str]:
    if row["_change"] == "insert":
        return f"{row['reader']} has {row['text']}", INK
    return f"{row['reader']} has {row['text']} no longer", RED


def _steps(
    first: str, second: str, rows: Sequence[tuple[Sequence[str], Sequence[tuple[str, str]]]]
) -> str:
    """Batches, one below the other: on the left what they bring, on the right what is told."""
    drawn = [
        text(10, 20, first, anchor="start", colour=DIM),
        text(330, 20, second, anchor="start", colour=DIM),
    ]
    y = 46
    for brought, told in rows:
        for number, each in enumerate(brought):
            drawn.append(text(10, y + 20 * number, each, anchor="start"))
        for number, (each, colour) in enumerate(told or [("nothing", DIM)]):
            drawn.append(text(330, y + 20 * number, each, anchor="start", colour=colour))
        y += 20 * max(len(brought), len(told), 1)
        drawn.append(line([(10, y - 10), (WIDTH - 10, y - 10)], LIGHT))
        y += 10
    return picture(y, drawn)


PICTURES: Final = {
    "joins-within.svg": within_picture,
    "joins-lookup.svg": lookup_picture,
    "joins-versions.svg": versions_picture,
    "joins-tables.svg": tables_picture,
}


if __name__ == "__main__":
    draw_all(PICTURES, Path(sys.argv[1]))
