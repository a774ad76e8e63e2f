"""Rows as COPY writes them: the same texts as in the log, so that the same code reads them."""

from typing import Final

from headrace.capture.texts import Reading, TextRow

_NULL: Final = b"\\N"
_ESCAPES: Final = {
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
}


def rows_of(written: bytes, reading: Reading) -> list[TextRow]:
    """The rows of what COPY wrote, one per line."""
    rows = []
    for line in written.split(b"\n")[:-1]:
        if b"\\" in line:
            texts = [plain_of(value) for value in line.split(b"\t")]
            rows.append(TextRow(texts, reading, whole=None not in texts))
        else:
            rows.append(TextRow(line.split(b"\t"), reading, whole=True))
    return rows


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
