"""A spike that never was: `python -m examples.event_time`.

A shop has a click every ten seconds. The program that counts them is down from the third minute to
the fifth, and reads those minutes at once when it is back. Who counts by the clock of that program
sees a silence and then a spike; who counts by the time that every click has in itself sees what
happened. One click was made in a tunnel and arrives minutes later: it corrects the minute that it
belongs to, which by the clock of the program it would never have been in.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from headrace.streams import Flow
from headrace.streams.time import Watermark
from headrace.streams.windows import tumbling
from headrace.testing import FlowHarness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTES: Final = 7
DOWN: Final = range(2, 5)
"""The minutes in which nothing is read."""

LATE: Final = START + timedelta(minutes=1, seconds=35)
"""The click in the tunnel, which arrives at the end."""

Counts = dict[str, int]
"""Clicks by the minute."""


def clicks_per_minute() -> Flow:
    """The same count, by both clocks."""
    flow = Flow("clicks")
    clicks = flow.stream(
        "clicks",
        "at timestamp",
        time="at",
        watermark=Watermark(out_of_order="10 seconds", idle_after="30 seconds"),
    )
    minutes = tumbling("1 minute")
    by_event = clicks.window(minutes, late="correct", lateness="10 minutes").agg(clicks="count(*)")
    by_processor = clicks.window(minutes, time="processing").agg(clicks="count(*)")
    flow.topic("by-event-time", by_event)
    flow.topic("by-processing-time", by_processor)
    return flow


def clicks_of(minute: int) -> Iterator[dict[str, datetime]]:
    """A click every ten seconds."""
    for second in range(0, 60, 10):
        yield {"at": START + timedelta(minutes=minute, seconds=second)}


def play(spark: "SparkSession | None" = None) -> tuple[Counts, Counts]:
    """What is counted by event time, and what by processing time."""
    with FlowHarness(clicks_per_minute(), spark=spark, now=START.isoformat()) as harness:
        for minute in range(MINUTES):
            harness.send("clicks", *clicks_of(minute))
            if minute == MINUTES - 1:
                harness.send("clicks", {"at": LATE})
            if minute not in DOWN:
                harness.step()
            harness.advance("1 minute")
        harness.step()
        harness.advance("1 minute")
        harness.step()
        return _counted(harness, "by-event-time"), _counted(harness, "by-processing-time")


def _counted(harness: FlowHarness, output: str) -> Counts:
    """The last that was said of each minute; nothing is said of one in which nothing happened."""
    return {row["window_start"][11:16]: row["clicks"] for row in harness.rows(output)}


def main() -> None:
    """Show both."""
    by_event, by_processor = play()
    print(f"{'minute':8}{'event time':>12}{'processing time':>18}")
    for minute in sorted(by_event | by_processor):
        print(f"{minute:8}{by_event.get(minute, 0):12}{by_processor.get(minute, 0):18}")


if __name__ == "__main__":
    main()
