"""Windows over events that arrive batch by batch and out of order, beside those of Spark itself.

Both are told the same: that events are at most ten seconds out of order. Then both leave out the
same late events, too, but for sessions. Spark begins a session of its own with an event that comes
when its session has been told already; here that event is late. So sessions are compared where
nothing is late.
"""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.streams import Flow
from headrace.streams.time import Watermark
from headrace.streams.windows import Window, hopping, session, tumbling
from headrace.testing import FlowHarness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SCHEMA = "k string, v bigint, at timestamp"
BEGIN = datetime(2026, 1, 1, 10, tzinfo=UTC)
OUT_OF_ORDER = 10.0

Batches = list[list[dict[str, Any]]]


@pytest.mark.parametrize(
    ("kind", "native", "late"),
    [
        (tumbling("20 s", offset="7 s"), "window(at, '20 seconds', '20 seconds', '7 seconds')", 60),
        (hopping("25 s", "10 s"), "window(at, '25 seconds', '10 seconds')", 60),
        (session("3 s"), "session_window(at, '3 seconds')", 0),
    ],
    ids=str,
)
def test_windows_of_a_stream_agree_with_sparks_own(
    spark: "SparkSession", tmp_path: Path, kind: Window, native: str, late: int
):
    batches = events(late)
    ours, left_out = by_headrace(spark, kind, batches)
    assert ours == by_spark(spark, native, batches, tmp_path)
    assert sum(row[3] for row in ours)
    assert bool(left_out) == bool(late)


def events(late: int) -> Batches:
    """Six batches, twenty seconds apart; a tenth of the events may come up to `late` too late."""
    chance = random.Random(late)
    numbers = iter(range(1000))

    def event(second: float) -> dict[str, Any]:
        at = (BEGIN + timedelta(seconds=round(second, 3))).isoformat()
        return {"k": chance.choice("ab"), "v": next(numbers), "at": at}

    def delay() -> float:
        if late and chance.random() < 0.1:
            return chance.uniform(2 * OUT_OF_ORDER, late)
        return chance.uniform(0, OUT_OF_ORDER)

    batches = [
        # The first of each is in time, so that both know how far time has come.
        [event(20 * number), *(event(20 * number - delay()) for _ in range(15))]
        for number in range(1, 7)
    ]
    return [*batches, [event(3600)]]


def by_headrace(
    spark: "SparkSession", kind: Window, batches: Batches
) -> tuple[list[tuple[Any, ...]], int]:
    """The rows, and how many events were too late for all their windows."""
    flow = Flow("beside")
    rules = Watermark(out_of_order=f"{OUT_OF_ORDER} s")
    stream = flow.stream("events", SCHEMA, time="at", watermark=rules)
    table = stream.window(kind, by="k", late="side").agg(n="count(*)", total="sum(v)")
    flow.topic("counts", table)
    flow.topic("late", table.late)
    with FlowHarness(flow, spark=spark) as harness:
        for each in batches:
            harness.send("events", *each)
            harness.step()
        rows = harness.rows("counts")
        late = len(harness.rows("late"))
    return sorted(
        (moment(row["window_start"]), moment(row["window_end"]), row["k"], row["n"], row["total"])
        for row in rows
    ), late


def by_spark(
    spark: "SparkSession", window: str, batches: Batches, home: Path
) -> list[tuple[Any, ...]]:
    source, results = home / "source", home / "results"
    source.mkdir()
    rows = spark.readStream.schema(SCHEMA).json(str(source))
    delay = f"{OUT_OF_ORDER:.0f} seconds"
    counted = (
        rows.withWatermark("at", delay)
        .selectExpr("*", f"{window} as w")
        .groupBy("w", "k")
        .agg({"*": "count", "v": "sum"})
        .selectExpr("w.start", "w.end", "k", "`count(1)` as n", "`sum(v)` as total")
    )
    query = (
        counted.writeStream.format("parquet")
        .option("checkpointLocation", str(home / "checkpoint"))
        .start(str(results))
    )
    try:
        for number, batch in enumerate(batches):
            written = home / f"{number}.json"
            written.write_text("\n".join(map(json.dumps, batch)))
            written.rename(source / written.name)
            # Events are late by the time of the batch before, which Spark has to know by then.
            query.processAllAvailable()
    finally:
        query.stop()
    found = spark.read.parquet(str(results)).selectExpr(
        "date_format(start, 'HH:mm:ss.SSS')", "date_format(end, 'HH:mm:ss.SSS')", "k", "n", "total"
    )
    return sorted(tuple(row) for row in found.collect())


def moment(text: str) -> str:
    return datetime.fromisoformat(text).strftime("%H:%M:%S.%f")[:-3]
