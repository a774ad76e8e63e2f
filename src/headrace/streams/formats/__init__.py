"""Formats: what the bytes of a record mean.

Read `schemas` for the columns that people ask for, `decoding` for what every format does, `formats`
for the list of them. JSON, the busiest, is read in three layers: `kernels` find and convert many
values at once, `json_scalars` and `json_nested` make Arrow columns of them, `json_values` rows.
Records that do not parse are rejected one by one, with a reason, and `dead_letters` makes records
of those. What raises is never a record's fault.
"""

from headrace.streams.formats.errors import (
    FormatError,
    RegistryFailed,
    UnknownFormat,
    UnusableSchema,
)
from headrace.streams.formats.formats import FORMAT_OPTIONS, FORMATS, decoder, row_schema
from headrace.streams.formats.schemas import SchemaLike, arrow_schema, schema_of

__all__ = [
    "FORMATS",
    "FORMAT_OPTIONS",
    "FormatError",
    "RegistryFailed",
    "SchemaLike",
    "UnknownFormat",
    "UnusableSchema",
    "arrow_schema",
    "decoder",
    "row_schema",
    "schema_of",
]
