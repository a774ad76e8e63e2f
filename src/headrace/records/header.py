"""The 61 bytes in front of every v2 record batch.

All that a broker has to know about a batch stands in its header, so this module is on the path of
every produced and fetched byte: reading one is a single `struct` call, and nothing is copied.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from headrace.records.errors import InvalidBatch, TruncatedBatch, UnsupportedMagic

Readable: TypeAlias = bytes | bytearray | memoryview
"""Bytes to read from; a memoryview must be one-dimensional and of single bytes."""

MAGIC: Final = 2
"""The one message format that Headrace speaks."""

MAGIC_AT: Final = 16
"""Where the message format stands in a batch; the same place in every format there ever was."""

LENGTH_END: Final = 12
"""The length field ends here; it counts the bytes that follow it."""

HEADER_SIZE: Final = 61
"""Bytes before the first record (or before the compressed block of records)."""

CODEC_MASK: Final = 0b111
"""Attribute bits that hold the compression codec."""

APPEND_TIME: Final = 1 << 3
"""Attribute bit: the broker's clock set the timestamp of every record."""

TRANSACTIONAL: Final = 1 << 4
"""Attribute bit: the batch belongs to a transaction."""

CONTROL: Final = 1 << 5
"""Attribute bit: the batch holds a transaction marker instead of records."""

DELETE_HORIZON: Final = 1 << 6
"""Attribute bit: compaction has put the time at which tombstones go in place of the base timestamp.

The timestamps of the records count from there, so whoever only reads need not know (KIP-534).
"""

LAYOUT: Final = struct.Struct(">qiibIhiqqqhii")
"""The fields of `BatchHeader` as they are stored."""

_unpack = LAYOUT.unpack_from
_new = tuple.__new__


class BatchHeader(NamedTuple):
    """The fields of a batch header, in the order in which they are stored."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return LENGTH_END + self.length

    @property
    def last_offset(self) -> int:
        """Offset of the batch's last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset at which the following batch begins."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """Compression codec id; a `Codec` unless the batch is invalid."""
        return self.attributes & CODEC_MASK

    @property
    def has_append_time(self) -> bool:
        """Whether every record's timestamp is `max_timestamp`, set by the broker."""
        return self.attributes & APPEND_TIME != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time from which on compaction removes tombstones."""
        return self.attributes & DELETE_HORIZON != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a transaction marker instead of records."""
        return self.attributes & CONTROL != 0


def read_header(buffer: Readable, position: int = 0) -> BatchHeader:
    """Read the header of the batch at `position`, believing everything in it.

    Raises `TruncatedBatch` if fewer than 61 bytes are left, or `UnsupportedMagic` if those belong
    to one of the older, shorter formats.
    """
    try:
        return _new(BatchHeader, _unpack(buffer, position))
    except struct.error:
        raise _too_short(buffer, position) from None


def iterate_headers(
    buffer: Readable, position: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Hop from batch to batch between `position` and `end`, yielding each one's place and header.

    Costs one header per batch; checksums are left alone. Raises what `require_whole` raises; the
    error's `position` is how far whole batches reach.
    """
    if end is None:
        end = len(buffer)
    while position < end:
        header = read_header(buffer, position)
        require_whole(header, position, end)
        yield position, header
        position += LENGTH_END + header.length


def require_whole(header: BatchHeader, position: int, end: int) -> None:
    """Refuse a batch that begins at `position` unless it is of format 2 and ends by `end`.

    Raises `UnsupportedMagic`, `InvalidBatch` if the length does not even cover the header, or
    `TruncatedBatch`.
    """
    if header.magic != MAGIC:
        raise _unsupported_magic(header.magic, position)
    if header.length < HEADER_SIZE - LENGTH_END:
        raise InvalidBatch(
            f"its length of {header.length} does not cover the {HEADER_SIZE} bytes of its header",
            position,
            header.base_offset,
        )
    if header.length > end - position - LENGTH_END:
        raise TruncatedBatch(
            f"its length says {header.size} bytes but only {end - position} are there",
            position,
            header.base_offset,
        )


def _too_short(buffer: Readable, position: int) -> TruncatedBatch | UnsupportedMagic:
    available = max(len(buffer) - position, 0)
    if available > MAGIC_AT and buffer[position + MAGIC_AT] != MAGIC:
        return _unsupported_magic(buffer[position + MAGIC_AT], position)
    return TruncatedBatch(
        f"a header has {HEADER_SIZE} bytes but only {available} are there", position
    )


def _unsupported_magic(magic: int, position: int) -> UnsupportedMagic:
    return UnsupportedMagic(
        f"message format {magic} is not {MAGIC}, the only one supported; "
        "use a client of Kafka 0.11 or newer",
        position,
    )
