import gzip
import os
import struct
import tracemalloc
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records import (
    Codec,
    DecompressionFailed,
    DecompressionLimit,
    UnsupportedCodec,
    compress,
    decompress,
)
from tests.records.strategies import codecs, large_bytes

TEXT = b"the quick brown fox jumps over the lazy dog " * 5_000
COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def xerial(*blocks: bytes) -> bytes:
    framed = [struct.pack(">i", len(block)) + block for block in blocks]
    return XERIAL_HEADER + b"".join(framed)


@given(codecs, large_bytes)
@settings(deadline=None)
def test_what_is_compressed_can_be_decompressed(codec: Codec, data: bytes):
    assert bytes(decompress(codec, compress(codec, data))) == data


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(codec: Codec, kind: type):
    assert bytes(decompress(codec, kind(compress(codec, kind(TEXT))))) == TEXT


@pytest.mark.parametrize("codec", Codec)
def test_data_that_does_not_compress_survives(codec: Codec):
    noise = os.urandom(200_000)
    assert bytes(decompress(codec, compress(codec, noise))) == noise


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_lz4_frames_are_read_by_an_independent_implementation(size: int):
    data = TEXT[:size]
    assert bytes(cramjam.lz4.decompress(compress(Codec.LZ4, data))) == data


def test_lz4_blocks_do_not_depend_on_each_other_because_java_would_refuse_them():
    flags = compress(Codec.LZ4, TEXT)[4]
    assert flags & 0b10_0000


@pytest.mark.parametrize(
    ("codec", "frame"),
    [
        pytest.param(Codec.GZIP, gzip.compress, id="gzip"),
        pytest.param(Codec.LZ4, lambda data: bytes(cramjam.lz4.compress(data)), id="lz4"),
        pytest.param(Codec.ZSTD, lambda data: bytes(cramjam.zstd.compress(data)), id="zstd"),
    ],
)
def test_several_frames_are_read_as_one(codec: Codec, frame):
    assert bytes(decompress(codec, frame(b"one ") + frame(b"two"))) == b"one two"


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("codec", "nothing"),
    [
        pytest.param(Codec.GZIP, gzip.compress(b""), id="gzip"),
        pytest.param(Codec.LZ4, bytes(cramjam.lz4.compress(b"")), id="lz4"),
        pytest.param(Codec.ZSTD, bytes(cramjam.zstd.compress(b"")), id="zstd"),
    ],
)
def test_a_great_many_empty_frames_take_no_great_time(codec: Codec, nothing: bytes):
    assert bytes(decompress(codec, nothing * (4_000_000 // len(nothing)))) == b""


def test_snappy_is_read_bare_and_in_xerial_chunks():
    blocks = [bytes(cramjam.snappy.compress_raw(part)) for part in (b"one ", TEXT)]
    assert bytes(decompress(Codec.SNAPPY, blocks[1])) == TEXT
    assert bytes(decompress(Codec.SNAPPY, xerial(*blocks))) == b"one " + TEXT
    assert bytes(decompress(Codec.SNAPPY, xerial())) == b""


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_is_stopped_at_the_limit_without_taking_the_memory(codec: Codec):
    bomb = compress(codec, bytes(64 << 20))
    decompress(codec, compress(codec, b"warm"))
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionLimit, match="smaller batches"):
            decompress(codec, bomb, limit=1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


@pytest.mark.parametrize("codec", Codec)
def test_the_limit_itself_is_allowed(codec: Codec):
    packed = compress(codec, TEXT)
    assert len(decompress(codec, packed, limit=len(TEXT))) == len(TEXT)
    with pytest.raises(DecompressionLimit):
        decompress(codec, packed, limit=len(TEXT) - 1)


def test_the_limit_counts_all_frames_together():
    member = gzip.compress(bytes(1000))
    with pytest.raises(DecompressionLimit):
        decompress(Codec.GZIP, member * 3, limit=2_999)
    chunk = bytes(cramjam.snappy.compress_raw(bytes(1000)))
    with pytest.raises(DecompressionLimit):
        decompress(Codec.SNAPPY, xerial(chunk, chunk, chunk), limit=2_999)


def test_a_snappy_block_that_claims_gigabytes_is_not_believed():
    with pytest.raises(DecompressionLimit):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"x" * 100)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_data_that_is_cut_short_is_refused(codec: Codec):
    packed = compress(codec, TEXT)
    for kept in (0, 1, 3, len(packed) // 2, len(packed) - 1):
        if kept == 0 and codec in {Codec.LZ4, Codec.ZSTD}:
            continue  # nothing at all is a valid sequence of no frames
        with pytest.raises(DecompressionFailed):
            decompress(codec, packed[:kept])


@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=st.binary(max_size=200))
@settings(deadline=None, max_examples=50)
def test_noise_is_refused_or_small(codec: Codec, data: bytes):
    with suppress(DecompressionFailed, DecompressionLimit):
        assert len(decompress(codec, data, limit=1 << 16)) <= 1 << 16


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(XERIAL_HEADER[:12], id="cut header"),
        pytest.param(XERIAL_HEADER + b"\x00", id="cut length"),
        pytest.param(XERIAL_HEADER + struct.pack(">i", 100), id="missing chunk"),
        pytest.param(XERIAL_HEADER + struct.pack(">i", -1) + b"abc", id="negative length"),
        pytest.param(XERIAL_HEADER + struct.pack(">i", 0) + b"abc", id="no length"),
        pytest.param(b"\x80\x80\x80\x80\x80\x01", id="endless size"),
    ],
)
def test_broken_snappy_framing_is_refused(broken: bytes):
    with pytest.raises(DecompressionFailed):
        decompress(Codec.SNAPPY, broken)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_a_codec_that_does_not_exist_is_refused(codec: int):
    with pytest.raises(UnsupportedCodec, match="4 zstd"):
        compress(codec, b"")
    with pytest.raises(UnsupportedCodec):
        decompress(codec, b"")
