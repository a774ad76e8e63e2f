"""Record batches without some of their records, and with everything else.

A record is taken out as a word is cut from a page: the others stay byte for byte as their producer
wrote them, under the same offsets, and the batch keeps its codec, its times and what it says of its
producer. A batch that loses all its records stays as an empty one if somebody has to know of it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.records.codecs import compress
from headrace.records.header import (
    CODEC_MASK,
    HEADER_SIZE,
    LAYOUT,
    LENGTH_END,
    BatchHeader,
    Readable,
    read_header,
)
from headrace.records.kernels import batches as table
from headrace.records.kernels import matching as kernels
from headrace.records.kernels.compiled import Bytes, Int64s, read_only
from headrace.records.matching import Criteria, mark
from headrace.records.schema import record_schema
from headrace.records.validate import NO_TIMESTAMP, write_checksum


@dataclass(frozen=True, slots=True)
class Excised:
    """What was found in a buffer, and what is left of it."""

    records: int
    """How many records were looked at."""

    found: Any
    """An Arrow table: offset, timestamp, key and value of the records that were meant."""

    rest: bytes
    """The batches without them."""


def excise(buffer: Readable, criteria: Criteria, *, at_end: bool = False) -> Excised:
    """Take the records that are meant out of the batches that `buffer` consists of.

    Batches without such a record, and transaction markers, are copied. Of a batch that loses all
    its records an empty one is left if it tells something: of an idempotent producer's sequence
    or, as the last one where `at_end` says so, where the log goes on.

    Raises what `mark` raises.
    """
    view = memoryview(buffer).cast("B")
    stored = read_only(view, np.uint8)
    found: list[pa.RecordBatch] = []
    rest: list[Readable] = []
    records = copied = 0
    for marked in mark(view, criteria):
        records += len(marked.marks)
        if not marked.counts.any():
            continue
        found.append(marked.rows(stored))
        starts = np.cumsum(marked.chunk.batches[:, table.RECORD_COUNT])
        for index in np.flatnonzero(marked.counts).tolist():
            batch = marked.chunk.batches[index]
            header = read_header(view, int(batch[table.POSITION]))
            position, end = int(batch[table.POSITION]), int(batch[table.POSITION]) + header.size
            data = stored if header.codec == 0 else marked.chunk.expanded
            marks = marked.marks[starts[index] - header.record_count : starts[index]]
            rest.append(view[copied:position])
            if not marks.all():
                rest.append(_without_marked(header, data, batch, marks))
            elif header.producer_id >= 0 or (at_end and end == len(view)):
                rest.append(emptied(header))
            copied = end
    rest.append(view[copied:])
    table_found = pa.Table.from_batches(found, record_schema(keys=True, headers=False))
    return Excised(records, table_found, b"".join(rest))


def emptied(header: BatchHeader) -> bytes:
    """A batch without records that ends where the batch of that header does."""
    return _batch(
        header._replace(
            attributes=header.attributes & ~CODEC_MASK,
            max_timestamp=header.max_timestamp if header.has_append_time else NO_TIMESTAMP,
            record_count=0,
        ),
        b"",
    )


def _without_marked(header: BatchHeader, data: Bytes, batch: Int64s, marks: Bytes) -> bytes:
    start, end = int(batch[table.START]), int(batch[table.END])
    kept = np.empty(end - start, np.uint8)
    size, count, latest = kernels.copy_unmarked(data, start, end, marks, kept)
    newest = header.max_timestamp if header.has_append_time else header.base_timestamp + latest
    return _batch(
        header._replace(max_timestamp=newest, record_count=count),
        compress(header.codec, kept[:size].data),
    )


def _batch(header: BatchHeader, records: bytes) -> bytes:
    length = HEADER_SIZE - LENGTH_END + len(records)
    batch = bytearray(LAYOUT.pack(*header._replace(length=length)))
    batch += records
    write_checksum(batch)
    return bytes(batch)
