"""Files as the batches of a streaming query: written, streamed by Spark, and timed.

The same files go to every side of a comparison, so that no source is measured with the operator.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.experiment import NothingMeasured
from headrace.settings import StreamsSettings
from headrace.streams.session import spark_session, stateful_session, stop_session

_PER_BATCH = 2
"""Files of a batch, one for each core."""


@contextlib.contextmanager
def session() -> Iterator[SparkSession]:
    """A session on two cores, set up as for the state of flows; it stops when the block ends."""
    try:
        yield stateful_session(spark_session(StreamsSettings(master="local[2]"), name="benchmark"))
    finally:
        stop_session()


class Batches:
    """A directory of files, of one source of rows or several, as the batches of one query."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._written: dict[str, list[int]] = {}
        self._schemas: dict[str, Any] = {}

    def write(self, rows: Any, source: str = "events") -> None:
        """Add a batch of a source, an Arrow table; those that were written first are read first."""
        number = len(self._written.setdefault(source, []))
        (self._home / source).mkdir(exist_ok=True)
        for part, places in enumerate(np.array_split(np.arange(rows.num_rows), _PER_BATCH)):
            path = self._home / source / f"{number:04}-{part}.parquet"
            pq.write_table(rows.slice(int(places[0]), len(places)), path)
            # Spark takes files in the order of their times.
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        self._written[source].append(rows.num_rows)
        self._schemas[source] = rows.schema

    def stream(self, spark: SparkSession, source: str = "events") -> DataFrame:
        """All batches of a source as a stream."""
        from pyspark.sql.pandas.types import from_arrow_schema

        reader = spark.readStream.schema(from_arrow_schema(self._schemas[source]))
        reader = reader.option("maxFilesPerTrigger", _PER_BATCH)
        return reader.parquet(str(self._home / source))

    def run(self, rows: DataFrame, mode: str = "update") -> list[int]:
        """Run a query over all batches into nothing, and return what each took, in milliseconds.

        Raises NothingMeasured if a batch was not read as it was written.
        """
        query = self._finished(rows.writeStream.format("noop").outputMode(mode))
        told = [each for each in query.recentProgress if each["numInputRows"]]
        written = [sum(each) for each in zip_longest(*self._written.values(), fillvalue=0)]
        if (read := [each["numInputRows"] for each in told]) != written:
            raise NothingMeasured(f"batches of {read} rows were read, where {written} were")
        return [each["durationMs"]["triggerExecution"] for each in told]

    def each(self, rows: DataFrame, apply: Callable[[DataFrame, int], None]) -> None:
        """Run a query over all batches into a function, which is given each and its number."""
        self._finished(rows.writeStream.foreachBatch(apply).outputMode("update"))

    def _finished(self, writer: DataStreamWriter) -> StreamingQuery:
        checkpoint = str(self._home / "checkpoint")
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query = writer.start()
        query.awaitTermination()
        return query


@contextlib.contextmanager
def batches() -> Iterator[Batches]:
    """An empty directory, which is deleted when the block ends."""
    with tempfile.TemporaryDirectory(prefix="headrace-batches-") as name:
        yield Batches(Path(name))


def rate(rows: int, milliseconds: list[int]) -> float:
    """Rows per second of batches of that many rows each, without the first one."""
    later = milliseconds[1:]
    return rows * len(later) / sum(later) * 1000


def keys_of(number: int, rows: int, keys: int) -> "pa.Array":
    """The keys of a batch: all of them equally often, in an order that looks like none."""
    return pa.array(np.arange(number, number + rows, dtype=np.int64) * 7919 % keys)
