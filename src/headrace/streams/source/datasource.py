"""The source as Spark sees it: `spark.read.format("headrace")`, and `readStream`.

Spark pickles these objects to wherever it needs them: the driver's planner process, and every task.
Each makes its own connections there.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from headrace.kafka.connection import connect
from headrace.streams.source.offsets import SourceOffsets
from headrace.streams.source.options import SourceOptions, parse_options
from headrace.streams.source.planner import Planner, tasks_between
from headrace.streams.source.progress import Progress
from headrace.streams.source.schema import judging_schema, source_schema
from headrace.streams.source.splits import Range

if TYPE_CHECKING:
    import pyarrow as pa


class HeadraceDataSource(DataSource):
    """Topics of any Kafka-speaking cluster as rows; docs/spark-source.md lists the options."""

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return "headrace"

    def schema(self) -> StructType:
        """The format's columns and the included ones, where no schema was given to Spark."""
        return source_schema(parse_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        return BoundedReader(parse_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """For `spark.readStream`."""
        return StreamReader(parse_options(self.options), schema)


class Task(InputPartition):
    """What one task reads, and what time it is in its batch."""

    def __init__(self, ranges: tuple[Range, ...], clock: int | None = None) -> None:
        super().__init__(ranges)
        self.ranges = ranges
        self.clock = clock


class BoundedReader(DataSourceReader):
    """Reads from one bound to the other, once."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._judging = judging_schema(options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks."""
        # Spark takes a list without tasks for a single one without a range.
        return [Task(ranges) for ranges in Planner(self._options).bounded()] or [Task(())]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The rows of one task."""
        return _read(self._options, self._schema, self._judging, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads batch after batch; Spark's checkpoint says where it has got to."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._judging = judging_schema(options, schema)

    @cached_property
    def _planner(self) -> Planner:
        return Planner(self._options)

    @cached_property
    def _progress(self) -> Progress | None:
        group = self._options.group
        return None if group is None else Progress(connect(self._options.kafka), group)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a query without a checkpoint begins."""
        return self._planner.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What one batch may read at most."""
        most = self._options.max_records_per_batch
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch. Spark asks when the batch before is done."""
        begin = SourceOffsets.from_json(start)
        if self._progress is not None:
            self._progress.tell(begin.offsets)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = self._planner.next(begin, most)
        return start if end is begin else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Where partitions end, for those who look at a query's progress."""
        return SourceOffsets(self._planner.latest_seen).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read what is there now and then stop."""
        self._planner.stop_at_latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch: the same offsets give the same tasks, always."""
        last = SourceOffsets.from_json(end)
        between = tasks_between(SourceOffsets.from_json(start), last)
        # Without records there is still the time to be told.
        if last.clock is not None and not between:
            return [Task((), last.clock)]
        return [Task(ranges, last.clock) for ranges in between]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The rows of one task."""
        return _read(self._options, self._schema, self._judging, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark will never ask for what lies before `end` again."""
        if self._progress is not None:
            self._progress.tell(SourceOffsets.from_json(end).offsets)

    def stop(self) -> None:
        """The query is over."""
        if self._progress is not None:
            self._progress.close()


def _read(
    options: SourceOptions, schema: StructType, judging: StructType, partition: InputPartition
) -> "Iterator[pa.RecordBatch]":
    from headrace.streams.source.reading import TaskReader

    assert isinstance(partition, Task)
    return TaskReader(options, schema, judging).read(partition.ranges, partition.clock)
