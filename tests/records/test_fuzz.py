"""Damaged and random bytes through every entry point: typed errors, nothing else, and in bounds."""

import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records import (
    HEADER_SIZE,
    Codec,
    Record,
    RecordError,
    build_batch,
    compress,
    first_at_or_after,
    iterate_headers,
    read_header,
    validate_batch,
)
from headrace.records import columns as columns_module
from headrace.records.arrow import decode
from headrace.records.header import LAYOUT
from headrace.records.validate import write_checksum

LIMIT = 1 << 20
INTERESTING = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
GUARD = 64

RECORDS = [
    Record(b"key", b"value", 1_700_000_000_000),
    Record(None, b"", 1_699_999_999_999, (("name", b"value"), ("null", None))),
    Record(b"", None, 1_700_000_000_500),
    Record(b"k" * 70, b"v" * 200, 1_700_000_000_001, (("", b""),)),
]


def validate(data: bytes) -> None:
    validate_batch(data, read_header(data))


def search(data: bytes) -> None:
    first_at_or_after(data, 1_700_000_000_400, limit=LIMIT)


def search_to_the_end(data: bytes) -> None:
    first_at_or_after(data, 1 << 62, limit=LIMIT)


def decode_all(data: bytes) -> None:
    decode(data, limit=LIMIT).validate(full=True)


def decode_some(data: bytes) -> None:
    table = decode(
        data,
        keys=False,
        headers=False,
        min_offset=2,
        control=True,
        partial_tail="ignore",
        limit=LIMIT,
    )
    table.validate(full=True)


ENTRY_POINTS: dict[str, Callable[[bytes], object]] = {
    "read_header": read_header,
    "iterate_headers": lambda data: list(iterate_headers(data)),
    "validate_batch": validate,
    "first_at_or_after": search,
    "first_at_or_after to the end": search_to_the_end,
    "decode": decode_all,
    "decode some": decode_some,
}

entry_points = pytest.mark.parametrize("enter", ENTRY_POINTS.values(), ids=ENTRY_POINTS.keys())


def damage(data: bytes, chance: random.Random) -> bytes:
    """Change a few bytes, or the length, in one of the ways in which bytes get damaged."""
    damaged = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(damaged) + 1)
        match chance.randrange(6):
            case 0 if at < len(damaged):
                damaged[at] ^= 1 << chance.randrange(8)
            case 1 if at < len(damaged):
                damaged[at] = chance.choice(INTERESTING)
            case 2:
                count = chance.randrange(1, 12)
                damaged[at : at + count] = bytes([chance.choice(INTERESTING)]) * count
            case 3:
                del damaged[at : at + chance.randrange(1, 10)]
            case 4:
                damaged[at:at] = chance.randbytes(chance.randrange(1, 10))
            case _:
                damaged[at : at + 8] = chance.randbytes(8)
    return bytes(damaged)


def damaged_batches(count: int) -> Iterator[bytes]:
    """Batches hit anywhere, and batches whose records were hit before they were compressed."""
    chance = random.Random(20_240_229)
    whole = [bytes(build_batch(RECORDS, timestamp=0, codec=codec)) for codec in Codec]
    plain = whole[0][HEADER_SIZE:]
    for index in range(count):
        if index % 2:
            yield damage(chance.choice(whole), chance)
        else:
            codec = chance.choice(list(Codec))
            yield enclosed(damage(plain, chance), codec)


def enclosed(plain: bytes, codec: Codec) -> bytes:
    """A batch that is right in everything but its records."""
    stored = compress(codec, plain)
    header = read_header(build_batch(RECORDS, timestamp=0, codec=codec))
    batch = bytearray(LAYOUT.pack(*header._replace(length=HEADER_SIZE - 12 + len(stored))) + stored)
    write_checksum(batch)
    return bytes(batch)


@entry_points
def test_damaged_batches_raise_typed_errors_only(enter: Callable[[bytes], object]):
    for data in damaged_batches(1_500):
        with suppress(RecordError):
            enter(data)


@entry_points
@given(data=st.binary(max_size=300))
@settings(deadline=None, max_examples=50)
def test_random_bytes_raise_typed_errors_only(enter: Callable[[bytes], object], data: bytes):
    with suppress(RecordError):
        enter(data)


@entry_points
@given(data=st.binary(max_size=200), attributes=st.integers(0, 63))
@settings(deadline=None, max_examples=50)
def test_random_records_in_a_good_batch_raise_typed_errors_only(
    enter: Callable[[bytes], object], data: bytes, attributes: int
):
    header = read_header(build_batch(RECORDS, timestamp=0))
    length = HEADER_SIZE - 12 + len(data)
    with suppress(RecordError):
        enter(LAYOUT.pack(*header._replace(length=length, attributes=attributes)) + data)


@entry_points
def test_every_way_to_cut_a_batch_off_raises_typed_errors_only(enter: Callable[[bytes], object]):
    for codec in Codec:
        batch = bytes(build_batch(RECORDS, timestamp=0, codec=codec))
        for kept in range(len(batch)):
            with suppress(RecordError):
                enter(batch[:kept])


def test_damage_does_not_make_decoding_take_memory():
    decode_all(bytes(build_batch(RECORDS, timestamp=0)))
    tracemalloc.start()
    try:
        for data in damaged_batches(300):
            with suppress(RecordError):
                decode_all(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * LIMIT


def outcome(data: memoryview) -> object:
    try:
        return decode(data, limit=LIMIT)
    except RecordError as error:
        return str(error)


def test_nothing_outside_the_buffer_is_read():
    for data in damaged_batches(600):
        among_zeros = bytes(GUARD) + data + bytes(GUARD)
        among_ones = b"\xff" * GUARD + data + b"\xff" * GUARD
        inside = slice(GUARD, GUARD + len(data))
        assert outcome(memoryview(among_zeros)[inside]) == outcome(memoryview(among_ones)[inside])


class GuardedNumpy(ModuleType):
    """NumPy whose new arrays lie between guards, so that a write outside of one leaves a trace."""

    def __init__(self) -> None:
        super().__init__("numpy")
        self.allocated: list[tuple[np.ndarray[Any, Any], int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, count: int, dtype: type[np.generic]) -> np.ndarray[Any, Any]:
        size = count * np.dtype(dtype).itemsize
        around = np.full(GUARD + size + GUARD, 0xA5, np.uint8)
        self.allocated.append((around, size))
        return around[GUARD : GUARD + size].view(dtype)

    def zeros(self, count: int, dtype: type[np.generic]) -> np.ndarray[Any, Any]:
        array = self.empty(count, dtype)
        array[:] = 0
        return array

    def assert_guards_are_whole(self) -> None:
        for around, size in self.allocated:
            assert (around[:GUARD] == 0xA5).all()
            assert (around[GUARD + size :] == 0xA5).all()


def test_nothing_outside_the_columns_is_written(monkeypatch: pytest.MonkeyPatch):
    for data in damaged_batches(600):
        guarded = GuardedNumpy()
        monkeypatch.setattr(columns_module, "np", guarded)
        for enter in (decode_all, decode_some):
            with suppress(RecordError):
                enter(data)
        guarded.assert_guards_are_whole()
