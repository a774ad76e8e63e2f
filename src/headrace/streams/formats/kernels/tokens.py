"""JSON's grammar: where a value ends, and of which kind it is.

Everything is checked, also in values that nobody asked for: a record is JSON or it is not. Beyond
the standard, `NaN`, `Infinity` and `-Infinity` are numbers, as Python and Java write them.
"""

from typing import Final

import numpy as np

from headrace.records.kernels.compiled import compiled
from headrace.streams.formats.kernels.memory import byte_at, trailing_zeros, word_at

ABSENT: Final = 0
PLAIN: Final = 1
ESCAPED: Final = 2
NUMBER: Final = 3
TRUE: Final = 4
FALSE: Final = 5
OBJECT: Final = 6
ARRAY: Final = 7
NULL: Final = 8

BROKEN: Final = -1
"""The position that is returned when the text is not JSON."""

DEEPEST: Final = 62
"""How deep values may be nested: one bit of a word for each level says what it is."""

_ONES: Final = np.uint64(0x0101010101010101)
_HIGHS: Final = np.uint64(0x8080808080808080)
_QUOTES: Final = np.uint64(0x2222222222222222)
_BACKSLASHES: Final = np.uint64(0x5C5C5C5C5C5C5C5C)
_SPACES: Final = np.uint64(0x2020202020202020)
_BYTE: Final = np.uint64(0xFF)
_TRUE: Final = np.uint64(int.from_bytes(b"true", "little"))
_FALSE: Final = np.uint64(int.from_bytes(b"false", "little"))
_NULL: Final = np.uint64(int.from_bytes(b"null", "little"))
_NAN: Final = np.uint64(int.from_bytes(b"NaN", "little"))
_INFINITY: Final = np.uint64(int.from_bytes(b"Infinity", "little"))


@compiled
def skip_spaces(memory: int, position: int, end: int) -> int:
    """Where the next character that is not white space stands."""
    while position < end:
        byte = byte_at(memory, position)
        if byte > 0x20 or (byte != 0x20 and byte != 0x0A and byte != 0x0D and byte != 0x09):
            break
        position += 1
    return position


@compiled
def skip_string(memory: int, position: int, end: int) -> tuple[int, bool]:
    """From behind the opening quote to behind the closing one; and whether there are escapes."""
    escaped = False
    while position < end:
        if position + 8 <= end:
            word = word_at(memory, position)
            quotes = word ^ _QUOTES
            slashes = word ^ _BACKSLASHES
            # Bytes that are a quote, a backslash or below a space get their high bit set; bytes
            # above 0x7F cannot be any of them.
            found = (
                ((quotes - _ONES) & ~quotes)
                | ((slashes - _ONES) & ~slashes)
                | ((word - _SPACES) & ~word)
            ) & _HIGHS
            if found == np.uint64(0):
                position += 8
                continue
            position += trailing_zeros(found) >> 3
        byte = byte_at(memory, position)
        if byte == 0x22:
            return position + 1, escaped
        if byte == 0x5C:
            escaped = True
            position = _skip_escape(memory, position + 1, end)
            if position == BROKEN:
                return BROKEN, escaped
        elif byte < 0x20:
            return BROKEN, escaped
        else:
            position += 1
    return BROKEN, escaped


@compiled
def hex_digit(byte: int) -> int:
    """The value of a hexadecimal digit, or -1."""
    if 0x30 <= byte <= 0x39:
        return byte - 0x30
    lower = byte | 0x20
    if 0x61 <= lower <= 0x66:
        return lower - 0x57
    return -1


@compiled
def _skip_escape(memory: int, position: int, end: int) -> int:
    if position >= end:
        return BROKEN
    byte = byte_at(memory, position)
    if byte == 0x75:  # u
        if position + 5 > end:
            return BROKEN
        for place in range(position + 1, position + 5):
            if hex_digit(byte_at(memory, place)) < 0:
                return BROKEN
        return position + 5
    simple = (
        byte == 0x22
        or byte == 0x5C
        or byte == 0x2F
        or byte == 0x62
        or byte == 0x66
        or byte == 0x6E
        or byte == 0x72
        or byte == 0x74
    )
    return position + 1 if simple else BROKEN


@compiled
def _skip_digits(memory: int, position: int, end: int) -> int:
    while position < end and 0x30 <= byte_at(memory, position) <= 0x39:
        position += 1
    return position


@compiled
def _spells(memory: int, position: int, end: int, word: np.uint64, length: int) -> bool:
    """Whether this word of up to eight letters stands here."""
    if position + length > end:
        return False
    for place in range(length):
        if byte_at(memory, position + place) != int((word >> np.uint64(8 * place)) & _BYTE):
            return False
    return True


