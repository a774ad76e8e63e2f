"""Finding the next batch in a file when nothing says where it begins."""

import re
import struct
from typing import Final

from headrace.log.handles import FileHandle
from headrace.records import (
    HEADER_SIZE,
    BatchHeader,
    MalformedBatch,
    read_header,
    validate_batch,
)
from headrace.records.header import MAGIC, MAGIC_AT

SEARCH_BYTES: Final = 1 << 20
"""How much is searched at once."""

_HIGH_HALF: Final = struct.Struct(">I")


def find_batch(handle: FileHandle, position: int, end: int, lowest: int, highest: int) -> int:
    """Where the first intact batch begins from `position` on, or `end` if there is none.

    Its offsets lie from `lowest` to before `highest`, and what follows it looks like a batch, too:
    records may well contain a copy of one.
    """
    pattern = _pattern(lowest, highest)
    while position + HEADER_SIZE <= end:
        window = handle.read(min(SEARCH_BYTES + HEADER_SIZE, end - position), position)
        for match in pattern.finditer(window):
            found = position + match.start()
            header = _intact(handle, found, end, lowest, highest)
            if header is not None and _continues(handle, found + header.size, end, header):
                return found
        if position + len(window) >= end:
            break
        position += SEARCH_BYTES
    return end


def _pattern(lowest: int, highest: int) -> re.Pattern[bytes]:
    """What headers of such offsets look like: the first half of the offset, and the format."""
    halves = {_HIGH_HALF.pack(offset >> 32 & 0xFFFFFFFF) for offset in (lowest, highest)}
    starts = b"|".join(re.escape(half) for half in sorted(halves))
    gap = MAGIC_AT - _HIGH_HALF.size
    return re.compile(
        b"(?=(?:%b)[\\x00-\\xff]{%d}%b)" % (starts, gap, re.escape(bytes([MAGIC]))), re.DOTALL
    )


def _intact(
    handle: FileHandle, position: int, end: int, lowest: int, highest: int
) -> BatchHeader | None:
    try:
        header = read_header(handle.read(min(HEADER_SIZE, end - position), position))
        if not lowest <= header.base_offset < highest or header.next_offset > highest:
            return None
        if not HEADER_SIZE <= header.size <= end - position:
            return None
        validate_batch(handle.read(header.size, position), header, gaps=True)
    except MalformedBatch:
        return None
    return header


def _continues(handle: FileHandle, position: int, end: int, before: BatchHeader) -> bool:
    if position + HEADER_SIZE > end:
        return position == end
    header = read_header(handle.read(HEADER_SIZE, position))
    return header.magic == MAGIC and header.base_offset >= before.next_offset
