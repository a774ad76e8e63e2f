"""The values of rows in the log, one function per type: a value, and the place behind it."""

import struct
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final

import orjson

from headrace.capture.errors import BrokenStream
from headrace.capture.mariadb.tablemap import Wire, WireColumn
from headrace.capture.mariadb.temporal import days_or_none, packed_datetime, packed_time

Cell = Callable[[bytes, int], tuple[Any, int]]
"""The value at a place, and the place behind it."""

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_DIGITS: Final = 9
_DIGIT_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes that so many digits of a decimal take."""

_EXACT: Final = Context(prec=80)
"""With more digits than a decimal can have there."""

_SECOND_US: Final = 1_000_000


def cell_of(column: WireColumn, codec: str | None) -> Cell:
    """How to read values of a column; texts are in a codec, and bytes if that is None."""
    match column.type:
        case Wire.TINY | Wire.SHORT | Wire.INT24 | Wire.LONG | Wire.LONGLONG:
            return _integer(column.type, unsigned=column.unsigned)
        case Wire.FLOAT:
            return lambda data, at: (shortest(_FLOAT.unpack_from(data, at)[0]), at + 4)
        case Wire.DOUBLE:
            return lambda data, at: (_DOUBLE.unpack_from(data, at)[0], at + 8)
        case Wire.NEWDECIMAL:
            return _decimal(column.meta >> 8, column.meta & 0xFF)
        case Wire.YEAR:
            return lambda data, at: (data[at] + 1900 if data[at] else 0, at + 1)
        case Wire.DATE:
            return _date
        case Wire.TIMESTAMP2:
            return _moment(column)
        case Wire.DATETIME2:
            return _datetime(column)
        case Wire.TIME2:
            return _time(column)
        case Wire.STRING if codec is None:
            return _padded(column.meta)
        case Wire.VARCHAR | Wire.VAR_STRING | Wire.STRING:
            return _text(2 if column.meta > 255 else 1, codec)
        case Wire.BLOB:
            return _text(column.meta, codec)
        case Wire.GEOMETRY:
            return _text(column.meta, None)
        case Wire.BIT:
            return _bits((column.meta & 0xFF) + (column.meta >> 8) * 8)
        case Wire.ENUM:
            return _enum(column)
        case Wire.SET:
            return _set(column)
        case Wire.JSON:
            return _json(column.meta)
        case _:
            raise BrokenStream(
                f"The column {column.name} has the type {column.type.name}, which cannot be "
                "captured yet; leave its table out."
            )


def shortest(value: float) -> float:
    """A number of four bytes with the fewest digits that mean it, as people wrote it.

    >>> shortest(struct.unpack("<f", struct.pack("<f", 1.1))[0])
    1.1
    """
    for digits in (6, 7, 8):
        guess = float(f"{value:.{digits}g}")
        if _FLOAT.pack(guess) == _FLOAT.pack(value):
            return guess
    return float(f"{value:.9g}")


def _integer(type_: Wire, *, unsigned: bool) -> Cell:
    size = {Wire.TINY: 1, Wire.SHORT: 2, Wire.INT24: 3, Wire.LONG: 4, Wire.LONGLONG: 8}[type_]
    signed = not unsigned
    number = int.from_bytes

    def read(data: bytes, at: int) -> tuple[int, int]:
        return number(data[at : at + size], "little", signed=signed), at + size

    return read


def _text(width: int, codec: str | None) -> Cell:
    number = int.from_bytes
    if codec is None:

        def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
            begin = at + width
            end = begin + number(data[at:begin], "little")
            return data[begin:end], end

        return read_bytes

    def read(data: bytes, at: int) -> tuple[str, int]:
        begin = at + width
        end = begin + number(data[at:begin], "little")
        return decoded(data[begin:end], codec), end

    return read


def _padded(length: int) -> Cell:
    """Bytes of a fixed length, whose zeros at the end the log leaves out."""
    read = _text(2 if length > 255 else 1, None)

    def padded(data: bytes, at: int) -> tuple[bytes, int]:
        value, end = read(data, at)
        return value.ljust(length, b"\0"), end

    return padded


def decoded(data: bytes, codec: str) -> str:
    """Text in a codec; the few bytes that Windows' Latin 1 leaves open are what ISO's has there."""
    if codec == "cp1252":
        try:
            return data.decode(codec)
        except UnicodeDecodeError:
            return "".join(
                chr(each) if each in _OPEN else bytes([each]).decode(codec) for each in data
            )
    return data.decode(codec, "replace")


_OPEN: Final = {0x81, 0x8D, 0x8F, 0x90, 0x9D}


def _decimal(precision: int, scale: int) -> Cell:
    whole = precision - scale
    head, heads = whole % _DIGITS, whole // _DIGITS
    tails, tail = divmod(scale, _DIGITS)
    sizes = [
        (_DIGIT_BYTES[head], head),
        *([(4, _DIGITS)] * (heads + tails)),
        (_DIGIT_BYTES[tail], tail),
    ]
    sizes = [each for each in sizes if each[0]]
    total = sum(size for size, _ in sizes)

    def read(data: bytes, at: int) -> tuple[Decimal, int]:
        raw = bytearray(data[at : at + total])
        negative = not raw[0] & 0x80
        raw[0] ^= 0x80
        if negative:
            raw = bytearray(each ^ 0xFF for each in raw)
        place, digits = 0, ""
        for size, count in sizes:
            part = int.from_bytes(raw[place : place + size], "big")
            digits += f"{part:0{count}d}"
            place += size
        value = Decimal(f"{'-' if negative else ''}{digits}").scaleb(-scale, _EXACT)
        return value, at + total

    return read


def _date(data: bytes, at: int) -> tuple[int | None, int]:
    number = int.from_bytes(data[at : at + 3], "little")
    return days_or_none(number >> 9, number >> 5 & 15, number & 31), at + 3


def _fraction(digits: int) -> tuple[int, int]:
    """How many bytes a fraction takes, and how many microseconds its unit has."""
    size = (digits + 1) // 2
    return size, 100 ** (3 - size)


def _moment(column: WireColumn) -> Cell:
    size, unit = _fraction(column.meta)

    def read(data: bytes, at: int) -> tuple[int | None, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        end = at + 4 + size
        part = int.from_bytes(data[at + 4 : end], "big") * unit
        # Zero is "0000-00-00 00:00:00", which is no moment.
        return (seconds * _SECOND_US + part if seconds or part else None), end

    return read


def _datetime(column: WireColumn) -> Cell:
    size, unit = _fraction(column.meta)

    def read(data: bytes, at: int) -> tuple[int | None, int]:
        end = at + 5 + size
        part = int.from_bytes(data[at + 5 : end], "big") * unit
        return packed_datetime(int.from_bytes(data[at : at + 5], "big"), part), end

    return read


def _time(column: WireColumn) -> Cell:
    size, unit = _fraction(column.meta)

    def read(data: bytes, at: int) -> tuple[int, int]:
        end = at + 3 + size
        return packed_time(data[at:end], size, unit), end

    return read


def _bits(length: int) -> Cell:
    size = (length + 7) // 8
    return lambda data, at: (data[at : at + size][::-1], at + size)


def _enum(column: WireColumn) -> Cell:
    size, members = column.meta, ("", *column.members)

    def read(data: bytes, at: int) -> tuple[str, int]:
        return members[int.from_bytes(data[at : at + size], "little")], at + size

    return read


def _set(column: WireColumn) -> Cell:
    size, members = column.meta, column.members

    def read(data: bytes, at: int) -> tuple[str, int]:
        bits = int.from_bytes(data[at : at + size], "little")
        chosen = [each for place, each in enumerate(members) if bits >> place & 1]
        return ",".join(chosen), at + size

    return read


def _json(width: int) -> Cell:
    def read(data: bytes, at: int) -> tuple[str | None, int]:
        from pymysqlreplication.json_binary import parse_json

        begin = at + width
        end = begin + int.from_bytes(data[at:begin], "little")
        if end == begin:
            return "null", end
        return orjson.dumps(_plain(parse_json(data[begin], data[begin + 1 : end]))).decode(), end

    return read


def _plain(value: Any) -> Any:
    """What JSON has for what MySQL's binary form has."""
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
