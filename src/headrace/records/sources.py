"""Arrow columns in the one form that the writing kernels read."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.records.errors import InvalidRecords
from headrace.records.kernels.compiled import Int64s, read_only
from headrace.records.kernels.writing import HeaderLists, Strings
from headrace.records.schema import RECORD_SCHEMA
from headrace.records.validate import NO_TIMESTAMP

_STRING: Final = pa.large_binary()
_HEADERS: Final = pa.large_list(pa.struct([("key", _STRING), ("value", _STRING)]))
_TIMESTAMP: Final = RECORD_SCHEMA.field("timestamp").type


@dataclass(frozen=True, slots=True)
class Sources:
    """The columns of records that are to be written; they keep Arrow's memory alive."""

    keys: Strings
    values: Strings
    headers: HeaderLists
    timestamps: Int64s

    def __len__(self) -> int:
        return len(self.timestamps)

    def select(self, rows: Int64s) -> "Sources":
        """Some of the records, in the order given; copies where they are, not their bytes."""
        return Sources(
            _select(self.keys, rows),
            _select(self.values, rows),
            self.headers._replace(
                starts=self.headers.starts[rows], counts=self.headers.counts[rows]
            ),
            self.timestamps[rows],
        )


def sources(table: pa.Table | pa.RecordBatch, timestamp: int = NO_TIMESTAMP) -> Sources:
    """Read the columns of `table`; records without a timestamp get `timestamp`.

    Copies offsets, never the bytes of a column that is in one piece.
    """
    unknown = set(table.schema.names) - set(RECORD_SCHEMA.names)
    if unknown or "value" not in table.schema.names:
        raise InvalidRecords(
            f"records have a column `value` and may have {', '.join(RECORD_SCHEMA.names)}; "
            f"this table has {', '.join(table.schema.names) or 'none'}"
        )
    return Sources(
        _strings(_column(table, "key", _STRING)),
        _strings(_column(table, "value", _STRING)),
        _headers(_column(table, "headers", _HEADERS)),
        _timestamps(_column(table, "timestamp", _TIMESTAMP), timestamp),
    )


def _column(table: pa.Table | pa.RecordBatch, name: str, wanted: pa.DataType) -> Any:
    if name not in table.schema.names:
        return pa.nulls(table.num_rows, wanted)
    column = table.column(name)
    try:
        # Unsafe as far as finer timestamps are cut to milliseconds.
        cast = column.cast(wanted, safe=False)
    except pa.ArrowException as error:
        raise InvalidRecords(
            f"column `{name}` is {column.type}, which does not become {wanted}: cast it first"
        ) from error
    return cast.combine_chunks() if isinstance(cast, pa.ChunkedArray) else cast


def _select(strings: Strings, rows: Int64s) -> Strings:
    return strings._replace(starts=strings.starts[rows], lengths=strings.lengths[rows])


def _strings(array: Any) -> Strings:
    starts, lengths = _extents(array, null_length=-1)
    return Strings(starts, lengths, read_only(array.buffers()[-1] or b"", np.uint8))


def _headers(array: Any) -> HeaderLists:
    starts, counts = _extents(array, null_length=0)
    names, values = array.values.flatten()
    return HeaderLists(starts, counts, _strings(names), _strings(values))


def _extents(array: Any, null_length: int) -> tuple[Int64s, Int64s]:
    """Where each element of an array of strings or lists begins, and how long it is."""
    first, last = array.offset, array.offset + len(array)
    offsets = read_only(array.buffers()[1] or bytes(8), np.int64)[first : last + 1]
    lengths = np.diff(offsets)
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = null_length
    return offsets[:-1], lengths


def _timestamps(array: Any, missing: int) -> Int64s:
    filled = array.cast(pa.int64()).fill_null(missing)
    timestamps = read_only(filled.buffers()[1] or b"", np.int64)
    timestamps = timestamps[filled.offset : filled.offset + len(filled)]
    if len(timestamps) and timestamps.min() < NO_TIMESTAMP:
        raise InvalidRecords("a timestamp lies before 1970, where record batches have none")
    return timestamps
