"""All sides of the benchmark of joins find the same: nothing is fast because it does less."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.batches import Batches
from benchmarks.joins import (
    HEADRACE,
    NATIVE,
    PER_KEY,
    Scale,
    fill_lookups,
    fill_pairs,
    fill_tables,
    lookups,
    pairs,
    table_join,
)
from headrace.streams.session import stateful_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCALE = Scale(1, 3, 200, 300, 100, 800)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def told(
    rows: "DataFrame", directory: Path, name: str, mode: str, columns: list[str]
) -> list[tuple[Any, ...]]:
    query = (
        rows.writeStream.format("memory")
        .queryName(name)
        .outputMode(mode)
        .option("checkpointLocation", str(directory / name))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [tuple(row) for row in rows.sparkSession.table(name).select(columns).collect()]


def sides(
    spark: "SparkSession",
    directory: Path,
    fill: Callable[[Batches, Scale, int], Any],
    joined: "Callable[[Batches, SparkSession, str], DataFrame]",
    columns: list[str],
    peers: tuple[str, ...] = (PER_KEY,),
) -> list[list[tuple[Any, ...]]]:
    files, session = Batches(directory), stateful_session(spark)
    fill(files, SCALE, SCALE.batches)
    return [
        told(joined(files, session, side), directory, f"side_{number}", mode, columns)
        for number, (side, mode) in enumerate(
            [(HEADRACE, "update"), *((each, "append") for each in peers)]
        )
    ]


def test_all_find_the_same_pairs(spark: "SparkSession", tmp_path: Path):
    columns = ["k", "v", "v_right", "at", "at_right"]
    times = [f"round(cast({each} as double), 3) as {each}" for each in columns[3:]]

    def joined(files: Batches, spark: "SparkSession", side: str) -> "DataFrame":
        return pairs(files, spark, side).selectExpr(*columns[:3], *times)

    ours, *others = sides(spark, tmp_path, fill_pairs, joined, columns, (NATIVE, PER_KEY))
    assert len(ours) > SCALE.pairs // 10
    assert all(Counter(each) == Counter(ours) for each in others)


def test_all_find_the_same_rows(spark: "SparkSession", tmp_path: Path):
    columns = ["k", "v", "name", "city"]
    ours, others = sides(spark, tmp_path, fill_lookups, lookups, columns)
    assert Counter(ours) == Counter(others)
    assert len(ours) == SCALE.batches * SCALE.lookups


def test_all_end_with_the_same_table(spark: "SparkSession", tmp_path: Path):
    columns = ["customer", "id", "price", "city"]
    ours, others = sides(
        spark,
        tmp_path,
        fill_tables,
        lambda files, spark, side: _now(table_join(files, spark, side), side),
        columns,
    )
    found = [{row[:2]: row[2:] for row in each} for each in (ours, others)]
    assert found[0] == found[1]
    assert len(found[0]) == SCALE.orders


def _now(rows: "DataFrame", side: str) -> "DataFrame":
    return rows.where("_change != 'update_before'") if side == HEADRACE else rows
