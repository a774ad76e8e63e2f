"""From the texts that PostgreSQL prints to the values that rows hold, one function per type."""

from decimal import Decimal
from typing import Any

from headrace.capture.changes import ColumnType, TypeKind
from headrace.capture.errors import BrokenStream
from headrace.capture.postgres.temporal import (
    parse_date,
    parse_interval,
    parse_time,
    parse_timestamp,
    parse_zoned_time,
    parse_zoned_timestamp,
)
from headrace.capture.texts import Decode, Form

_TRUE = b"t"
_SETTINGS = {
    "DateStyle": "ISO",
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "lc_monetary": "C",
}
SESSION_OPTIONS = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
"""What a session has to be told, so that its texts are the ones that are read here."""


def decode_text(text: bytes) -> str:
    """Text, which the server sends as UTF-8."""
    return text.decode()


def _boolean(text: bytes) -> bool:
    return text == _TRUE


def _decimal(text: bytes) -> Decimal:
    return Decimal(text.decode())


def _money(text: bytes) -> Decimal:
    """Dollars and cents, as "-$1,234.50" or "($1,234.50)"."""
    digits = "".join(each for each in text.decode() if each.isdigit() or each == ".")
    return Decimal(f"-{digits}" if text[:1] in (b"-", b"(") else digits)


def _bytes(text: bytes) -> bytes:
    return bytes.fromhex(text[2:].decode())


def _bits(text: bytes) -> bytes:
    return int(text or b"0", 2).to_bytes((len(text) + 7) // 8, "little")


def _point(text: bytes) -> tuple[float, float]:
    x, _, y = text.strip(b"()").partition(b",")
    return float(x), float(y)


def parse_map(text: bytes) -> dict[str, str | None]:
    r"""An hstore.

    >>> parse_map(b'"a"=>"1", "b c"=>NULL, "d\\"e"=>"f,g"')
    {'a': '1', 'b c': None, 'd"e': 'f,g'}
    """
    found: dict[str, str | None] = {}
    place = 0
    while place < len(text):
        key, place = _quoted(text, place)
        place += 2  # =>
        if text[place : place + 4] == b"NULL":
            found[key] = None
            place += 4
        else:
            found[key], place = _quoted(text, place)
        place += 2  # comma, blank
    return found


def _quoted(text: bytes, place: int) -> tuple[str, int]:
    """A text in double quotes at a place, and the place behind it."""
    if text[place : place + 1] != b'"':
        raise BrokenStream(f'PostgreSQL printed {text!r}, where a " was expected at {place}.')
    parts = []
    begin = place = place + 1
    while (mark := text[place]) != 0x22:
        if mark == 0x5C:
            parts.append(text[begin:place])
            begin = place = place + 1
        place += 1
    parts.append(text[begin:place])
    return b"".join(parts).decode(), place + 1


def array_decoder(element: Decode, delimiter: bytes = b",") -> Decode:
    r"""How to read arrays whose elements are read by `element`.

    >>> array_decoder(int)(b"{1,NULL,{2,3}}"), array_decoder(decode_text)(b'[2:3]={"a\\"b",""}')
    ([1, None, [2, 3]], ['a"b', ''])
    """
    mark = delimiter[0]

    def decode(text: bytes) -> list[Any]:
        # Bounds that do not start at 1 are printed in front: [2:3]={...}.
        begin = text.index(b"{")
        found, _ = _array(text, begin)
        return found

    def _array(text: bytes, place: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        place += 1
        while True:
            each = text[place]
            if each == 0x7D:  # }
                return items, place + 1
            if each == 0x7B:  # {
                inner, place = _array(text, place)
                items.append(inner)
            elif each == 0x22:  # "
                word, place = _quoted(text, place)
                items.append(element(word.encode()))
            elif each == mark:
                place += 1
            else:
                begin = place
                while text[place] not in (0x7D, mark):
                    place += 1
                bare = text[begin:place]
                items.append(None if bare == b"NULL" else element(bare))

    return decode


_DECODERS: dict[TypeKind, Decode] = {
    TypeKind.BOOLEAN: _boolean,
    TypeKind.INT16: int,
    TypeKind.INT32: int,
    TypeKind.INT64: int,
    TypeKind.FLOAT32: float,
    TypeKind.FLOAT64: float,
    TypeKind.DECIMAL: _decimal,
    TypeKind.BYTES: _bytes,
    TypeKind.BITS: _bits,
    TypeKind.DATE: parse_date,
    TypeKind.TIME: parse_time,
    TypeKind.TIME_ZONED: parse_zoned_time,
    TypeKind.TIMESTAMP: parse_timestamp,
    TypeKind.TIMESTAMP_ZONED: parse_zoned_timestamp,
    TypeKind.INTERVAL: parse_interval,
    TypeKind.MAP: parse_map,
    TypeKind.POINT: _point,
}

_FORMS: dict[Decode, Form] = {
    int: Form.WHOLE,
    decode_text: Form.PLAIN,
    _decimal: Form.DECIMAL,
    parse_zoned_timestamp: Form.MOMENT,
}

_BOX = "box"
"""The one type whose arrays are not separated by commas."""


def decoder_of(type_: ColumnType) -> Decode:
    """How to read values of a type."""
    if type_.kind is TypeKind.ARRAY:
        assert type_.element is not None
        delimiter = b";" if type_.element.name == _BOX else b","
        return array_decoder(decoder_of(type_.element), delimiter)
    if type_.name == "money":
        return _money
    return _DECODERS.get(type_.kind, decode_text)


def form_of(decode: Decode) -> Form:
    """What the texts look like that are read so."""
    return _FORMS.get(decode, Form.OTHER)
