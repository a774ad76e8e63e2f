"""Record batches to Arrow columns and back, many batches at once.

Read `schema` for the columns; `decode` and `columns` for the way in; `sources` and `encode` for the
way out; `kernels` for the compiled loops under both.
"""

from headrace.records.decode import decode, decode_batches
from headrace.records.encode import encode
from headrace.records.schema import RECORD_SCHEMA, record_schema

__all__ = ["RECORD_SCHEMA", "decode", "decode_batches", "encode", "record_schema"]
