"""Steps as Spark's batches: a real streaming source of which a test decides what it has and when.

All sources of a query are parts of one stream inside Spark, whose offset is the number of steps
that were added to it. So a step is one batch, whatever it has records of, and a batch that is run
again reads the same. What Spark gets are records; they become rows in the tasks, by the code that
reads them from a cluster.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.settings import KafkaSettings
from headrace.streams.connectors import options_of
from headrace.streams.plan import ReadTopics
from headrace.streams.source.options import SourceOptions, parse_options
from headrace.testing.harness.script import unpacked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NOWHERE: Final = KafkaSettings()
"""The cluster of a read that never gets there."""

_numbers = itertools.count(1)


class Feed:
    """What one query reads, step by step."""

    def __init__(self, spark: "SparkSession", tasks: int) -> None:
        self._spark = spark
        java: Any = spark.sparkContext._jvm
        self._java = java
        memory_stream = java.org.apache.spark.sql.execution.streaming.runtime.MemoryStream
        self._stream = memory_stream(
            next(_numbers),
            spark._jsparkSession,
            java.scala.Option.apply(tasks),
            java.org.apache.spark.sql.Encoders.BINARY(),
        )

    @property
    def packed(self) -> "DataFrame":
        """The stream: one row for each partition of a topic that a step has records of."""
        from pyspark.sql import DataFrame

        return DataFrame(self._stream.toDF(), self._spark)

    def add(self, step: Sequence[bytes]) -> None:
        """Let the query have its next batch."""
        rows = self._java.java.util.ArrayList()
        for packed in step:
            rows.add(bytearray(packed))
        converters = self._java.scala.jdk.javaapi.CollectionConverters
        self._stream.addData(converters.asScala(rows).toSeq())


@dataclass(frozen=True, slots=True)
class ScriptedTopics:
    """The connector of a query in a harness."""

    packed: "DataFrame"

    def read(self, node: ReadTopics) -> "DataFrame":
        """The rows of the topics that are read; of a table, its changes."""
        return self._load(options_of(node, _NOWHERE))

    def dead_letters(self, node: ReadTopics) -> "DataFrame":
        """What of them did not parse."""
        return self._load({**options_of(node, _NOWHERE), "on_error": "only"})

    def _load(self, given: dict[str, str]) -> "DataFrame":
        from headrace.streams.source.schema import judging_schema, source_schema

        options = parse_options(given)
        schema = source_schema(options)
        judging = judging_schema(options, schema)
        return self.packed.mapInArrow(_reading(options, schema, judging), schema)


def _reading(
    options: SourceOptions, schema: "StructType", judging: "StructType"
) -> "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    def read(steps: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from headrace.testing.harness.scripted_reading import ScriptedReader

        sent = [unpacked(each) for step in steps for each in step.column(0).to_pylist()]
        records = {each.range: each.records for each in sent if each.records.num_rows}
        wanted = [each for each in records if options.wants(each.partition.topic)]
        clock = max((each.clock_ms for each in sent), default=None)
        return ScriptedReader(options, schema, judging, records).read(wanted, clock)

    return read
