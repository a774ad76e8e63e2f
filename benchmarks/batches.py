"""Files as the batches of a streaming query: written, streamed by Spark, and timed.

The same files go to every side of a comparison, so that no source is measured with the operator.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

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
    """A directory of files, each batch of them in the order in which it was written."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._written: list[int] = []
        self._schema: Any = None
        (home / "source").mkdir()

    def write(self, rows: Any) -> None:
        """Add a batch, an Arrow table."""
        number = len(self._written)
        for part, places in enumerate(np.array_split(np.arange(rows.num_rows), _PER_BATCH)):
            path = self._home / "source" / f"{number:04}-{part}.parquet"
            pq.write_table(rows.slice(int(places[0]), len(places)), path)
            # Spark takes files in the order of their times.
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        self._written.append(rows.num_rows)
        self._schema = rows.schema

    def stream(self, spark: SparkSession) -> DataFrame:
        """All of them as a stream."""
        from pyspark.sql.pandas.types import from_arrow_schema

        source = spark.readStream.schema(from_arrow_schema(self._schema))
        source = source.option("maxFilesPerTrigger", _PER_BATCH)
        return source.parquet(str(self._home / "source"))

    def run(self, rows: DataFrame, mode: str = "update") -> list[int]:
        """Run a query over all batches into nothing, and return what each took, in milliseconds.

        Raises NothingMeasured if a batch was not read as it was written.
        """
        query = (
            rows.writeStream.format("noop")
            .outputMode(mode)
            .option("checkpointLocation", str(self._home / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        told = [each for each in query.recentProgress if each["numInputRows"]]
        if (read := [each["numInputRows"] for each in told]) != self._written:
            raise NothingMeasured(f"batches of {read} rows were read, where {self._written} were")
        return [each["durationMs"]["triggerExecution"] for each in told]


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
