"""Record batches into Arrow columns: find the batches, expand compressed ones, run the kernels."""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.records.codecs import MAX_DECOMPRESSED_BYTES, decompress
from headrace.records.columns import decode_columns
from headrace.records.errors import (
    DecompressionFailed,
    DecompressionLimit,
    InvalidBatch,
    TruncatedBatch,
)
from headrace.records.header import Readable, read_header, require_whole
from headrace.records.kernels import batches as table
from headrace.records.kernels.compiled import Bytes, Int64s, read_only
from headrace.records.schema import record_schema
from headrace.records.validate import verify_checksum

CHUNK_BYTES: Final = 16 << 20
"""Bytes of records in one Arrow batch, roughly: enough to be fast, few enough to be reused."""

# Arrow counts the bytes of a column in 32 bits: the stored and the expanded part of a chunk, and
# the batch that fills it up, stay below that together.
_MAX_CHUNK_BYTES: Final = 256 << 20
_MAX_EXPANDED_BATCH: Final = 1 << 30

PartialTail = Literal["raise", "ignore"]
"""What to do about a last batch that is cut off, as in most Fetch responses."""


def decode(
    buffer: Readable,
    *,
    keys: bool = True,
    headers: bool = True,
    min_offset: int = 0,
    control: bool = False,
    partial_tail: PartialTail = "raise",
    verify_crc: bool = False,
    limit: int = MAX_DECOMPRESSED_BYTES,
) -> pa.Table:
    """Decode the record batches that `buffer` consists of into one table.

    The options and errors are those of `decode_batches`, which does the same a piece at a time.
    """
    chunks = decode_batches(
        buffer,
        keys=keys,
        headers=headers,
        min_offset=min_offset,
        control=control,
        partial_tail=partial_tail,
        verify_crc=verify_crc,
        limit=limit,
    )
    return pa.Table.from_batches(chunks, record_schema(keys=keys, headers=headers))


def decode_batches(
    buffer: Readable,
    *,
    keys: bool = True,
    headers: bool = True,
    min_offset: int = 0,
    control: bool = False,
    partial_tail: PartialTail = "raise",
    verify_crc: bool = False,
    limit: int = MAX_DECOMPRESSED_BYTES,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Decode record batches into Arrow batches of about `chunk_bytes` each.

    Args:
        buffer: Batches one after the other: a segment, or the records of a Fetch response. It must
            not change before the last Arrow batch is there.
        keys: Whether to have a column of keys.
        headers: Whether to have a column of headers. Without it they are not even looked at.
        min_offset: Leave out records before this offset; a fetch begins with the whole batch that
            holds the offset asked for.
        control: Whether to treat transaction markers as records too.
        partial_tail: Whether a last batch that is cut off is an error.
        verify_crc: Whether to check the checksum of every batch that is decoded.
        limit: Bytes that one compressed batch may expand to, at most 1 GiB.
        chunk_bytes: Bytes of records after which an Arrow batch is complete.

    Raises:
        MalformedBatch: The bytes are not record batches; says where, and the batch's offset.
        DecompressionLimit: A batch expands beyond `limit`.
    """
    view = memoryview(buffer).cast("B")
    batches = describe(view, min_offset, control, partial_tail)
    stored = read_only(view, np.uint8)
    for chunk in chunks(
        view,
        batches,
        min(chunk_bytes, _MAX_CHUNK_BYTES),
        min(limit, _MAX_EXPANDED_BATCH),
        verify_crc=verify_crc,
    ):
        decoded = decode_columns(
            stored, chunk.expanded, chunk.batches, min_offset, keys=keys, headers=headers
        )
        if decoded.num_rows:
            yield decoded


class Chunk(NamedTuple):
    """Batches that are looked at together, and the records of those that were compressed."""

    batches: Int64s
    """The table of batches; `START` and `END` of a compressed one are places in `expanded`."""

    expanded: Bytes


def describe(view: memoryview, min_offset: int, control: bool, partial_tail: PartialTail) -> Int64s:
    """The table of the batches in a buffer that have records to decode; see `decode_batches`."""
    data = read_only(view, np.uint8)
    count, end = table.count_batches(data)
    if end < len(view):
        try:
            require_whole(read_header(view, end), end, len(view))
        except TruncatedBatch:
            if partial_tail == "raise":
                raise
    batches = np.empty((count, table.BATCH_COLUMNS), np.int64)
    found, position, problem = table.describe_batches(data, min_offset, control, batches)
    if problem:
        header = read_header(view, position)
        raise InvalidBatch(table.BATCH_PROBLEMS[problem], position, header.base_offset)
    return batches[:found]


def chunks(
    view: memoryview, batches: Int64s, chunk_bytes: int, limit: int, *, verify_crc: bool
) -> Iterator[Chunk]:
    """Expand what is compressed, about `chunk_bytes` of records at a time."""
    ends = batches[:, table.END].copy()
    first = verified = 0
    while first < len(batches):
        stored_until = batches[first, table.POSITION] + chunk_bytes
        last = max(first + 1, int(np.searchsorted(ends, stored_until, side="right")))
        if verify_crc:
            for position in batches[max(first, verified) : last, table.POSITION].tolist():
                verify_checksum(view, read_header(view, position), position)
            verified = last
        pieces: list[Readable] = []
        expanded = 0
        for index in first + np.flatnonzero(batches[first:last, table.CODEC]):
            piece = _expand(view, batches[index], limit)
            batches[index, table.START] = expanded
            expanded += len(piece)
            batches[index, table.END] = expanded
            pieces.append(piece)
            if expanded >= chunk_bytes:
                last = int(index) + 1
                break
        yield Chunk(batches[first:last], read_only(b"".join(pieces), np.uint8))
        first = last


def _expand(view: memoryview, batch: Int64s, limit: int) -> Readable:
    position, start, end = (
        int(batch[column]) for column in (table.POSITION, table.START, table.END)
    )
    base_offset = int(batch[table.BASE_OFFSET])
    try:
        records = decompress(int(batch[table.CODEC]), view[start:end], limit=limit)
    except DecompressionFailed as error:
        raise InvalidBatch(str(error), position, base_offset) from error
    except DecompressionLimit as error:
        where = f"record batch at byte {position} with base offset {base_offset}"
        raise DecompressionLimit(f"{where}: {error}") from error
    if batch[table.RECORD_COUNT] * table.MIN_RECORD_SIZE > len(records):
        problem = table.BATCH_PROBLEMS[table.IMPOSSIBLE_COUNT]
        raise InvalidBatch(problem, position, base_offset)
    return records
