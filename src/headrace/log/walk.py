"""From batch to batch through a segment file, reading little more than their headers."""

from collections.abc import Iterator
from typing import Final

from headrace.log.handles import FileHandle
from headrace.records import (
    HEADER_SIZE,
    BatchHeader,
    InvalidBatch,
    read_header,
    validate_batch,
)

SCAN_BYTES: Final = 1 << 20
"""How much is read at once where every byte is looked at."""

STEP_BYTES: Final = 4096 + HEADER_SIZE
"""How much is read at once where only headers are; covers the usual gap between index entries."""


def headers(
    handle: FileHandle, position: int, end: int, step: int = STEP_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the place and header of every batch from one known to begin at `position` to `end`."""
    chunk = b""
    chunk_position = position
    while position + HEADER_SIZE <= end:
        if position + HEADER_SIZE > chunk_position + len(chunk):
            chunk = handle.read(min(step, end - position), position)
            chunk_position = position
        header = read_header(chunk, position - chunk_position)
        if header.size < HEADER_SIZE:
            raise InvalidBatch(
                f"length {header.length} cannot be: the file is damaged, check the disk",
                position,
                header.base_offset,
            )
        yield position, header
        position += header.size


def valid_batches(
    handle: FileHandle, position: int, end: int, *, gaps: bool = False
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield like `headers`, but believe nothing: every batch is checked down to its last byte.

    Raises `MalformedBatch` at the first that is torn or damaged; `gaps` as in `validate_batch`.
    """
    chunk = b""
    offset = 0
    while position < end:
        if offset + HEADER_SIZE > len(chunk):
            chunk, offset = _read(handle, position, SCAN_BYTES, end), 0
        header = read_header(chunk, offset)
        size = header.size
        if offset + size > len(chunk) and position + size <= end:
            chunk, offset = _read(handle, position, max(SCAN_BYTES, size), end), 0
        validate_batch(chunk, header, offset, gaps=gaps)
        yield position, header
        offset += size
        position += size


def _read(handle: FileHandle, position: int, count: int, end: int) -> bytes:
    return handle.read(min(count, end - position), position)
