"""Rows as COPY writes them: the same texts as in the log, so that the same code reads them."""

from collections.abc import Sequence
from typing import Any, Final

from headrace.capture.changes import Row
from headrace.capture.postgres.values import Decode

_NULL: Final = b"\\N"
_ESCAPES: Final = {
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
}


def lines_of(written: bytes) -> list[bytes]:
    """The lines of what COPY wrote, one per row."""
    return written.split(b"\n")[:-1]


def row_of(line: bytes, decoders: Sequence[Decode]) -> Row:
    """The row of a line."""
    values = line.split(b"\t")
    if b"\\" not in line:
        return tuple([decode(value) for decode, value in zip(decoders, values, strict=True)])
    plain = map(plain_of, values)
    return tuple(
        [
            None if value is None else decode(value)
            for decode, value in zip(decoders, plain, strict=True)
        ]
    )


def texts_of(line: bytes) -> list[Any]:
    """The texts of a line's values; None of NULL."""
    plain = map(plain_of, line.split(b"\t"))
    return [None if value is None else value.decode() for value in plain]


def plain_of(value: bytes) -> bytes | None:
    r"""A value without the escapes of COPY's text format; None of NULL.

    >>> plain_of(rb"a\tb\\n"), plain_of(b"plain"), plain_of(rb"\N")
    (b'a\tb\\n', b'plain', None)
    """
    if b"\\" not in value:
        return value
    if value == _NULL:
        return None
    first, *rest = value.split(b"\\")
    parts, place = [first], 0
    while place < len(rest):
        part = rest[place]
        if part:
            parts.append(_ESCAPES.get(part[:1], part[:1]) + part[1:])
        else:
            # Two backslashes in a row: what follows the second is plain.
            parts.append(b"\\" + (rest[place + 1] if place + 1 < len(rest) else b""))
            place += 1
        place += 1
    return b"".join(parts)
