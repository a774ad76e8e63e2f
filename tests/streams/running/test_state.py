"""Which edits change what a query keeps between batches, and which do not."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from headrace.streams.running.state import inputs_of, output_mode, state_shape
from headrace.streams.source import register
from headrace.testing.plugin import BrokerUnderTest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Edit: TypeAlias = "Callable[[DataFrame], DataFrame]"
WATERMARK = "10 seconds"


@pytest.fixture
def rows(spark: "SparkSession") -> "Callable[[], DataFrame]":
    """The same stream, described anew each time, as a program does that is started again."""

    def read() -> "DataFrame":
        columns = ("cast(value as string) k", "cast(value as int) n", "value v", "timestamp at")
        return spark.readStream.format("rate").load().selectExpr(*columns)

    return read


def count(by: str = "k") -> Edit:
    return lambda rows: rows.groupBy(by).count()


def redefined(expression: str) -> Edit:
    from pyspark.sql.functions import expr

    return lambda rows: rows.withColumn("k", expr(expression)).groupBy("k").count()


def summed(expression: str, name: str = "s") -> Edit:
    from pyspark.sql.functions import expr

    return lambda rows: rows.groupBy("k").agg(expr(expression).alias(name))


def window(length: str, slide: str | None = None, delay: str = WATERMARK, time: str = "at") -> Edit:
    from pyspark.sql.functions import window as windows

    def counted(rows: "DataFrame") -> "DataFrame":
        timely = rows.withColumn("later", rows["at"]).withWatermark(time, delay)
        return timely.groupBy(windows(time, length, slide)).count()

    return counted


def joined(*, on: str = "k", kept: str = "n", how: str = "inner") -> Edit:
    def join(rows: "DataFrame") -> "DataFrame":
        left = rows.withWatermark("at", WATERMARK).alias("a")
        right = rows.withWatermark("at", WATERMARK).withColumnsRenamed(
            {each: f"{each}2" for each in rows.columns}
        )
        both = left.join(right, (left[on] == right[f"{on}2"]) & (left["at"] == right["at2"]), how)
        return both.select("k", kept)

    return join


def deduplicated(*columns: str) -> Edit:
    return lambda rows: rows.dropDuplicates(list(columns))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda: count("k"), lambda: count("n")),
        (lambda: count("k"), lambda: redefined("n")),
        (lambda: count("k"), lambda: lambda rows: rows.groupBy("k", "n").count()),
        (lambda: summed("sum(n)"), lambda: summed("max(n)")),
        (lambda: summed("sum(n)"), lambda: summed("sum(cast(n as double))")),
        (lambda: summed("sum(v)"), lambda: summed("sum(v) + count(n)")),
        (lambda: redefined("lower(k)"), lambda: redefined("upper(k)")),
        (lambda: window("1 minute"), lambda: window("5 minutes")),
        (lambda: window("1 minute", "30 seconds"), lambda: window("1 minute", "20 seconds")),
        (lambda: window("1 minute"), lambda: window("1 minute", time="later")),
        (lambda: deduplicated("k"), lambda: deduplicated("k", "n")),
        (lambda: deduplicated("k"), lambda: lambda rows: rows),
        (lambda: joined(on="k"), lambda: joined(on="n")),
        (lambda: joined(kept="n"), lambda: joined(kept="v")),
        (joined, lambda: joined(how="leftOuter")),
        (lambda: lambda rows: rows.limit(5), lambda: lambda rows: rows.limit(6)),
        (lambda: lambda rows: rows, lambda: count("k")),
    ],
    ids=[
        "another column to group by",
        "another type to group by",
        "one more column to group by",
        "another function",
        "another type to add up",
        "one more function",
        "another definition of a group",
        "longer windows",
        "windows that slide otherwise",
        "another column for time",
        "one more column that tells rows apart",
        "no deduplication",
        "another column to join by",
        "another column to hold back for a join",
        "another kind of join",
        "another limit",
        "state where there was none",
    ],
)
def test_an_edit_that_stored_state_cannot_follow_is_seen(
    rows: "Callable[[], DataFrame]",
    before: "Callable[[], Edit]",
    after: "Callable[[], Edit]",
):
    assert state_shape(before()(rows())) == state_shape(before()(rows()))
    assert state_shape(before()(rows())) != state_shape(after()(rows()))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda: count("k"), lambda: lambda rows: count("k")(rows.where("n > 3"))),
        (lambda: count("k"), lambda: lambda rows: count("k")(rows).selectExpr("k as key", "count")),
        (lambda: summed("sum(n)"), lambda: summed("sum(n)", "another_name")),
        (lambda: summed("sum(n)"), lambda: summed("sum(n) * 2")),
        (lambda: window("1 minute"), lambda: window("1 minute", delay="1 hour")),
        (lambda: lambda rows: rows, lambda: lambda rows: rows.selectExpr("upper(k) as k")),
    ],
    ids=["where", "select", "a name", "what is made of it", "delay of the watermark", "stateless"],
)
def test_an_edit_that_changes_no_state_is_fine(
    rows: "Callable[[], DataFrame]",
    before: "Callable[[], Edit]",
    after: "Callable[[], Edit]",
):
    assert state_shape(before()(rows())) == state_shape(after()(rows()))


def test_operators_in_python_are_told_by_their_keys_and_state(rows: "Callable[[], DataFrame]"):
    def keep(key: Any, parts: Any, state: Any) -> Any:
        return parts

    def kept(by: str, state: str, *more: str) -> tuple[str, ...]:
        grouped = rows().selectExpr("k", "n", *more).groupBy(by)
        found = grouped.applyInPandasWithState(keep, "k string", state, "append", "NoTimeout")
        return state_shape(found)

    assert kept("k", "total int") == kept("k", "total int", "v")
    assert kept("k", "total int") != kept("n", "total int")
    assert kept("k", "total int") != kept("k", "total long")


def test_sources_are_told_in_the_order_of_their_numbers(
    spark: "SparkSession", headrace_broker: BrokerUnderTest
):
    register(spark)
    reader = spark.readStream.format("headrace").option("bootstrap", headrace_broker.bootstrap)
    first, second = (reader.option("topics", each).load() for each in "ab")
    assert inputs_of(first.union(second)) == ("a", "b")
    assert inputs_of(second.union(first)) == ("b", "a")
    assert inputs_of(first.union(first)) == ("a", "a")


def test_aggregates_are_handed_over_as_they_change(rows: "Callable[[], DataFrame]"):
    assert output_mode(state_shape(count()(rows()))) == "update"
    assert output_mode(state_shape(joined()(rows()))) == "append"
    assert output_mode(state_shape(rows())) == "append"
