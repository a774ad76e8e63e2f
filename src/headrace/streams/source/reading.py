"""One task of a batch: record batches in, typed Arrow out.

This runs in Spark's Python workers. A worker lives longer than a task, and so do its connections.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.kafka.connection import connect
from headrace.kafka.gaps import OffsetsGone
from headrace.kafka.raw_fetch import fetch_range
from headrace.records.arrow import decode_batches
from headrace.streams.formats import decoder
from headrace.streams.formats.calendar import beyond_calendar
from headrace.streams.formats.dead_letters import dead_letters
from headrace.streams.formats.decoding import Decoded, Decoder, reject
from headrace.streams.plan import CONTROL, PROCESSED
from headrace.streams.source.columns import COUNTS, included_arrays
from headrace.streams.source.errors import UnreadableRecords
from headrace.streams.source.options import SourceOptions
from headrace.streams.source.splits import Range
from headrace.streams.time.control import Observation
from headrace.streams.time.observing import Observing

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

logger = logging.getLogger(__name__)


class TaskReader:
    """Reads ranges of partitions as rows of one schema.

    `judging` are the columns that values must have: those of the rows, also where it is the
    rejected records that are read.
    """

    def __init__(self, options: SourceOptions, schema: "StructType", judging: "StructType") -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._options = options
        self._connection = connect(options.kafka)
        self._only_rejected = options.on_error == "only"
        self._target = to_arrow_schema(schema, timezone="UTC")
        self._decoder = _decoder(options, judging)
        reads_keys = options.format == "raw" and "key" in judging.fieldNames()
        keyed = reads_keys or bool(options.key)
        self._keys = self._only_rejected or keyed or "key" in options.include
        self._headers = self._only_rejected or "headers" in options.include
        self._from = options.time_from if options.tells_time else None
        self._clock: int | None = None
        self._rejected = 0
        self._lost = 0

    def read(self, ranges: Sequence[Range], clock: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of some ranges, in order, and then what they tell of time, if that is asked for.

        `clock` is the time of the batch in milliseconds.

        Raises `UnreadableRecords` and `OffsetsGone` unless the options say to skip what they are
        about; then their numbers are in a last row, if the options ask for it, and in the log.
        """
        self._clock = clock
        observing = self._observing()
        # Whoever observes the rows has to know what time it is before they come.
        if clock is not None and self._from == "rows":
            yield self._control(Observation(clock * 1000))
        for wanted in ranges:
            for records in self.records(wanted):
                rows = self._rows(records, wanted)
                if rows.num_rows:
                    yield rows
                if observing is not None:
                    observing.add(_name(wanted), rows)
        if self._rejected:
            logger.warning("skipped %d records that do not parse", self._rejected)
        told = self._told(observing)
        counts = (self._rejected, self._lost, 0 if told is None else told.implausible)
        if self._options.count_skipped and any(counts):
            yield self._row_of_nothing_but(dict(zip(COUNTS, counts, strict=True)))
        if told is not None:
            yield self._control(told)

    def _observing(self) -> Observing | None:
        options = self._options
        if self._clock is None or options.time is None or self._from != "column":
            return None
        ahead = options.time_max_ahead_ms
        return Observing(
            self._clock * 1000,
            options.time,
            by=options.time_by,
            until=options.time_until,
            ahead=None if ahead is None else ahead * 1000,
        )

    def _told(self, observing: Observing | None) -> Observation | None:
        if observing is not None:
            return observing.told
        if self._clock is None or self._from != "clock":
            return None
        return Observation(self._clock * 1000, {PROCESSED: self._clock * 1000})

    def _control(self, told: Observation) -> pa.RecordBatch:
        return self._row_of_nothing_but({CONTROL: told.to_bytes()})

    def _row_of_nothing_but(self, values: Mapping[str, object]) -> pa.RecordBatch:
        arrays = [pa.array([values.get(field.name)], field.type) for field in self._target]
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)

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
                self._lost += min(gone.earliest, wanted.end) - gone.first
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
        decoded = self._decode(records)
        topic, number = wanted.partition
        if self._only_rejected:
            letters = dead_letters(records, decoded.rejected, topic, number)
            return self._completed(letters.columns, letters.num_rows, wanted)
        if decoded.rejected:
            if self._options.on_error == "fail":
                index, reason = decoded.rejected[0]
                offset = records.column("offset")[index].as_py()
                count = len(decoded.rejected)
                raise UnreadableRecords(wanted.partition, offset, reason, count)
            self._rejected += len(decoded.rejected)
        accepted = records if decoded.accepted is None else records.take(decoded.accepted)
        included = included_arrays(accepted, wanted.partition, self._options.include)
        return self._completed([*decoded.rows.columns, *included], accepted.num_rows, wanted)

    def _completed(self, given: list[pa.Array], count: int, wanted: Range) -> pa.RecordBatch:
        """Columns in the types that Spark was told of, with no counts and nothing of time."""
        if self._options.count_skipped:
            given = [*given, *[pa.nulls(count, pa.int64())] * len(COUNTS)]
        if self._from is not None:
            given = [*given, *self._of_time(wanted, count), pa.nulls(count, pa.binary())]
        arrays = [
            array if array.type == field.type else array.cast(field.type)
            for array, field in zip(given, self._target, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)

    def _of_time(self, wanted: Range, count: int) -> list[pa.Array]:
        """What rows have for those who look at time behind this."""
        if self._from == "clock":
            clock = None if self._clock is None else self._clock * 1000
            return [pa.repeat(pa.scalar(clock, pa.timestamp("us", "UTC")), count)]
        if self._from == "rows":
            return [pa.repeat(pa.scalar(_name(wanted)), count)]
        return []

    def _decode(self, records: pa.RecordBatch) -> Decoded:
        decoded = self._decoder.decode(records)
        if "timestamp" not in self._options.include:
            return decoded
        beyond = beyond_calendar(records.column("timestamp"), "the record's timestamp")
        if not beyond:
            return decoded
        count, accepted = records.num_rows, decoded.accepted
        places = range(count) if accepted is None else accepted.to_pylist()
        problems = {row: beyond[each] for row, each in enumerate(places) if each in beyond}
        return reject(decoded, problems)


def _name(wanted: Range) -> str:
    """What a partition is called as a source of time."""
    return f"{wanted.partition.topic}-{wanted.partition.number}"


def _decoder(options: SourceOptions, judging: "StructType") -> Decoder:
    if not options.key:
        return decoder(options.format, judging, options.format_options)
    from headrace.streams.formats.keyed import KeyedDecoder

    return KeyedDecoder(options.format, judging, options.format_options, options.key)


def _before(records: pa.RecordBatch, end: int) -> pa.RecordBatch:
    """The records before an offset; nothing is copied."""
    offsets = records.column("offset").to_numpy()
    return records.slice(0, int(offsets.searchsorted(end)))
