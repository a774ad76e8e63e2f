"""The memory of one Arrow batch: kernels fill it, and Arrow takes it over without a copy."""

import numpy as np
import pyarrow as pa

from headrace.records.errors import InvalidBatch
from headrace.records.kernels import batches as table
from headrace.records.kernels import records as kernels
from headrace.records.kernels.compiled import Bytes, Int64s
from headrace.records.schema import HEADER_TYPE, RECORD_SCHEMA, record_schema
from headrace.records.validate import NO_TIMESTAMP


def decode_columns(
    stored: Bytes,
    expanded: Bytes,
    batches: Int64s,
    min_offset: int,
    *,
    keys: bool,
    headers: bool,
) -> pa.RecordBatch:
    """Decode the records of `batches` that are not before `min_offset`.

    No record has more key or value than its batch has bytes, so room is made by the size of the
    batches; what stays untouched of it is never really taken from the system.
    """
    room = int(batches[:, table.RECORD_COUNT].sum())
    size = int((batches[:, table.END] - batches[:, table.START]).sum())
    offsets = np.empty(room, np.int64)
    timestamps = np.empty(room, np.int64)
    key = _room(room, size) if keys else _room(0, 0)
    value = _room(room, size)
    totals = np.zeros(kernels.TOTALS, np.int64)
    index, problem = kernels.decode_records(
        stored,
        expanded,
        batches,
        min_offset,
        keys,
        headers,
        offsets,
        timestamps,
        key,
        value,
        totals,
    )
    _raise_for(problem, batches[index])
    rows = int(totals[kernels.ROWS])
    schema = record_schema(keys=keys, headers=headers)
    arrays = [pa.array(offsets[:rows]), _timestamps(timestamps[:rows])]
    if keys:
        arrays.append(_to_arrow(key, rows))
    arrays.append(_to_arrow(value, rows))
    if headers:
        arrays.append(_headers(stored, expanded, batches, min_offset, totals))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _room(count: int, size: int) -> kernels.Binaries:
    nulls = np.zeros((count + 7) // 8, np.uint8)
    return kernels.Binaries(np.zeros(count + 1, np.int32), np.empty(size, np.uint8), nulls)


def _to_arrow(binaries: kernels.Binaries, count: int) -> pa.BinaryArray:
    validity = pa.py_buffer(np.invert(binaries.nulls)) if binaries.nulls.any() else None
    ends = pa.py_buffer(binaries.ends[: count + 1])
    data = pa.py_buffer(binaries.data[: binaries.ends[count]])
    return pa.Array.from_buffers(pa.binary(), count, [validity, ends, data])


def _timestamps(timestamps: Int64s) -> pa.TimestampArray:
    missing = timestamps == NO_TIMESTAMP
    mask = missing if missing.any() else None
    return pa.array(timestamps, RECORD_SCHEMA.field("timestamp").type, mask)


def _headers(
    stored: Bytes, expanded: Bytes, batches: Int64s, min_offset: int, totals: Int64s
) -> pa.ListArray:
    rows = int(totals[kernels.ROWS])
    count = int(totals[kernels.HEADERS])
    ends = np.zeros(int(batches[:, table.RECORD_COUNT].sum()) + 1, np.int32)
    names = _room(count, int(totals[kernels.HEADER_NAME_BYTES]))
    values = _room(count, int(totals[kernels.HEADER_VALUE_BYTES]))
    if count:
        index, problem = kernels.decode_headers(
            stored, expanded, batches, min_offset, ends, names, values
        )
        _raise_for(problem, batches[index])
    pairs = pa.StructArray.from_arrays(
        [_text(_to_arrow(names, count)), _to_arrow(values, count)], fields=list(HEADER_TYPE)
    )
    return pa.Array.from_buffers(
        pa.list_(HEADER_TYPE), rows, [None, pa.py_buffer(ends[: rows + 1])], children=[pairs]
    )


def _text(names: pa.BinaryArray) -> pa.StringArray:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        # Kafka never checks that names are UTF-8; its Java client shows a replacement character.
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())


def _raise_for(problem: int, batch: Int64s) -> None:
    if problem:
        raise InvalidBatch(
            kernels.RECORD_PROBLEMS[problem],
            int(batch[table.POSITION]),
            int(batch[table.BASE_OFFSET]),
        )
