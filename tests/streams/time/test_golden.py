"""Every kind of window and every policy, as events in and rows out."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.streams import Flow
from headrace.streams.time import Watermark
from headrace.streams.windows import Window, hopping, session, sliding, tumbling
from headrace.testing import GoldenCase, golden_cases

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


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", golden_cases(Path(__file__).parent / "golden"), ids=str)
def test_windows(case: GoldenCase, check_golden: Callable[[GoldenCase, Callable[..., Flow]], None]):
    check_golden(case, windows)
