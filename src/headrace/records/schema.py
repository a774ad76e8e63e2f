"""The Arrow columns that records become."""

from functools import cache
from typing import Final

import pyarrow as pa

HEADER_TYPE: Final = pa.struct(
    [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]
)
"""One header of a record."""

RECORD_SCHEMA: Final = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(HEADER_TYPE), nullable=False),
    ]
)
"""Every column there can be; a record without a timestamp has null there."""


@cache
def record_schema(*, keys: bool = True, headers: bool = True) -> pa.Schema:
    """The columns of `RECORD_SCHEMA`, with or without keys and headers."""
    left_out = {"key": not keys, "headers": not headers}
    return pa.schema([field for field in RECORD_SCHEMA if not left_out.get(field.name, False)])
