"""Strings: copied as they are where they have no escapes, else written out."""

from typing import Final

from headrace.records.kernels.compiled import Bytes, Int32s, compiled, copy_bytes
from headrace.streams.formats.kernels.memory import address, byte_at
from headrace.streams.formats.kernels.tokens import ABSENT, ARRAY, ESCAPED, OBJECT, PLAIN, hex_digit

WRONG_KIND: Final = 3
HALF_CHARACTER: Final = 4

_HIGH_SURROGATES: Final = 0xD800
_LOW_SURROGATES: Final = 0xDC00
_AFTER_SURROGATES: Final = 0xE000


@compiled
def _unit(memory: int, position: int) -> int:
    """The number that four hexadecimal digits write."""
    number = 0
    for place in range(position, position + 4):
        number = number * 16 + hex_digit(byte_at(memory, place))
    return number


@compiled
def _put(target: Bytes, at: int, character: int) -> int:
    """Write a character in UTF-8; returns where the next one goes."""
    if character < 0x80:
        target[at] = character
        return at + 1
    if character < 0x800:
        target[at] = 0xC0 | (character >> 6)
        target[at + 1] = 0x80 | (character & 0x3F)
        return at + 2
    if character < 0x10000:
        target[at] = 0xE0 | (character >> 12)
        target[at + 1] = 0x80 | ((character >> 6) & 0x3F)
        target[at + 2] = 0x80 | (character & 0x3F)
        return at + 3
    target[at] = 0xF0 | (character >> 18)
    target[at + 1] = 0x80 | ((character >> 12) & 0x3F)
    target[at + 2] = 0x80 | ((character >> 6) & 0x3F)
    target[at + 3] = 0x80 | (character & 0x3F)
    return at + 4


@compiled
def _simple(byte: int) -> int:
    """What a backslash and this letter stand for."""
    if byte == 0x6E:
        return 0x0A
    if byte == 0x74:
        return 0x09
    if byte == 0x72:
        return 0x0D
    if byte == 0x62:
        return 0x08
    if byte == 0x66:
        return 0x0C
    return byte


@compiled
def unescape(memory: int, start: int, end: int, target: Bytes, at: int) -> int:
    """Write the text between two quotes, which the grammar has passed, into `target[at:]`.

    It never takes more room than the text. Returns its length, or -1 if it has half a surrogate
    pair, which is no character.
    """
    began = at
    position = start
    while position < end:
        byte = byte_at(memory, position)
        if byte != 0x5C:
            target[at] = byte
            at += 1
            position += 1
            continue
        letter = byte_at(memory, position + 1)
        if letter != 0x75:
            target[at] = _simple(letter)
            at += 1
            position += 2
            continue
        character = _unit(memory, position + 2)
        position += 6
        if _HIGH_SURROGATES <= character < _AFTER_SURROGATES:
            paired = (
                character < _LOW_SURROGATES
                and position + 6 <= end
                and byte_at(memory, position) == 0x5C
                and byte_at(memory, position + 1) == 0x75
            )
            low = _unit(memory, position + 2) if paired else 0
            if not _LOW_SURROGATES <= low < _AFTER_SURROGATES:
                return -1
            position += 6
            character = 0x10000 + ((character - _HIGH_SURROGATES) << 10) + (low - _LOW_SURROGATES)
        at = _put(target, at, character)
    return at - began


@compiled
def read_strings(
    data: Bytes,
    kinds: Bytes,
    starts: Int32s,
    ends: Int32s,
    bounds: Int32s,
    target: Bytes,
    problems: Bytes,
) -> None:
    """Strings, one after the other, and where they end; objects and arrays give their JSON text."""
    memory = address(data)
    at = 0
    bounds[0] = 0
    for row in range(len(kinds)):
        kind = kinds[row]
        start = int(starts[row])
        end = int(ends[row])
        if kind == PLAIN:
            copy_bytes(data, start + 1, target, at, end - start - 2)
            at += end - start - 2
        elif kind == ESCAPED:
            length = unescape(memory, start + 1, end - 1, target, at)
            if length < 0:
                problems[row] = HALF_CHARACTER
            else:
                at += length
        elif kind in (OBJECT, ARRAY):
            copy_bytes(data, start, target, at, end - start)
            at += end - start
        elif kind != ABSENT:
            problems[row] = WRONG_KIND
        bounds[row + 1] = at
