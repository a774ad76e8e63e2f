"""Record batches: the only code that knows the layout of Kafka's v2 format.

Read `header` first (the 61 bytes that a broker looks at), then `validate` (what must hold before an
append, and what is stamped into a batch), `codecs` and `scan` (inside one batch, in plain Python),
`markers` (how a transaction ended).
`headrace.records.arrow` turns whole segments into Arrow columns and back with the compiled loops of
`kernels`, `matching` and `excising` find records and take them out; these are not imported from
here because they bring NumPy, Numba and Arrow along.
"""

from headrace.records.codecs import MAX_DECOMPRESSED_BYTES, Codec, compress, decompress
from headrace.records.errors import (
    CorruptBatch,
    DecompressionFailed,
    DecompressionLimit,
    InvalidBatch,
    InvalidRecords,
    MalformedBatch,
    RecordError,
    TruncatedBatch,
    UnsupportedCodec,
    UnsupportedMagic,
)
from headrace.records.header import (
    HEADER_SIZE,
    BatchHeader,
    Readable,
    iterate_headers,
    read_header,
)
from headrace.records.markers import MARKER_SIZE, Marker, build_marker, read_marker
from headrace.records.scan import (
    Record,
    RecordPosition,
    build_batch,
    first_at_or_after,
    keyless_records,
)
from headrace.records.validate import (
    NO_TIMESTAMP,
    Writable,
    stamp,
    stamp_append_time,
    validate_batch,
)

__all__ = [
    "HEADER_SIZE",
    "MARKER_SIZE",
    "MAX_DECOMPRESSED_BYTES",
    "NO_TIMESTAMP",
    "BatchHeader",
    "Codec",
    "CorruptBatch",
    "DecompressionFailed",
    "DecompressionLimit",
    "InvalidBatch",
    "InvalidRecords",
    "MalformedBatch",
    "Marker",
    "Readable",
    "Record",
    "RecordError",
    "RecordPosition",
    "TruncatedBatch",
    "UnsupportedCodec",
    "UnsupportedMagic",
    "Writable",
    "build_batch",
    "build_marker",
    "compress",
    "decompress",
    "first_at_or_after",
    "iterate_headers",
    "keyless_records",
    "read_header",
    "read_marker",
    "stamp",
    "stamp_append_time",
    "validate_batch",
]
