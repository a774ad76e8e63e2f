"""Arrow columns into record batches: plan the batches, write their records, then their headers."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.records.codecs import Codec, compress
from headrace.records.errors import InvalidRecords
from headrace.records.header import (
    HEADER_SIZE,
    LAYOUT,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
)
from headrace.records.kernels import writing as kernels
from headrace.records.kernels.compiled import Int64s
from headrace.records.sources import Sources, sources
from headrace.records.validate import NO_TIMESTAMP, write_checksum

MAX_BATCH_BYTES: Final = 1_000_000
"""The size of batches unless told otherwise; a broker with default settings accepts a bit more."""

_MAX_INT32: Final = (1 << 31) - 1


def encode(
    table: pa.Table | pa.RecordBatch | Sources,
    *,
    codec: Codec = Codec.NONE,
    base_offset: int = 0,
    timestamp: int = NO_TIMESTAMP,
    max_records: int = _MAX_INT32,
    max_bytes: int = MAX_BATCH_BYTES,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    """Encode records as batches, one after the other and ready to be stamped in place.

    Args:
        table: A column `value` and, as far as there are any, `key`, `headers` and `timestamp`, of
            the types in `RECORD_SCHEMA` or others that Arrow can cast to them: text, integers for
            milliseconds, a map for headers. A column `offset` is left aside. Or what `sources`
            has made of such a table.
        codec: How to compress each batch.
        base_offset: The first record's offset; the others follow without gaps. Apache Kafka takes
            from a producer only batches that begin at 0, so `stamp` each of several before sending.
        timestamp: Milliseconds for records that have no timestamp of their own.
        max_records: The most records in a batch.
        max_bytes: The most bytes in a batch before compression; a single record may exceed it.
        leader_epoch: The leader epoch to note in each batch.
        producer_id: The id of an idempotent producer.
        producer_epoch: Its epoch.
        base_sequence: The sequence number of its first record; the others follow.
        transactional: Whether the batches belong to a transaction.

    Raises:
        InvalidRecords: The table has other columns or types, or a record that fits into no batch.
    """
    if max_records < 1 or max_bytes < 1:
        raise InvalidRecords("max_records and max_bytes must be at least 1")
    source = table if isinstance(table, Sources) else sources(table, timestamp)
    sizes, firsts, ends = _plan(source, max_records, max_bytes)
    plain = bytearray(int(ends[-1]) if len(ends) else 0)
    kernels.write_records(
        source.keys,
        source.values,
        source.headers,
        source.timestamps,
        sizes,
        firsts,
        np.frombuffer(plain, np.uint8),
    )
    template = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=codec | (TRANSACTIONAL if transactional else 0),
        last_offset_delta=0,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=0,
    )
    headers = _batch_headers(template, source.timestamps, firsts)
    if codec is Codec.NONE:
        return _finish(plain, ends, headers)
    return _finish_compressed(plain, ends, headers, codec)


def _plan(source: Sources, max_records: int, max_bytes: int) -> tuple[Int64s, Int64s, Int64s]:
    """Measure the records and choose each batch's first row and its end in the plain output."""
    rows = len(source.timestamps)
    sizes, firsts, ends = (np.empty(rows, np.int64) for _ in range(3))
    if not kernels.measure_records(source.keys, source.values, source.headers, sizes):
        raise InvalidRecords("a record has a header without a key: every header needs one")
    count = kernels.plan_batches(sizes, source.timestamps, max_records, max_bytes, firsts, ends)
    firsts, ends = firsts[:count], ends[:count]
    too_large = np.flatnonzero(np.diff(ends, prepend=0) > _MAX_INT32)
    if len(too_large):
        raise InvalidRecords(
            f"row {firsts[too_large[0]]} alone needs more than {_MAX_INT32} bytes: "
            "store large objects elsewhere and send a reference"
        )
    return sizes, firsts, ends


def _batch_headers(
    template: BatchHeader, timestamps: Int64s, firsts: Int64s
) -> Iterator[BatchHeader]:
    """Complete the header of every batch except for its length and checksum."""
    if len(firsts) == 0:
        return
    earliest = timestamps[firsts].tolist()
    latest = np.maximum.reduceat(timestamps, firsts).tolist()
    counts = np.diff(firsts, append=len(timestamps)).tolist()
    for index, first in enumerate(firsts.tolist()):
        sequence = template.base_sequence
        yield template._replace(
            base_offset=template.base_offset + first,
            last_offset_delta=counts[index] - 1,
            base_timestamp=earliest[index],
            max_timestamp=latest[index],
            # Sequence numbers are never negative: after the largest comes zero.
            base_sequence=sequence if sequence < 0 else (sequence + first) & _MAX_INT32,
            record_count=counts[index],
        )


def _finish(plain: bytearray, ends: Int64s, headers: Iterator[BatchHeader]) -> bytearray:
    start = 0
    for header, end in zip(headers, ends.tolist(), strict=True):
        LAYOUT.pack_into(plain, start, *header._replace(length=end - start - LENGTH_END))
        write_checksum(plain, start)
        start = end
    return plain


def _finish_compressed(
    plain: bytearray, ends: Int64s, headers: Iterator[BatchHeader], codec: Codec
) -> bytearray:
    encoded = bytearray()
    start = 0
    for header, end in zip(headers, ends.tolist(), strict=True):
        records = compress(codec, memoryview(plain)[start + HEADER_SIZE : end])
        length = HEADER_SIZE - LENGTH_END + len(records)
        batch = len(encoded)
        encoded += LAYOUT.pack(*header._replace(length=length))
        encoded += records
        write_checksum(encoded, batch)
        start = end
    return encoded
