"""Record batches to Arrow columns and back, many batches at once.

Read `schema` for the columns; `decode` and `columns` for the way in; `sources` and `encode` for the
way out, `partitioning` and `producing` for what a producer does besides; `fetched` for what a
consumer does; `kernels` for the compiled loops under all of it.
"""

from headrace.records.decode import decode, decode_batches
from headrace.records.encode import MAX_BATCH_BYTES, encode
from headrace.records.fetched import Fetched, committed_parts, fetched
from headrace.records.partitioning import partitions_by_key, rows_by_group
from headrace.records.producing import Producer, ProducerBatch, encode_for_producer
from headrace.records.schema import HEADER_TYPE, RECORD_SCHEMA, record_schema
from headrace.records.sources import Sources, sources

__all__ = [
    "HEADER_TYPE",
    "MAX_BATCH_BYTES",
    "RECORD_SCHEMA",
    "Fetched",
    "Producer",
    "ProducerBatch",
    "Sources",
    "committed_parts",
    "decode",
    "decode_batches",
    "encode",
    "encode_for_producer",
    "fetched",
    "partitions_by_key",
    "record_schema",
    "rows_by_group",
    "sources",
]
