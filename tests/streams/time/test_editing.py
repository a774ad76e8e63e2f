"""Edits of windows that have state: what goes on with it, and what is refused."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from headrace.streams import Flow
from headrace.streams.running import CheckpointMismatch
from headrace.streams.time import Watermark
from headrace.streams.windows import Window, hopping, tumbling
from headrace.testing import FlowHarness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)


class Edited:
    """A flow with one window, in the versions that its author writes one after the other."""

    def __init__(self, spark: "SparkSession", opened: ExitStack) -> None:
        self._spark = spark
        self._open = opened
        self._harness: FlowHarness | None = None

    def becomes(
        self,
        kind: Window | None = None,
        schema: str = "user string, n int, at timestamp",
        aggregates: dict[str, str] | None = None,
        **policy: Any,
    ) -> None:
        flow = Flow("edited", spark=self._spark)
        stream = flow.stream(
            "clicks", schema, time="at", watermark=Watermark(out_of_order=policy.pop("wait", "0 s"))
        )
        windows = stream.window(kind or tumbling("1 minute"), by="user", **policy)
        flow.topic("counts", windows.agg(**(aggregates or {"events": "count(*)"})))
        if self._harness is None:
            made = FlowHarness(flow, spark=self._spark, now="2026-01-01T10:00:00Z")
            self._harness = self._open.enter_context(made)
        else:
            self._harness.restart(flow)

    def told(self, *events: tuple[str, int | float]) -> list[tuple[Any, ...]]:
        """What a batch says: where each window begins, and what was computed."""
        assert self._harness is not None
        rows = [{"user": "ada", "n": n, "at": f"2026-01-01T{time}Z"} for time, n in events]
        self._harness.send("clicks", *rows)
        self._harness.step()
        return sorted(
            (str(row["window_start"])[11:16], *list(row.values())[3:])
            for row in self._harness.take("counts")
        )


@pytest.fixture
def edited(spark: "SparkSession") -> Iterator[Edited]:
    with ExitStack() as opened:
        yield Edited(spark, opened)


def test_an_added_aggregate_is_null_in_windows_that_were_open_and_a_removed_one_is_forgotten(
    edited: Edited,
):
    edited.becomes(aggregates={"total": "sum(n)", "events": "count(*)"})
    assert edited.told(("10:00:10", 2), ("10:01:10", 3)) == [("10:00", 2, 1)]
    # 10:01 has begun without the greatest, and keeps its count under another name.
    edited.becomes(aggregates={"seen": "count(*)", "most": "max(n)"})
    assert edited.told(("10:01:20", 9), ("10:02:10", 4)) == [("10:01", 2, None)]
    assert edited.told(("10:02:20", 5), ("10:03:10", 1)) == [("10:02", 2, 5)]
    # The total is new again: it has not seen the first event of 10:03.
    edited.becomes(aggregates={"total": "sum(n)", "most": "max(n)"})
    assert edited.told(("10:03:20", 7), ("10:04:00", 1)) == [("10:03", None, 7)]
    assert edited.told(("10:05:00", 1)) == [("10:04", 1, 1)]


def test_a_wider_type_and_another_wait_go_on(edited: Edited):
    edited.becomes(aggregates={"most": "max(n)", "total": "sum(n)"}, late="side")
    assert edited.told(("10:00:10", 2)) == []
    edited.becomes(
        schema="user string, n bigint, at timestamp",
        aggregates={"most": "max(n)", "total": "sum(n)"},
        wait="10 seconds",
    )
    assert edited.told(("10:00:20", 1 << 40), ("10:01:05", 1)) == []
    assert edited.told(("10:01:10", 1)) == [("10:00", 1 << 40, (1 << 40) + 2)]


def test_windows_that_can_change_may_speak_at_other_times_and_be_corrected_for_less_long(
    edited: Edited,
):
    edited.becomes(late="correct", lateness="5 minutes")
    assert edited.told(("10:00:10", 1)) == []
    edited.becomes(late="correct", lateness="1 minute", emit="updates")
    # What waited for its end is told now, with the next batch.
    assert edited.told(("10:01:10", 1)) == [("10:00", 1), ("10:01", 1)]
    assert edited.told(("10:00:20", 1)) == [("10:00", 2)]
    edited.becomes(late="correct", lateness="1 minute")
    assert edited.told(("10:01:20", 1)) == []
    assert edited.told(("10:02:30", 1)) == [("10:01", 2)]
    assert edited.told(("10:00:30", 1)) == []


def test_what_the_state_cannot_follow_is_refused_with_the_ways_out(edited: Edited):
    first: dict[str, Any] = {"late": "correct", "lateness": "1 minute"}
    edited.becomes(aggregates={"most": "max(n)"}, **first)
    edited.told(("10:00:10", 1))
    refused: list[tuple[dict[str, Any], str]] = [
        ({"kind": hopping("1 minute", "30 seconds"), **first}, "state of a window tumbling"),
        ({"late": "side"}, "results that are final"),
        ({**first, "lateness": "1 hour"}, "lateness was 1m 00s and is 1h 00m now"),
        ({**first, "schema": "user string, n double, at timestamp"}, "was int32 and is double"),
    ]
    for edit, said in refused:
        with pytest.raises(CheckpointMismatch, match=said) as raised:
            edited.becomes(aggregates={"most": "max(n)"}, **edit)
        assert "headrace run FILE --rebuild as NAME" in str(raised.value)
    edited.becomes(aggregates={"most": "max(n)"}, **first)
    assert edited.told(("10:01:10", 2)) == [("10:00", 1)]


def test_the_number_of_buckets_outlives_the_cores_it_was_chosen_for(
    edited: Edited, spark: "SparkSession"
):
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    assert partitions is not None
    edited.becomes()
    edited.told(("10:00:10", 1))
    try:
        spark.conf.set("spark.sql.shuffle.partitions", int(partitions) + 1)
        edited.becomes()
        assert edited.told(("10:01:10", 1)) == [("10:00", 1)]
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
