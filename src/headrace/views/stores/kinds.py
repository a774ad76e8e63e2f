"""The types of columns that stores know, whatever they call them.

Each store has a table of its own from these kinds to its types; together they are the table in
`docs/sinks.md`.
"""

from enum import StrEnum

import pyarrow as pa

from headrace.views.stores.errors import ColumnsRefused


class Kind(StrEnum):
    """What a column holds."""

    BOOLEAN = "boolean"
    INT8 = "tinyint"
    INT16 = "smallint"
    INT32 = "int"
    INT64 = "bigint"
    FLOAT32 = "float"
    FLOAT64 = "double"
    DECIMAL = "decimal"
    TEXT = "string"
    BYTES = "binary"
    DATE = "date"
    INSTANT = "timestamp"
    """A moment, the same everywhere."""

    LOCAL_TIME = "timestamp_ntz"
    """What a calendar and a clock on the wall show, wherever that is."""

    NESTED = "array, map or struct"


_PLAIN = {
    pa.bool_(): Kind.BOOLEAN,
    pa.int8(): Kind.INT8,
    pa.int16(): Kind.INT16,
    pa.int32(): Kind.INT32,
    pa.int64(): Kind.INT64,
    pa.float32(): Kind.FLOAT32,
    pa.float64(): Kind.FLOAT64,
    pa.string(): Kind.TEXT,
    pa.large_string(): Kind.TEXT,
    pa.binary(): Kind.BYTES,
    pa.large_binary(): Kind.BYTES,
    pa.date32(): Kind.DATE,
}


def kind_of(field: pa.Field) -> Kind:
    """What a column holds; ColumnsRefused if no store can hold that."""
    kind = field.type
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pa.types.is_decimal(kind):
        return Kind.DECIMAL
    if pa.types.is_timestamp(kind):
        return Kind.LOCAL_TIME if kind.tz is None else Kind.INSTANT
    if pa.types.is_nested(kind):
        return Kind.NESTED
    raise ColumnsRefused(
        f"The column {field.name} is of the type {kind}, which no store has; cast it to another, "
        f'as in .with_columns({field.name}="cast({field.name} as string)").'
    )
