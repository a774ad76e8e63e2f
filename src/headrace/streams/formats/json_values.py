"""JSON values: objects whose fields are the columns."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.records.kernels.compiled import Bytes, read_only
from headrace.streams.formats.decoding import (
    Decoded,
    Reasons,
    Tombstones,
    choice,
    missing_values,
    sift,
)
from headrace.streams.formats.json_nested import Reading, struct_reader
from headrace.streams.formats.json_scalars import EPOCH_UNITS, as_bytes
from headrace.streams.formats.kernels.objects import Spans
from headrace.streams.formats.kernels.tokens import ABSENT, OBJECT
from headrace.streams.formats.schemas import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class JsonDecoder:
    """Reads objects by the names of their fields.

    Options: `tombstones` (reject, skip, null) and `epoch`, the unit of timestamps that are numbers
    (s, ms, us, ns).
    """

    def __init__(
        self, schema: "StructType", options: Mapping[str, str], *, packed_decimals: bool = False
    ) -> None:
        self.schema = arrow_schema(schema)
        unit = choice(options, "epoch", tuple(EPOCH_UNITS), "ms")
        reading = Reading(unit, packed_decimals)
        self._reader = struct_reader(schema, pa.struct(list(self.schema)), reading)
        self._tombstones = Tombstones.of(options)

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See `Decoder`."""
        value = records.column("value")
        return self.decode_spans(value, *spans_of(value), {})

    def decode_spans(
        self, value: pa.BinaryArray, data: Bytes, spans: Spans, reasons: Reasons
    ) -> Decoded:
        """Decode what lies at these places of the records' values; `reasons` are there already."""
        skipped = self._tombstones.judge(missing_values(value), reasons)
        arrays, problems = self._reader.read_fields(data, spans)
        rows = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return sift(rows, {**problems, **reasons}, skipped)


def spans_of(value: pa.BinaryArray) -> tuple[Bytes, Spans]:
    """Each record's value as a span of all their bytes."""
    _, bounds, data = value.buffers()
    ends = read_only(bounds, np.int32)[value.offset : value.offset + len(value) + 1]
    kinds = np.full(len(value), OBJECT, np.uint8)
    missing = missing_values(value)
    if missing is not None:
        kinds[missing] = ABSENT
    # Copies, because kernels are compiled once more for arrays that cannot be written to.
    return as_bytes(data), Spans(kinds, ends[:-1].copy(), ends[1:].copy())
