"""Some whole batches at a time, with all that compaction has to know of each."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from headrace.records.codecs import MAX_DECOMPRESSED_BYTES, decompress
from headrace.records.errors import DecompressionFailed, DecompressionLimit, InvalidBatch
from headrace.records.header import HEADER_SIZE, LENGTH_END, Readable, read_header, require_whole
from headrace.records.kernels import stored
from headrace.records.kernels.batches import BATCH_PROBLEMS, MIN_RECORD_SIZE, count_batches
from headrace.records.kernels.compiled import Bytes, Int64s, read_only
from headrace.records.validate import verify_checksum

_MAX_EXPANDED_PIECE: Final = 1 << 30


class Piece:
    """Some whole batches of a segment."""

    __slots__ = ("batches", "expanded", "size", "stored", "view")

    def __init__(self, view: memoryview, size: int, batches: Int64s) -> None:
        self.view = view
        self.size = size
        """How many bytes the batches have together."""
        self.batches = batches
        self.stored = read_only(view, np.uint8)
        self.expanded = self._expand()

    @property
    def end_offset(self) -> int:
        """The offset behind the last batch."""
        return int(self.batches[-1, stored.LAST_OFFSET]) + 1

    def verify(self, rows: Iterable[int]) -> None:
        """Raise `CorruptBatch` unless the checksums of these batches match."""
        for position in self.batches[list(rows), stored.POSITION].tolist():
            verify_checksum(self.view, read_header(self.view, position), position)

    def fault(self, row: int, problem: str) -> InvalidBatch:
        """What to raise because of a batch."""
        batch = self.batches[row]
        return InvalidBatch(problem, int(batch[stored.POSITION]), int(batch[stored.BASE_OFFSET]))

    def _expand(self) -> Bytes:
        parts: list[Readable] = []
        expanded = 0
        for row in np.flatnonzero(self.batches[:, stored.CODEC]).tolist():
            batch = self.batches[row]
            start, end = int(batch[stored.DATA_START]), int(batch[stored.DATA_END])
            if not batch[stored.RECORD_COUNT]:
                batch[stored.DATA_START] = batch[stored.DATA_END] = expanded
                continue
            limit = min(MAX_DECOMPRESSED_BYTES, _MAX_EXPANDED_PIECE - expanded)
            try:
                part = decompress(int(batch[stored.CODEC]), self.view[start:end], limit=limit)
            except (DecompressionFailed, DecompressionLimit) as error:
                raise self.fault(row, str(error)) from error
            if batch[stored.RECORD_COUNT] * MIN_RECORD_SIZE > len(part):
                raise self.fault(row, "its record count does not fit its size")
            batch[stored.DATA_START] = expanded
            expanded += len(part)
            batch[stored.DATA_END] = expanded
            parts.append(part)
        return read_only(b"".join(parts), np.uint8)


def read_piece(data: Readable, first_offset: int, end_offset: int) -> Piece:
    """Take the whole batches at the beginning of `data`, which must not change meanwhile.

    The first of them may be cut off: then the piece's size is 0, and more bytes are needed. Raises
    `MalformedBatch` if the bytes are not record batches with rising offsets in that range.
    """
    view = memoryview(data).cast("B")
    array = read_only(view, np.uint8)
    count, size = count_batches(array)
    if size < len(view) and len(view) - size >= HEADER_SIZE:
        header = read_header(view, size)
        require_whole(header, size, max(len(view), size + LENGTH_END + header.length))
    batches = np.empty((count, stored.STORED_COLUMNS), np.int64)
    row, problem = stored.list_batches(array, first_offset, end_offset, batches)
    if problem:
        position = int(batches[row - 1, stored.END]) if row else 0
        offset = read_header(view, position).base_offset
        raise InvalidBatch(BATCH_PROBLEMS[problem], position, offset)
    return Piece(view[:size], size, batches)
