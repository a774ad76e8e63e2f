"""What a streaming query does with a sink."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from headrace.streams.sinks.applying import Applied, apply, foreach_batch, partitions_of, written
from headrace.streams.sinks.contract import (
    Batch,
    Outcome,
    Overtaken,
    PartitionsChanged,
    Place,
    Written,
)
from tests.clusters import Cluster, on_one_cluster
from tests.streams.sinks.topic_target import TopicTarget, topic_sink


@dataclass(frozen=True)
class Note:
    """A sink that leaves a file per place, and finds the batch of whoever asks too old."""

    directory: Path
    outcome: Outcome = Outcome.WRITTEN

    def begin(self, batch: Batch) -> None:
        self.directory.mkdir(exist_ok=True)

    def write(self, place: Place, rows: Iterator[pa.RecordBatch]) -> Written:
        count = sum(batch.num_rows for batch in rows)
        name = f"{place.query}-{place.batch_id}-{place.partition}-of-{place.partitions}"
        (self.directory / name).write_text(str(count))
        return Written(self.outcome, count, 10 * count)


def numbers(spark: SparkSession, count: int, partitions: int) -> DataFrame:
    """Records with the numbers below `count`."""
    rows = spark.range(0, count, 1, partitions)
    return rows.selectExpr("cast(id as string) key", "cast(id as string) value")


def test_every_partition_is_written_and_counted(spark: SparkSession, tmp_path: Path):
    rows = numbers(spark, 100, 3)
    batch = Batch("q", 7, partitions_of(rows))
    sink = Note(tmp_path / "notes")
    applied = apply(sink, batch, written(rows, sink))
    assert applied == Applied(Batch("q", 7, 3), rows=100, bytes=1000, repeated=0)
    notes = {path.name: int(path.read_text()) for path in (tmp_path / "notes").iterdir()}
    assert sum(notes.values()) == 100
    assert sorted(notes) == [f"q-7-{partition}-of-3" for partition in range(3)]


def test_a_driver_whose_time_is_over_learns_of_it(spark: SparkSession, tmp_path: Path):
    sink = Note(tmp_path, Outcome.OVERTAKEN)
    with pytest.raises(Overtaken, match="q is at batch 7"):
        apply(sink, Batch("q", 7, 1), written(numbers(spark, 10, 1), sink))


def test_a_batch_that_comes_again_writes_nothing(
    spark: SparkSession, cluster: Cluster, fresh_name: str
):
    target = TopicTarget(topic_sink(cluster, fresh_name))
    # More rows than a task reads at once: one that knows the batch does not ask for the rest.
    rows = numbers(spark, 50_000, 2)
    batch = Batch(fresh_name, 0, 2)
    places = written(rows, target.sink)
    assert apply(target.sink, batch, places).rows == 50_000
    again = apply(target.sink, batch, places)
    assert (again.rows, again.repeated) == (0, 2)
    assert sorted(target.seen()) == list(range(50_000))


@on_one_cluster
def test_a_query_goes_on_after_a_stop_and_starts_anew_with_another_checkpoint(
    spark: SparkSession, cluster: Cluster, fresh_name: str, tmp_path: Path
):
    target = TopicTarget(topic_sink(cluster, fresh_name))
    told: list[Applied] = []

    def run(checkpoint: str) -> None:
        source = spark.readStream.format("rate-micro-batch").options(
            rowsPerBatch=10, numPartitions=2, startTimestamp=0
        )
        rows = source.load().selectExpr("cast(value as string) key", "cast(value as string) value")
        writer = written(rows, target.sink).writeStream.foreachBatch(
            foreach_batch(target.sink, fresh_name, told.append)
        )
        query = writer.option("checkpointLocation", str(tmp_path / checkpoint)).start()
        before = len(told)
        try:
            while len(told) < before + 2 and query.isActive:
                query.awaitTermination(1)
            assert len(told) >= before + 2, query.exception()
        finally:
            query.stop()

    run("a")
    run("a")
    first = sorted(target.seen())
    assert first == list(range(len(first)))
    assert len(first) >= 40
    queries = {applied.batch.query for applied in told}
    assert len(queries) == 1
    assert {applied.batch.partitions for applied in told} == {2}
    run("b")
    assert {applied.batch.query for applied in told} > queries
    assert sorted(target.seen())[:4] == [0, 0, 1, 1]


@on_one_cluster
def test_what_a_sink_refuses_stops_the_query(
    spark: SparkSession, cluster: Cluster, fresh_name: str, tmp_path: Path
):
    sink = topic_sink(cluster, fresh_name)

    def refuse(places: DataFrame, batch_id: int) -> None:
        apply(sink, Batch(fresh_name, batch_id, 2), places)
        apply(sink, Batch(fresh_name, batch_id, 3), places)

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    named = rows.selectExpr("cast(value as string) value")
    writer = written(named, sink).writeStream.foreachBatch(refuse)
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(StreamingQueryException, match=PartitionsChanged.__name__):
        query.awaitTermination(60)
