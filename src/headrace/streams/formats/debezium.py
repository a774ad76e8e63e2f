"""Debezium's change events: what a row was and what it is now.

Values are envelopes in JSON, with or without the part that describes their schema, or in Avro with
a registry's header. Each becomes a row of `op`, `ts`, `before`, `after` and where it comes from, or
with `unwrap` a row of the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.records.kernels.compiled import Bytes
from headrace.streams.formats.avro_values import AvroDecoder
from headrace.streams.formats.calendar import beyond_calendar
from headrace.streams.formats.decoding import Decoded, Decoder, Reasons, choice, reject
from headrace.streams.formats.errors import UnusableSchema
from headrace.streams.formats.json_nested import Reading, struct_reader
from headrace.streams.formats.json_values import JsonDecoder, spans_of
from headrace.streams.formats.kernels.objects import Spans
from headrace.streams.formats.kernels.tokens import ABSENT, OBJECT
from headrace.streams.formats.schemas import arrow_schema, nullable, schema_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SOURCE: Final = "db string, schema string, table string, lsn bigint, file string, pos bigint"
"""What is kept of an event's source; each becomes a column `source_…`."""

_WRAPPER: Final = "schema string, payload struct<op string>"


def debezium_rows(
    schema: "StructType | None", options: Mapping[str, str], topics: Sequence[str]
) -> "StructType":
    """The columns of changes to a table with this schema."""
    from pyspark.sql.types import StringType, StructField, StructType, TimestampType

    if schema is None:
        raise UnusableSchema("the format debezium needs the schema of the table")
    if _unwraps(options):
        return StructType(
            [
                *nullable(schema),
                StructField("_op", StringType()),
                StructField("_ts", TimestampType()),
            ]
        )
    sources = [StructField(f"source_{one.name}", one.dataType) for one in schema_of(SOURCE)]
    return StructType(
        [
            StructField("op", StringType()),
            StructField("ts", TimestampType()),
            StructField("before", nullable(schema)),
            StructField("after", schema),
            *sources,
        ]
    )


class DebeziumDecoder:
    """Reads envelopes; tombstones, which follow deletions, are skipped unless asked for.

    Options: `unwrap` (false, true), `decimals` (precise: base64 of the units, as Debezium writes
    them unless told otherwise; plain: numbers or strings), `epoch` (us, ms, s, ns) of times that
    are numbers, `tombstones`; with a `registry`, values are Avro.
    """

    def __init__(self, schema: "StructType", options: Mapping[str, str]) -> None:
        self.schema = arrow_schema(schema)
        self._unwraps = _unwraps(options)
        envelope = _envelope(schema, self._unwraps)
        options = {"tombstones": "skip", "epoch": "us", **options}
        self._envelopes: Decoder = (
            AvroDecoder(envelope, options)
            if "registry" in options
            else JsonEnvelopes(envelope, options)
        )

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See `Decoder`."""
        decoded = self._envelopes.decode(records)
        decoded = reject(decoded, beyond_calendar(_millis(decoded.rows), "ts_ms"))
        rows = self._unwrapped(decoded.rows) if self._unwraps else self._changes(decoded.rows)
        return replace(decoded, rows=rows)

    def _changes(self, envelopes: pa.RecordBatch) -> pa.RecordBatch:
        source = envelopes.column("source")
        sources = [source.field(one.name) for one in schema_of(SOURCE)]
        if source.null_count:
            sources = [pc.if_else(source.is_valid(), one, None) for one in sources]
        before, after = envelopes.column("before"), envelopes.column("after")
        arrays = [envelopes.column("op"), _times(envelopes), before, after, *sources]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _unwrapped(self, envelopes: pa.RecordBatch) -> pa.RecordBatch:
        before, after = envelopes.column("before"), envelopes.column("after")
        rows = pc.if_else(after.is_valid(), after, before)
        arrays = [*rows.flatten(), envelopes.column("op"), _times(envelopes)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class JsonEnvelopes(JsonDecoder):
    """Envelopes in JSON; where one is wrapped together with its schema, it is unwrapped first."""

    def __init__(self, schema: "StructType", options: Mapping[str, str]) -> None:
        plain = choice(options, "decimals", ("precise", "plain"), "precise") == "plain"
        super().__init__(schema, options, packed_decimals=not plain)
        wrapper = schema_of(_WRAPPER)
        self._wrapper = struct_reader(
            wrapper, pa.struct(list(arrow_schema(wrapper))), Reading("ms")
        )

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See `Decoder`."""
        value = records.column("value")
        data, spans = spans_of(value)
        reasons: Reasons = {}
        return self.decode_spans(value, data, self._payloads(data, spans, reasons), reasons)

    def _payloads(self, data: Bytes, spans: Spans, reasons: Reasons) -> Spans:
        (schema, payload), _ = self._wrapper.find(data, spans)
        wrapped = schema.kinds == OBJECT
        if not wrapped.any():
            return spans
        for row in np.flatnonzero(wrapped & (payload.kinds == ABSENT)).tolist():
            reasons[row] = "payload: missing or null"
        return Spans(
            np.where(wrapped, payload.kinds, spans.kinds),
            np.where(wrapped, payload.starts, spans.starts),
            np.where(wrapped, payload.ends, spans.ends),
        )


def _unwraps(options: Mapping[str, str]) -> bool:
    return choice(options, "unwrap", ("false", "true"), "false") == "true"


def _envelope(rows: "StructType", unwraps: bool) -> "StructType":
    """The part of Debezium's envelope that is read for such rows."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    table = StructType(rows.fields[:-2]) if unwraps else None
    before = table if table is not None else rows["before"].dataType
    after = table if table is not None else rows["after"].dataType
    source = StructType([*schema_of(SOURCE), StructField("ts_ms", LongType())])
    return StructType(
        [
            StructField("before", before),
            StructField("after", after),
            StructField("source", source),
            StructField("op", StringType(), nullable=False),
            StructField("ts_ms", LongType()),
        ]
    )


def _millis(envelopes: pa.RecordBatch) -> pa.Array:
    """When the database made the change; if it does not say, when Debezium saw it."""
    source = envelopes.column("source")
    made = pc.if_else(source.is_valid(), source.field("ts_ms"), None)
    return pc.coalesce(made, envelopes.column("ts_ms")).view(pa.timestamp("ms", tz="UTC"))


def _times(envelopes: pa.RecordBatch) -> pa.Array:
    return _millis(envelopes).cast(pa.timestamp("us", tz="UTC"))
