"""Windows over rows that have an end, beside Spark's own and a plain computation."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from headrace.streams import Flow, InvalidFlow
from headrace.streams.compile import compile_node
from headrace.streams.plan import ReadTopics
from headrace.streams.rows import Rows
from headrace.streams.time import Watermark
from headrace.streams.windows import Window, hopping, session, sliding, tumbling
from tests.streams.time.batches import table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "k string, v bigint, at timestamp"
SECOND = 1_000_000


@dataclass(frozen=True)
class Given:
    """A connector whose rows are at hand."""

    rows: "DataFrame"

    def read(self, node: ReadTopics) -> "DataFrame":
        return self.rows

    def dead_letters(self, node: ReadTopics) -> "DataFrame":
        raise NotImplementedError


@pytest.fixture(scope="module")
def events() -> list[tuple[str, int, datetime]]:
    """Two hundred events of an hour, in no order; the same in every run."""
    chance = random.Random(6)
    times = [chance.randrange(3600 * SECOND) for _ in range(199)]
    # One at a boundary of all windows.
    times.append(600 * SECOND)
    return [
        (chance.choice("ab"), number, datetime.fromtimestamp(time / SECOND, UTC))
        for number, time in enumerate(times)
    ]


def counted(flow: Flow, kind: Window) -> Rows:
    stream = flow.stream("events", SCHEMA, time="at", watermark=Watermark(out_of_order="1 s"))
    return stream.window(kind, by="k", late="side").agg(n="count(*)", total="sum(v)")


def shown(rows: "DataFrame") -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in rows.collect())


@pytest.mark.parametrize(
    ("kind", "native"),
    [
        (tumbling("1 minute"), "window(at, '1 minute')"),
        (tumbling("1 hour", offset="7 minutes"), "window(at, '1 hour', '1 hour', '7 minutes')"),
        (hopping("5 minutes", "2 minutes"), "window(at, '5 minutes', '2 minutes')"),
        (session("30 seconds"), "session_window(at, '30 seconds')"),
        (sliding("2 minutes"), None),
    ],
    ids=str,
)
def test_bounded_windows_agree_with_sparks_own_and_with_polars(
    spark: "SparkSession", events: list[tuple[str, int, datetime]], kind: Window, native: str | None
):
    rows = spark.createDataFrame(events, SCHEMA).repartition(3)
    table = counted(Flow("bounded"), kind)
    made = compile_node(table.node, Given(rows)).where("not _deleted").drop("_deleted")
    found = shown(
        made.selectExpr("unix_micros(window_start)", "unix_micros(window_end)", "k", "n", "total")
    )
    plain = pl.DataFrame(events, ["k", "v", "at"], orient="row").with_columns(
        t=pl.col("at").dt.epoch("us"), before=pl.lit(None, pl.Int64)
    )
    offset = getattr(kind, "offset", 0)
    shifted = table_of(kind, plain.with_columns(t=pl.col("t") - offset))
    assert found == sorted((start + offset, end + offset, *rest) for start, end, *rest in shifted)
    if native is not None:
        assert found == shown(by_spark(rows, native))


def by_spark(rows: "DataFrame", window: str) -> "DataFrame":
    rows.createOrReplaceTempView("events")
    return rows.sparkSession.sql(
        f"""
        select unix_micros(w.start), unix_micros(w.end), k, n, total
        from (select {window} as w, k, count(*) as n, sum(v) as total from events group by 1, 2)
        """
    )


def test_windows_follow_windows_and_a_corrected_time_over_rows_that_have_an_end(
    spark: "SparkSession", events: list[tuple[str, int, datetime]]
):
    flow = Flow("bounded")
    told = flow.stream("events", SCHEMA).corrected_time(
        occurred="at", sent="at + interval 1 hour", received="at + interval 2 hours", into="then"
    )
    minutes = told.where("not implausible_clock").window(tumbling("1 minute")).agg(n="count(*)")
    hours = minutes.changes().window(tumbling("1 hour")).agg(all="sum(n)", most="max(n)")
    rows = spark.createDataFrame(events, SCHEMA)
    ((start, end, everything, most),) = shown(
        compile_node(hours.node, Given(rows)).drop("_deleted")
    )
    assert (start.hour, end.hour, everything) == (1, 2, len(events))
    per_minute = [each.minute for _, _, each in events]
    assert most == max(map(per_minute.count, per_minute))


def test_windows_of_processing_time_need_a_flow_that_runs():
    flow = Flow("bounded")
    stream = flow.stream("events", SCHEMA)
    table = stream.window(tumbling("1 minute"), time="processing").agg(n="count(*)")
    with pytest.raises(InvalidFlow, match="reads all of them at once"):
        flow.batch().df(table)
