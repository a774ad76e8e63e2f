"""Columns in the form in which stores are told of them, whole columns at a time."""

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.views.stores.kinds import Kind, kind_of

Conversion: TypeAlias = Callable[[pa.Array], pa.Array]
"""How a column of one type becomes one of another."""

_UTC: Final = pa.timestamp("us", "UTC")
_NAIVE: Final = pa.timestamp("us")


def single(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece."""
    if isinstance(column, pa.Array):
        return column
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def in_utc(column: pa.Array) -> pa.Array:
    """Moments in microseconds, told in UTC."""
    return column.cast(_UTC)


def on_the_wall(column: pa.Array) -> pa.Array:
    """Moments as the clock on a wall in UTC shows them; times of a wall as they are."""
    return column.cast(_UTC).cast(_NAIVE) if column.type.tz is not None else column.cast(_NAIVE)


def as_iso(column: pa.Array) -> pa.Array:
    """Times as ISO 8601 writes them, moments in UTC: such texts sort as times do."""
    told = in_utc(column) if column.type.tz is not None else column.cast(_NAIVE)
    return pc.replace_substring(told.cast(pa.string()), " ", "T", max_replacements=1)


def as_json(column: pa.Array) -> pa.Array:
    """Structures as the text of their JSON; this is the one conversion that goes value by value."""
    values = column.to_pylist(maps_as_pydicts="lossy")
    return pa.array([None if each is None else written(each) for each in values], pa.string())


def written(value: Any) -> str:
    """A value as JSON: bytes in base64, decimals as text, times as ISO 8601 has them."""
    return orjson.dumps(value, default=_told, option=orjson.OPT_NON_STR_KEYS).decode()


def _told(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def hexadecimal(column: pa.Array, prefix: str) -> pa.Array:
    """Bytes as text, two digits each, behind a prefix."""
    column = column.cast(pa.large_binary())
    offsets = np.frombuffer(column.buffers()[1], np.int64)[
        column.offset : column.offset + len(column) + 1
    ]
    data = column.buffers()[2]
    digits = b"" if data is None else memoryview(data)[offsets[0] : offsets[-1]].hex().encode()
    buffers = [None, pa.py_buffer((offsets - offsets[0]) * 2), pa.py_buffer(digits)]
    texts = pa.Array.from_buffers(pa.large_string(), len(column), buffers)
    begin, nothing = (pa.scalar(each, pa.large_string()) for each in (prefix, ""))
    told = pc.binary_join_element_wise(begin, texts, nothing)
    return pc.if_else(column.is_valid(), told, None)


def converted(table: pa.Table, conversions: Mapping[Kind, Conversion]) -> pa.Table:
    """Columns, each as the conversion for its kind makes it, or as it is if there is none."""
    arrays = []
    for field, column in zip(table.schema, table.columns, strict=True):
        conversion = conversions.get(kind_of(field))
        arrays.append(single(column) if conversion is None else conversion(single(column)))
    return pa.Table.from_arrays(arrays, names=table.column_names)


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows, as drivers of databases want them."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
