"""Texts of a database as JSON, without the values between: what most columns are written with.

A shortcut writes the very bytes that reading the text, encoding the value and printing JSON would
give, and hands every text over to that long way that does not look as it expects.
"""

from binascii import b2a_base64
from collections.abc import Callable

import orjson

from headrace.capture.changes import ColumnType, TypeKind
from headrace.capture.envelope.modes import Decimals, Modes
from headrace.capture.envelope.types import Encoding
from headrace.capture.texts import Decode, Form

Write = Callable[[bytes], bytes]
"""A value as JSON, of its text."""

_MICROSECONDS = 6
_SHORTEST, _LONGEST = len("2026-11-18 01:02:03+00"), len("2026-11-18 01:02:03.123456+00")
_DIGITS = len("2026-11-18T01:02:03.123456")
_DASH = ord("-")


def writer_of(
    type_: ColumnType, encoding: Encoding, modes: Modes, decode: Decode, form: Form
) -> Write | None:
    """How texts of a column are written as JSON; None if they are JSON."""
    long_way = _long_way(decode, encoding)
    if form is Form.WHOLE and encoding.encode is None:
        return None
    if form is Form.PLAIN and encoding.encode is None:
        return _quoted
    if form is Form.DECIMAL and type_.kind is TypeKind.DECIMAL:
        if modes.decimals is Decimals.STRING:
            return _as_it_is
        if modes.decimals is Decimals.PRECISE and type_.scale is not None and type_.scale > 0:
            return _unscaled(type_.scale, long_way)
    if form is Form.MOMENT and type_.precision in (None, _MICROSECONDS):
        return _moment(long_way)
    return long_way


def _long_way(decode: Decode, encoding: Encoding) -> Write:
    encode = encoding.encode
    if encode is None:
        return lambda text: orjson.dumps(decode(text))
    return lambda text: orjson.dumps(encode(decode(text)))


def _quoted(text: bytes) -> bytes:
    return orjson.dumps(text.decode())


def _as_it_is(text: bytes) -> bytes:
    return b'"%b"' % text


def _unscaled(scale: int, long_way: Write) -> Write:
    """The digits of a decimal without its point, as Java's BigInteger is written, in base64."""

    def write(text: bytes) -> bytes:
        whole, _, fraction = text.partition(b".")
        if len(fraction) != scale:
            return long_way(text)
        number = int(whole + fraction)
        digits = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
        return b'"%b"' % b2a_base64(digits, newline=False)

    return write


def _moment(long_way: Write) -> Write:
    def write(text: bytes) -> bytes:
        size = len(text)
        if not _SHORTEST <= size <= _LONGEST or text[4] != _DASH or text[-3:] != b"+00":
            return long_way(text)
        printed = text[:-3].replace(b" ", b"T")
        if size == _SHORTEST:
            return b'"%b.000000Z"' % printed
        return b'"%bZ"' % printed.ljust(_DIGITS, b"0")

    return write
