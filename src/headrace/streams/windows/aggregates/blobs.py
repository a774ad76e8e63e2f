"""Columns of bytes as sketches keep them: one array of all bytes, and where each row's begin."""

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.streams.windows.groups import read_only

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Bytes, Int64s


def to_bytes(column: pl.Series) -> "tuple[Bytes, Int64s]":
    """All bytes of a column without nulls, and where each row's begin; one more for the end."""
    array: Any = column.to_arrow().cast(pa.large_binary())
    _, offsets, data = array.buffers()
    places = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    held = (
        np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    )
    return read_only(held), read_only(places)


def from_bytes(data: "Bytes", offsets: "Int64s") -> pl.Series:
    """A column of bytes."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    series = pl.from_arrow(array)
    assert isinstance(series, pl.Series)
    return series
