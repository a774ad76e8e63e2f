"""Between Spark's `transformWithState` and a bucket: blobs in, blobs out, state in its store."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from headrace.streams.state.blobs import to_blob, to_blobs
from headrace.streams.state.bucket import Applied, Bucket, Job
from headrace.streams.state.cache import copies
from headrace.streams.state.errors import StateError
from headrace.streams.state.packing import bucket_keys, empty_events, events_of
from headrace.streams.state.storage import Storage
from headrace.streams.state.watermarks import CLOCK, merged

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import (
        MapState,
        StatefulProcessorHandle,
        TimerValues,
        ValueState,
    )

RECORD = "record"
CHUNKS = "chunks"
"""What the state variables are called in Spark's store."""

STATISTICS = "_statistics"
"""The output that tells what a batch did to each bucket, and how far time has come there."""

STATISTICS_SCHEMA = pa.schema(
    [
        ("bucket", pa.int32()),
        ("found", pa.string()),
        ("version", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("expired", pa.int64()),
        ("rewritten", pa.int64()),
        ("watermark", pa.int64()),
        ("clock", pa.int64()),
        ("memory", pa.string()),
    ]
)

# As types and not as text, which every task would ask Java to parse.
_RECORD_TYPE = StructType([StructField("record", BinaryType())])
_NUMBER_TYPE = StructType([StructField("number", LongType())])
_ROWS_TYPE = StructType([StructField("rows", BinaryType())])

_QUERY = "sql.streaming.queryId"


class SparkStorage:
    """The state of one bucket in Spark's store: whichever Spark says is at hand."""

    def __init__(self, handle: "StatefulProcessorHandle") -> None:
        self._record: ValueState = handle.getValueState(RECORD, _RECORD_TYPE)
        self._chunks: MapState = handle.getMapState(CHUNKS, _NUMBER_TYPE, _ROWS_TYPE)

    def read_record(self) -> bytes | None:
        """The record, or None if the bucket has never been written."""
        stored = self._record.get()
        return None if stored is None else bytes(stored[0])

    def write_record(self, record: bytes) -> None:
        """Replace the record."""
        self._record.update((record,))

    def read_chunk(self, number: int) -> bytes:
        """A chunk that the record names."""
        stored = self._chunks.getValue((number,))
        if stored is None:
            raise StateError(
                f"Chunk {number} of a bucket is missing from Spark's store: the checkpoint is "
                "damaged. Restore it from a copy, or begin anew with another checkpoint."
            )
        return bytes(stored[0])

    def write_chunk(self, number: int, blob: bytes) -> None:
        """Add a chunk."""
        self._chunks.updateValue((number,), (blob,))

    def remove_chunk(self, number: int) -> None:
        """Remove a chunk."""
        self._chunks.removeKey((number,))


class BucketProcessor(StatefulProcessor):
    """Applies the blobs of a batch to the buckets that they are for."""

    def __init__(self, job: Job, schemas: Mapping[str, str], buckets: int) -> None:
        """Take the schemas of the prepared inputs, as text, and the number of buckets."""
        self._job = job
        self._schemas = schemas
        self._buckets = buckets

    def init(self, handle: "StatefulProcessorHandle") -> None:
        """Called once per task."""
        self._storage: Storage = SparkStorage(handle)
        self._numbers = {key: number for number, key in enumerate(bucket_keys(self._buckets))}
        self._empty = empty_events(self._schemas)
        self._place = _place(self._job)

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[Row], timer_values: "TimerValues | None"
    ) -> Iterator[Row]:
        """Called once per bucket that anything was packed for."""
        # Spark delivers in any order, and the order must not be of consequence.
        packed = sorted(rows, key=lambda row: (row.source, row.task, row.part))
        bounds = merged([_bounds(row.bounds) for row in packed if row.bounds is not None])
        number = self._numbers[key[0]]
        bucket = Bucket(self._job, number, self._storage, copies(self._job.limits.memory))
        events = events_of([(row.source, row.rows) for row in packed], self._empty)
        applied = bucket.apply((*self._place, number), events, bounds)
        for name, table in applied.outputs.items():
            for blob in to_blobs(table):
                yield Row(output=name, rows=blob)
        yield Row(output=STATISTICS, rows=to_blob(_statistics(number, applied, bounds.get(CLOCK))))

    def close(self) -> None:
        """Nothing is held."""


def _place(job: Job) -> tuple[str, str]:
    """What tells this operator's buckets from those of other queries in the same worker."""
    from pyspark import TaskContext

    task = TaskContext.get()
    query = task.getLocalProperty(_QUERY) if task is not None else None
    return query or job.flow, job.operator.description.name


def _bounds(text: str) -> dict[str, int]:
    import json

    read: dict[str, int] = json.loads(text)
    return read


def _statistics(number: int, applied: Applied, clock: int | None) -> Any:
    row = {
        "bucket": number,
        "found": applied.found.value,
        "version": applied.version,
        "rows": applied.rows,
        "bytes": applied.bytes,
        "expired": applied.expired,
        "rewritten": applied.rewritten,
        "watermark": applied.watermark,
        "clock": clock,
        # All buckets hear the same of time, so that one of them is enough to tell it.
        "memory": applied.memory if number == 0 else None,
    }
    return pa.Table.from_pylist([row], schema=STATISTICS_SCHEMA)
