"""One task of a batch: record batches in, typed Arrow out.

This runs in Spark's Python workers. A worker lives longer than a task, and so do its connections.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.kafka.connection import connect
from headrace.kafka.gaps import OffsetsGone
from headrace.kafka.raw_fetch import fetch_range
from headrace.records.arrow import decode_batches
from headrace.streams.formats import decoder
from headrace.streams.formats.dead_letters import dead_letters
from headrace.streams.source.columns import included_arrays, without_included
from headrace.streams.source.errors import UnreadableRecords
from headrace.streams.source.options import SourceOptions
from headrace.streams.source.splits import Range

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

logger = logging.getLogger(__name__)


class TaskReader:
    """Reads ranges of partitions as rows of one schema."""

    def __init__(self, options: SourceOptions, schema: "StructType") -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._options = options
        self._connection = connect(options.kafka)
        self._only_rejected = options.on_error == "only"
        self._target = to_arrow_schema(schema, timezone="UTC")
        rows = without_included(schema, options.include)
        self._decoder = decoder(options.format, rows, options.format_options)
        reads_keys = options.format == "raw" and "key" in rows.fieldNames()
        self._keys = self._only_rejected or reads_keys or "key" in options.include
        self._headers = self._only_rejected or "headers" in options.include
        self._skipped = 0

    def read(self, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
        """The rows of some ranges, in order.

        Raises `UnreadableRecords` and `OffsetsGone` unless the options say to skip what they are
        about; then their number is logged.
        """
        for wanted in ranges:
            for records in self.records(wanted):
                rows = self._rows(records, wanted)
                if rows.num_rows:
                    yield rows
        if self._skipped:
            logger.warning("skipped %d records that do not parse", self._skipped)

    def records(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        """The records of a range, from the cluster; a reader of something else overrides this."""
        start = wanted.start
        while start < wanted.end:
            try:
                yield from self._records_from(start, wanted)
                return
            except OffsetsGone as gone:
                if self._options.on_gap == "fail":
                    raise
                logger.warning("skipping: %s", gone)
                start = gone.earliest

    def _records_from(self, start: int, wanted: Range) -> Iterator[pa.RecordBatch]:
        chunks = fetch_range(
            self._connection,
            wanted.partition,
            start,
            wanted.end,
            isolation=self._options.isolation,
        )
        for chunk in chunks:
            for records in decode_batches(
                chunk, keys=self._keys, headers=self._headers, min_offset=start
            ):
                yield _before(records, wanted.end)

    def _rows(self, records: pa.RecordBatch, wanted: Range) -> pa.RecordBatch:
        decoded = self._decoder.decode(records)
        topic, number = wanted.partition
        if self._only_rejected:
            return dead_letters(records, decoded.rejected, topic, number)
        if decoded.rejected:
            if self._options.on_error == "fail":
                index, reason = decoded.rejected[0]
                offset = records.column("offset")[index].as_py()
                count = len(decoded.rejected)
                raise UnreadableRecords(wanted.partition, offset, reason, count)
            self._skipped += len(decoded.rejected)
        accepted = records if decoded.accepted is None else records.take(decoded.accepted)
        included = included_arrays(accepted, wanted.partition, self._options.include)
        arrays = [
            array if array.type == field.type else array.cast(field.type)
            for array, field in zip([*decoded.rows.columns, *included], self._target, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)


def _before(records: pa.RecordBatch, end: int) -> pa.RecordBatch:
    """The records before an offset; nothing is copied."""
    offsets = records.column("offset").to_numpy()
    return records.slice(0, int(offsets.searchsorted(end)))
