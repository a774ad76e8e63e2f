"""Every kind of window and every policy, as events in and rows out."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.streams import Flow
from headrace.streams.time import Watermark
from headrace.streams.windows import Window, hopping, session, sliding, tumbling
from headrace.testing import GoldenCase, golden_cases

OFF = "count(*) filter (where implausible_clock)"
GOLDEN = Path(__file__).parent / "golden"
MINUTE = tumbling("1 minute")
IN_ORDER = Watermark(out_of_order="0 s")
KINDS: dict[str, Window] = {
    "tumbling": tumbling("5 minutes"),
    "hopping": hopping("4 minutes", "2 minutes"),
    "sliding": sliding("5 minutes"),
    "session": session("5 minutes"),
    "days in Berlin": tumbling("1 day", zone="Europe/Berlin"),
}


def windows(
    kind: str,
    late: str = "drop",
    lateness: str | None = None,
    emit: str = "final",
    by: str | None = None,
    idle_after: str | None = None,
) -> Flow:
    flow = Flow("windows")
    rules = Watermark(out_of_order="0 s", by=by, idle_after=idle_after)
    events = flow.stream("events", "who string, at timestamp", time="at", watermark=rules)
    table = events.window(KINDS[kind], late=late, lateness=lateness, emit=emit).agg(n="count(*)")
    flow.topic("counts", table)
    if late != "drop":
        flow.topic("late", table.late.select("at", "_reason"))
    return flow


def backlog() -> Flow:
    flow = Flow("backlog")
    events = flow.stream("events", "at timestamp", time="at", watermark=IN_ORDER)
    flow.topic("by-event-time", events.window(MINUTE).agg(n="count(*)"))
    flow.topic("by-processing-time", events.window(MINUTE, time="processing").agg(n="count(*)"))
    return flow


def devices() -> Flow:
    flow = Flow("devices")
    told = flow.stream(
        "events", "device string, occurred timestamp, sent timestamp, received timestamp"
    )
    events = told.corrected_time(
        occurred="occurred",
        sent="sent",
        received="received",
        into="at",
        max_offset="1 day",
        watermark=Watermark(out_of_order="0 s", by="device"),
    )
    # Behind the correction, rows that are left out tell of time.
    counted = events.where("device <> 'broken' or implausible_clock")
    minutes = counted.window(MINUTE, by="device").agg(n="count(*)", off=OFF)
    flow.topic("per-minute", minutes)
    most = minutes.changes().where("n > 0").window(tumbling("5 minutes"))
    flow.topic("per-five", most.agg(minutes="count(*)", most="max(n)"))
    return flow


def farewell() -> Flow:
    flow = Flow("farewell")
    rules = Watermark(out_of_order="0 s", by="who", until="if(leaves, timestamp'9999-12-31', null)")
    events = flow.stream(
        "events", "who string, at timestamp, leaves boolean", time="at", watermark=rules
    )
    flow.topic("counts", events.where("not leaves").window(MINUTE).agg(n="count(*)"))
    return flow


CLOCKS = {"backlog": backlog, "devices": devices, "farewell": farewell}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("case", golden_cases(GOLDEN / "windows.txt"), ids=str)
def test_windows(case: GoldenCase, check_golden: Callable[[GoldenCase, Callable[..., Flow]], None]):
    check_golden(case, windows)


@pytest.mark.parametrize("case", golden_cases(GOLDEN / "clocks.txt"), ids=str)
def test_clocks(case: GoldenCase, check_golden: Callable[[GoldenCase, Callable[..., Flow]], None]):
    check_golden(case, lambda flow: CLOCKS[flow]())
