"""Windows of flows, step by step."""

from typing import TYPE_CHECKING, Any

import pytest

from headrace.streams import Flow, InvalidFlow, Stream
from headrace.streams.time import Watermark
from headrace.streams.windows import hopping, session, sliding, tumbling
from headrace.testing import FlowHarness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "user string, n int, at timestamp"


def clicks(flow: Flow, **rules: Any) -> Stream:
    given = {"out_of_order": "0 s"} | rules
    return flow.stream("clicks", SCHEMA, time="at", watermark=Watermark(**given))


def click(time: str, user: str = "ada", n: int = 1) -> dict[str, Any]:
    return {"user": user, "n": n, "at": f"2026-01-01T{time}Z"}


def told(harness: FlowHarness, output: str = "counts") -> list[tuple[Any, ...]]:
    """New rows: the window without its date, then the rest."""
    return sorted(
        tuple(
            str(value)[11:19] if name.startswith("window_") else value
            for name, value in row.items()
        )
        for row in harness.take(output)
    )


@pytest.mark.timeout(600)
def test_results_late_rows_and_corrections_are_one_query(spark: "SparkSession"):
    flow = Flow("timely", spark=spark)
    stream = clicks(flow, idle_after="1 minute").where("n > 0")
    counts = stream.window(
        tumbling("1 minute"), by="user", late="correct", lateness="2 minutes"
    ).agg(events="count(*)", mean="sum(n) / count(*)")
    flow.topic("counts", counts)
    flow.topic("late", counts.late, key="user")
    flow.topic("changes", counts.changes())
    with FlowHarness(flow, spark=spark, now="2026-01-01T10:00:00Z") as harness:
        harness.send("clicks", click("10:00:10"), click("10:00:50", n=3), click("10:01:10"))
        harness.step()
        assert told(harness) == [("10:00:00", "10:01:00", "ada", 2, 2.0)]
        # A row that is left out tells of time all the same, and a straggler corrects.
        harness.send("clicks", click("10:02:30", n=0), click("10:00:20", n=5))
        harness.kill(after="first commit")
        harness.restart()
        assert told(harness) == [
            ("10:00:00", "10:01:00", "ada", 3, 3.0),
            ("10:01:00", "10:02:00", "ada", 1, 1.0),
        ]
        assert [row["_change"] for row in harness.take("changes")] == [
            "insert",
            "insert",
            "update_before",
            "update_after",
        ]
        assert harness.take("late") == []
        # What is later than that goes to its own stream, and silence closes the last window.
        harness.send("clicks", click("10:05:00"), click("10:05:10"))
        harness.step()
        harness.send("clicks", click("10:00:30", n=7))
        harness.step()
        (late,) = harness.take("late")
        assert (late["n"], late["_reason"]) == (7, "late")
        assert told(harness) == []
        harness.advance("1 minute")
        harness.step()
        assert told(harness) == [("10:05:00", "10:06:00", "ada", 2, 1.0)]


def test_what_makes_no_sense_is_refused():
    flow = Flow("timely")
    with pytest.raises(InvalidFlow, match="which column that is"):
        flow.stream("clicks", SCHEMA, watermark=Watermark())
    with pytest.raises(InvalidFlow, match="when things happened"):
        flow.stream("clicks", SCHEMA).window(tumbling("1 minute")).agg(n="count(*)")
    windows = clicks(flow).window(tumbling("1 minute"), by="user").agg(n="count(*)")
    with pytest.raises(InvalidFlow, match='late="side"'):
        _ = windows.late
    late = clicks(flow).window(tumbling("1 minute"), late="side").agg(n="count(*)").late
    with pytest.raises(InvalidFlow, match="in no order of time"):
        late.window(session("1 minute")).agg(n="count(*)")
    with pytest.raises(InvalidFlow, match="not read but made"):
        windows.changes().window(session("1 minute"), time="processing").agg(n="count(*)")
    with pytest.raises(InvalidFlow, match='no sense with time="processing"'):
        clicks(flow).window(tumbling("1 minute"), late="side", time="processing")
    with pytest.raises(InvalidFlow, match="processing"):
        clicks(flow).window(tumbling("1 minute"), time="wall")
    with pytest.raises(InvalidFlow, match="no column usr"):
        clicks(flow).window(sliding("1 minute"), by="usr")
    with pytest.raises(InvalidFlow, match="already"):
        clicks(flow).window(hopping("2 minutes", "1 minute")).agg(window_end="count(*)")


def test_a_correction_that_makes_no_sense_is_refused():
    flow = Flow("timely")
    clocks: dict[str, Any] = {"occurred": "at", "sent": "at", "received": "at", "into": "then"}
    with pytest.raises(InvalidFlow, match="no column att"):
        clicks(flow).corrected_time(**{**clocks, "sent": "att"})
    with pytest.raises(InvalidFlow, match="max_offset"):
        clicks(flow).corrected_time(**clocks, max_offset="0 s")
    with pytest.raises(InvalidFlow, match="implausible"):
        clicks(flow).corrected_time(**clocks, implausible="drop")
    with pytest.raises(InvalidFlow, match="both named then"):
        clicks(flow).corrected_time(**clocks, flag="then")
    with pytest.raises(InvalidFlow, match="cannot follow pipe"):
        clicks(flow).pipe(lambda rows: rows).corrected_time(**clocks)
    with pytest.raises(InvalidFlow, match="no column device"):
        clicks(flow).corrected_time(**clocks, watermark=Watermark(by="device"))
    corrected = clicks(flow).corrected_time(**clocks)
    with pytest.raises(InvalidFlow, match="nobody would count"):
        flow.topic("quick", corrected, trigger="realtime")


def test_a_drawing_shows_windows():
    flow = Flow("timely")
    windows = clicks(flow).window(tumbling("1 minute"), by="user", late="side").agg(n="count(*)")
    flow.topic("counts", windows)
    flow.topic("late", windows.late)
    assert "window tumbling 1 minute  by user, n = count(*), late side, final" in str(flow)
    by_clock = clicks(flow).window(tumbling("1 minute"), time="processing").agg(n="count(*)")
    assert "window tumbling 1 minute of processing time  n = count(*)" in str(by_clock)
    told = clicks(flow).corrected_time(occurred="at", sent="at", received="at", into="then")
    assert "corrected_time  then = at + at - at" in str(told)
