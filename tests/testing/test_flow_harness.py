"""The harness: batches, crashes and the clock are the test's, everything else is the flow's."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from headrace.streams import Flow
from headrace.streams.running import CheckpointMismatch
from headrace.testing import FlowHarness, KillPoint
from headrace.testing.harness.errors import (
    FlowDied,
    HarnessClosed,
    HarnessError,
    InvalidEvent,
    StepFailed,
    UnknownTopicOrOutput,
)
from tests.testing.shop import counted_orders, customers, large_orders, payments

OpenHarness = Callable[..., FlowHarness]

ADA = {"customer": "ada", "price": 250.0, "at": "2026-11-15T08:00:00Z"}
BOB = {"customer": "bob", "price": 12.5, "at": "2026-11-15T08:00:01Z"}
EVE = {"customer": "eve", "price": 310.0, "at": datetime(2026, 11, 15, 8, 0, 2, tzinfo=UTC)}


def test_each_step_reads_what_was_sent_since_the_last(flow_harness: OpenHarness):
    harness = flow_harness(large_orders())
    harness.send("orders", ADA, BOB)
    assert harness.rows("large-orders") == []
    harness.step()
    assert harness.take("large-orders") == [{"customer": "ada", "price": 250.0}]
    harness.send("orders", EVE)
    harness.send("orders", ADA)
    harness.step()
    assert harness.take("large-orders") == [
        {"customer": "eve", "price": 310.0},
        {"customer": "ada", "price": 250.0},
    ]
    assert harness.take("large-orders") == []
    assert len(harness.rows("large-orders")) == 3


def test_batches_are_cut_where_the_test_cuts_them(flow_harness: OpenHarness):
    harness = flow_harness(counted_orders())
    for _ in range(2):
        harness.send("orders", {"customer": "ada", "price": 1.0})
    harness.step()
    assert harness.take("counts") == [{"customer": "ada", "count": 2}]
    for _ in range(2):
        harness.send("orders", {"customer": "ada", "price": 1.0})
        harness.step()
    assert harness.take("counts") == [
        {"customer": "ada", "count": 3},
        {"customer": "ada", "count": 4},
    ]
    assert harness.rows("prices") == [{"price": 1.0}] * 4


def test_sources_of_one_query_advance_together(flow_harness: OpenHarness):
    harness = flow_harness(payments())
    harness.send("orders", {"id": 1, "price": 5.0}, {"id": 2, "price": 7.0})
    harness.send("payments", {"order_id": 2, "amount": 7.5})
    harness.step()
    assert harness.take("paid") == [{"id": 2, "price": 7.0, "amount": 7.5}]
    harness.send("payments", {"order_id": 1, "amount": 5.5})
    harness.step()
    assert harness.take("paid") == [{"id": 1, "price": 5.0, "amount": 5.5}]


def test_records_that_do_not_parse_are_dead_letters(flow_harness: OpenHarness):
    harness = flow_harness(large_orders())
    harness.send("orders", ADA, b"{broken", {"customer": "eve", "price": "much"}, partition=2)
    harness.step()
    assert harness.rows("large-orders") == [{"customer": "ada", "price": 250.0}]
    (broken, *_) = harness.rows("broken-orders")
    assert broken["value"] == "{broken"
    assert (broken["topic"], broken["partition"], broken["offset"]) == ("orders", 2, 1)
    assert broken["reason"]
    (record, *_) = harness.records("broken-orders.dead-letters")
    assert record.value == b"{broken"


def test_a_table_is_its_changes(flow_harness: OpenHarness):
    harness = flow_harness(customers())
    harness.send("users", {"id": 1, "name": "ada", "age": 36}, {"id": 2, "name": "bo", "age": 7})
    harness.step()
    assert harness.take("grown-up") == [{"id": 1, "name": "ada"}, {"id": 2, "_deleted": True}]
    harness.send("users", None, key=1)
    harness.step()
    (gone,) = harness.take_records("grown-up")
    assert (gone.key, gone.value, gone.deleted) == (b"1", None, True)
    assert harness.rows("grown-up")[-1] == {"id": 1, "_deleted": True}


def test_records_have_what_the_flow_says_and_the_time_of_the_clock(flow_harness: OpenHarness):
    flow = Flow("copies")
    copied = flow.stream(
        "in", "x int", include=["partition", "offset", "timestamp", "key", "headers"]
    ).select("x", "_partition", "_offset", "_timestamp", "_key", "_headers")
    flow.topic(
        "out",
        copied.select("x", "_partition", "_offset", "_timestamp"),
        key="x",
        headers={"twice": "2 * x"},
        topic="case when x = 2 then 'other' end",
        partitions=4,
    )
    harness = flow_harness(flow, now="2026-05-01T00:00:00Z")
    harness.send("in", {"x": 1}, key="k", headers={"h": "v"}, partition=1, offset=7)
    harness.advance("10 seconds")
    harness.send("in", {"x": 2}, timestamp="2026-01-01T00:00:00Z")
    harness.step()
    two, one = harness.records("out")
    assert (one.key, one.headers, one.topic) == (b"1", {"twice": b"2"}, "out")
    assert one.timestamp == datetime(2026, 5, 1, 0, 0, 10, tzinfo=UTC)
    assert one.partition != two.partition
    assert two.topic == "other"
    assert harness.rows("other") == [
        {"x": 2, "_partition": 0, "_offset": 0, "_timestamp": "2026-01-01T00:00:00.000000Z"}
    ]
    assert harness.rows("out")[1] == {
        "x": 1,
        "_partition": 1,
        "_offset": 7,
        "_timestamp": "2026-05-01T00:00:00.000000Z",
    }


def play(harness: FlowHarness, kill: KillPoint | None, *outputs: str) -> dict[str, list[object]]:
    """Three steps, with a crash in the second one or none."""
    for number in range(3):
        for customer in ("ada", "bob", "eve"):
            row = {"customer": customer, "price": 100.0 + number}
            harness.send("orders", row, partition=len(customer + str(number)) % 2)
            harness.send("orders", row, partition=1)
        if number == 1 and kill is not None:
            harness.kill(after=kill)
            harness.restart()
        else:
            harness.step()
    return {
        each: sorted((tuple(row.items()) for row in harness.rows(each)), key=str)
        for each in outputs
    }


@pytest.mark.timeout(600)
def test_a_crash_anywhere_changes_nothing_in_the_output(flow_harness: OpenHarness):
    outputs = ("counts", "prices")
    undisturbed = play(flow_harness(counted_orders(), tasks=2), None, *outputs)
    assert [len(rows) for rows in undisturbed.values()] == [9, 18]
    for point in KillPoint:
        with_crash = play(flow_harness(renamed(point), tasks=2), point, *outputs)
        assert with_crash == undisturbed, point


def renamed(point: KillPoint) -> Flow:
    return counted_orders(f"counts-{point.replace(' ', '-')}")


def test_what_is_visible_after_a_crash_depends_on_its_point(flow_harness: OpenHarness):
    harness = flow_harness(large_orders(), tasks=2)
    seen = {}
    for point in KillPoint:
        harness.send("orders", ADA, partition=0)
        harness.send("orders", EVE, partition=1)
        harness.kill(after=point)
        seen[str(point)] = len(harness.take("large-orders"))
        harness.restart()
        harness.take("large-orders")
    assert seen == {"read": 0, "write": 0, "first commit": 1, "sink commit": 2, "commit": 2}
    assert len(harness.rows("large-orders")) == 10


def test_a_killed_flow_waits_for_its_restart_and_goes_on(flow_harness: OpenHarness):
    harness = flow_harness(counted_orders())
    harness.send("orders", {"customer": "ada", "price": 1.0})
    harness.step()
    harness.kill()
    harness.send("orders", {"customer": "ada", "price": 1.0})
    with pytest.raises(FlowDied, match=r"was killed; call harness.restart\(\)"):
        harness.step()
    harness.restart()
    assert len(harness.take("counts")) == 1
    assert harness.run() == 1
    assert harness.take("counts") == [{"customer": "ada", "count": 2}]


def test_an_edit_is_tried_on_what_is_stored(flow_harness: OpenHarness):
    harness = flow_harness(large_orders())
    harness.send("orders", BOB)
    harness.step()
    harness.restart(large_orders("10"))
    harness.send("orders", BOB)
    harness.step()
    assert harness.rows("large-orders") == [{"customer": "bob", "price": 12.5}]
    other = Flow("shop")
    other.topic(
        "large-orders", other.stream("sales", "customer string", dead_letters="broken-orders")
    )
    with pytest.raises(CheckpointMismatch, match="reads sales as json now"):
        harness.restart(other)


def test_a_failing_flow_says_which_record_it_was(flow_harness: OpenHarness):
    flow = Flow("strict")
    flow.topic("out", flow.stream("in", "x int"))
    harness = flow_harness(flow)
    harness.send("in", {"x": 1}, {"x": "one"})
    with pytest.raises(StepFailed, match=r"strict.out failed: The record at offset 1 of in"):
        harness.step()
    with pytest.raises(FlowDied, match="has failed"):
        harness.step()


def test_what_a_flow_writes_to_a_topic_that_it_reads_is_read(flow_harness: OpenHarness):
    flow = Flow("chain")
    flow.topic("doubled", flow.stream("numbers", "x int").select("2 * x as x"))
    flow.topic("final", flow.stream("doubled", "x int").select("x + 1 as x"))
    harness = flow_harness(flow)
    harness.send("numbers", {"x": 5})
    assert harness.run() == 2
    assert harness.rows("final") == [{"x": 11}]


class TestWrongUse:
    def test_topics_and_outputs_are_suggested(self, flow_harness: OpenHarness):
        harness = flow_harness(large_orders())
        with pytest.raises(UnknownTopicOrOutput, match=r"did you mean orders\?"):
            harness.send("order", ADA)
        with pytest.raises(UnknownTopicOrOutput, match=r"did you mean large-orders\?"):
            harness.rows("large-order")
        with pytest.raises(HarnessError, match=r"did you mean write\?"):
            harness.kill(after="writ")
        with pytest.raises(HarnessError, match="is not a duration"):
            harness.advance("a while")
        with pytest.raises(InvalidEvent, match=r"Event 2 of 2 for .*offset 1.* did you mean price"):
            harness.send("orders", ADA, {"prise": 1.0})
        with pytest.raises(InvalidEvent, match="is 7; send a row as a dict"):
            harness.send("orders", 7)  # type: ignore[arg-type]
        harness.send("orders", ADA, offset=5)
        with pytest.raises(InvalidEvent, match="is at offset 6 already"):
            harness.send("orders", ADA, offset=5)

    def test_a_closed_harness_says_so(self):
        harness = FlowHarness(large_orders())
        with pytest.raises(HarnessClosed, match="is not open"):
            harness.send("orders", ADA)
        with pytest.raises(HarnessClosed, match="is not open"):
            harness.rows("large-orders")
