"""The compression codecs of record batches, with a bound on what may come out.

A few kilobytes can be made to expand into gigabytes, so decompression stops at a limit: the memory
it takes depends on that limit and never on what the bytes claim. gzip comes from the standard
library; the others from pyarrow, which is imported when the first such batch is met.
"""

import struct
import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from headrace.records.errors import DecompressionFailed, DecompressionLimit, UnsupportedCodec
from headrace.records.header import Readable

if TYPE_CHECKING:
    import pyarrow as pa

MAX_DECOMPRESSED_BYTES: Final = 128 << 20
"""How much one batch may expand to unless the caller says otherwise."""

_GZIP_WBITS: Final = 31
_FIRST_READ: Final = 64 << 10

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE: Final = 16

# An LZ4 frame descriptor (version 1, independent blocks of at most 64 KiB, no checksums) with its
# own check byte. Java's reader refuses blocks that depend on earlier ones, and those are what
# pyarrow's frames are made of beyond 64 KiB, so frames are put together here from raw blocks.
_LZ4_FRAME_HEADER: Final = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_SIZE: Final = 64 << 10
_LZ4_STORED: Final = 1 << 31
_LZ4_END_MARK: Final = bytes(4)

_chunk_length = struct.Struct(">i")
_block_length = struct.Struct("<I")


class Codec(IntEnum):
    """Compression codec ids, as stored in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: Readable) -> bytes:
    """Compress the records of a batch in the form that every Kafka client can read."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return zlib.compress(data, wbits=_GZIP_WBITS)
        case Codec.LZ4:
            return _compress_lz4(data)
        case Codec.SNAPPY | Codec.ZSTD:
            name = Codec(codec).name.lower()
            compressed: bytes = _arrow_codec(name).compress(data, asbytes=True)
            return compressed
    raise _unsupported(codec)


def decompress(codec: int, data: Readable, *, limit: int = MAX_DECOMPRESSED_BYTES) -> Readable:
    """Undo `compress`, whichever client did it.

    Raises `DecompressionLimit` when more than `limit` bytes would come out, `DecompressionFailed`
    when the bytes are damaged or cut short, and `UnsupportedCodec` for an id that does not exist.
    """
    match codec:
        case Codec.NONE:
            if len(data) > limit:
                raise _beyond(limit)
            return data
        case Codec.GZIP:
            return _decompress_gzip(data, limit)
        case Codec.SNAPPY:
            return _decompress_snappy(data, limit)
        case Codec.LZ4 | Codec.ZSTD:
            return _decompress_stream(Codec(codec).name.lower(), data, limit)
    raise _unsupported(codec)


def _decompress_gzip(data: Readable, limit: int) -> Readable:
    member = zlib.decompressobj(wbits=_GZIP_WBITS)
    try:
        plain = member.decompress(data, limit + 1)
    except zlib.error as error:
        raise DecompressionFailed(f"gzip data is damaged: {error}") from error
    if len(plain) > limit:
        raise _beyond(limit)
    if not member.eof:
        raise DecompressionFailed("gzip data is cut short")
    if member.unused_data:
        # The standard library copies all that follows a member: a trap if there are thousands.
        return _decompress_stream("gzip", data, limit)
    return plain


def _decompress_stream(name: str, data: Readable, limit: int) -> Readable:
    import pyarrow as pa

    pieces: list[bytes] = []
    total = 0
    wanted = max(_FIRST_READ, 4 * len(data))
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
            while piece := stream.read(min(wanted, limit - total + 1)):
                pieces.append(piece)
                total += len(piece)
                if total > limit:
                    raise _beyond(limit)
    except (OSError, ValueError) as error:
        raise DecompressionFailed(f"{name} data is damaged: {error}") from error
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _decompress_snappy(data: Readable, limit: int) -> Readable:
    block_codec = _arrow_codec("snappy")
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(block_codec, data, limit)
    pieces: list[Readable] = []
    total = 0
    view = memoryview(data)
    position = _XERIAL_HEADER_SIZE
    while position != len(view):
        start = position + _chunk_length.size
        if start > len(view):
            raise DecompressionFailed("snappy data is cut short")
        (length,) = _chunk_length.unpack_from(view, position)
        position = start + length
        if length < 1 or position > len(view):
            raise DecompressionFailed(f"a snappy chunk cannot have {length} bytes here")
        piece = _decompress_snappy_block(block_codec, view[start:position], limit - total)
        pieces.append(piece)
        total += len(piece)
    return b"".join(pieces)


def _decompress_snappy_block(block_codec: "pa.Codec", data: Readable, limit: int) -> Readable:
    size = _snappy_size(data)
    if size > limit:
        raise _beyond(limit)
    try:
        return memoryview(block_codec.decompress(data, size)).cast("B")
    except (OSError, ValueError) as error:
        raise DecompressionFailed(f"snappy data is damaged: {error}") from error


def _snappy_size(data: Readable) -> int:
    size = 0
    for index, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise DecompressionFailed("snappy data does not begin with a size")


def _compress_lz4(data: Readable) -> bytes:
    block_codec = _arrow_codec("lz4_raw")
    frame = bytearray(_LZ4_FRAME_HEADER)
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK_SIZE):
        plain = view[start : start + _LZ4_BLOCK_SIZE]
        block = block_codec.compress(plain, asbytes=True)
        if len(block) < len(plain):
            frame += _block_length.pack(len(block))
            frame += block
        else:
            frame += _block_length.pack(len(plain) | _LZ4_STORED)
            frame += plain
    frame += _LZ4_END_MARK
    return bytes(frame)


def _arrow_codec(name: str) -> "pa.Codec":
    import pyarrow as pa

    return pa.Codec(name)


def _beyond(limit: int) -> DecompressionLimit:
    return DecompressionLimit(
        f"a batch expands to more than {limit} bytes: let producers send smaller batches, "
        "or raise the limit"
    )


def _unsupported(codec: int) -> UnsupportedCodec:
    known = ", ".join(f"{each.value} {each.name.lower()}" for each in Codec)
    return UnsupportedCodec(f"compression codec {codec} does not exist; there are {known}")