@compiled
def skip_number(memory: int, position: int, end: int) -> int:
    """Behind the number that starts here."""
    if position < end and byte_at(memory, position) == 0x2D:
        position += 1
    if position >= end:
        return BROKEN
    first = byte_at(memory, position)
    if first == 0x49:
        return position + 8 if _spells(memory, position, end, _INFINITY, 8) else BROKEN
    whole = _skip_digits(memory, position, end)
    if whole == position or (first == 0x30 and whole > position + 1):
        return BROKEN
    position = whole
    if position < end and byte_at(memory, position) == 0x2E:
        fraction = _skip_digits(memory, position + 1, end)
        if fraction == position + 1:
            return BROKEN
        position = fraction
    if position < end and (byte_at(memory, position) | 0x20) == 0x65:
        position += 1
        if position < end and (
            byte_at(memory, position) == 0x2B or byte_at(memory, position) == 0x2D
        ):
            position += 1
        exponent = _skip_digits(memory, position, end)
        if exponent == position:
            return BROKEN
        position = exponent
    return position


@compiled
def skip_scalar(memory: int, position: int, end: int) -> tuple[int, int]:
    """Behind the string, number or word that starts here, and its kind."""
    if position >= end:
        return BROKEN, ABSENT
    byte = byte_at(memory, position)
    if byte == 0x22:
        behind, escaped = skip_string(memory, position + 1, end)
        return behind, ESCAPED if escaped else PLAIN
    if byte == 0x74:
        return (position + 4 if _spells(memory, position, end, _TRUE, 4) else BROKEN), TRUE
    if byte == 0x66:
        return (position + 5 if _spells(memory, position, end, _FALSE, 5) else BROKEN), FALSE
    if byte == 0x6E:
        return (position + 4 if _spells(memory, position, end, _NULL, 4) else BROKEN), NULL
    if byte == 0x4E:
        return (position + 3 if _spells(memory, position, end, _NAN, 3) else BROKEN), NUMBER
    return skip_number(memory, position, end), NUMBER


@compiled
def skip_name(memory: int, position: int, end: int) -> tuple[int, int, bool]:
    """From a name's opening quote to its closing quote, to where its value starts; and escapes."""
    if position >= end or byte_at(memory, position) != 0x22:
        return BROKEN, BROKEN, False
    behind, escaped = skip_string(memory, position + 1, end)
    if behind == BROKEN:
        return BROKEN, BROKEN, False
    colon = skip_spaces(memory, behind, end)
    if colon >= end or byte_at(memory, colon) != 0x3A:
        return BROKEN, BROKEN, False
    return behind - 1, skip_spaces(memory, colon + 1, end), escaped


@compiled
def skip_value(memory: int, position: int, end: int) -> tuple[int, int]:
    """Behind the value that starts here, whatever it contains, and its kind."""
    if position < end and byte_at(memory, position) != 0x7B and byte_at(memory, position) != 0x5B:
        return skip_scalar(memory, position, end)
    outermost = ABSENT
    objects = np.uint64(0)
    one = np.uint64(1)
    depth = 0
    while True:
        if position >= end:
            return BROKEN, ABSENT
        byte = byte_at(memory, position)
        entered = byte == 0x7B or byte == 0x5B
        if entered:
            if outermost == ABSENT:
                outermost = OBJECT if byte == 0x7B else ARRAY
            if depth >= DEEPEST:
                return BROKEN, ABSENT
            depth += 1
            objects = (objects << one) | (one if byte == 0x7B else np.uint64(0))
            position = skip_spaces(memory, position + 1, end)
            if position >= end:
                return BROKEN, ABSENT
            if byte_at(memory, position) != (0x7D if byte == 0x7B else 0x5D):
                if byte == 0x7B:
                    _, position, _ = skip_name(memory, position, end)
                    if position == BROKEN:
                        return BROKEN, ABSENT
                continue
        else:
            position, _ = skip_scalar(memory, position, end)
            if position == BROKEN:
                return BROKEN, ABSENT
            position = skip_spaces(memory, position, end)
        # Here a value has ended, or a container is about to: leave all that end here.
        while True:
            if position >= end:
                return BROKEN, ABSENT
            inside_object = (objects & one) != np.uint64(0)
            byte = byte_at(memory, position)
            if byte == 0x2C and not entered:
                position = skip_spaces(memory, position + 1, end)
                if inside_object:
                    _, position, _ = skip_name(memory, position, end)
                    if position == BROKEN:
                        return BROKEN, ABSENT
                break
            if byte != (0x7D if inside_object else 0x5D):
                return BROKEN, ABSENT
            entered = False
            depth -= 1
            objects >>= one
            position += 1
            if depth == 0:
                return position, outermost
            position = skip_spaces(memory, position, end)
