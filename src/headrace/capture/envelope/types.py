"""Neutral types as Debezium writes them: the Kafka Connect schema of a column, and its values."""

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import inf
from typing import Any, Final

import orjson

from headrace.capture.changes import Column, ColumnType, Interval, TypeKind
from headrace.capture.envelope.modes import Decimals, Intervals, Modes, Times
from headrace.capture.envelope.moments import iso_date, iso_moment, iso_time

UNAVAILABLE_WORD: Final = "__debezium_unavailable_value"
"""What Debezium writes where the log leaves out a value."""

_UNAVAILABLE_BYTES: Final = base64.b64encode(UNAVAILABLE_WORD.encode()).decode()

_AVERAGE_MONTH_US: Final = 2_629_800_000_000
"""A twelfth of 365.25 days, as Debezium has it."""

_DAY_US: Final = 86_400_000_000
_LATEST_US, _EARLIEST_US = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000
"""What PostgreSQL's Java driver has for infinite timestamps, and therefore Debezium."""

_LATEST_DAY, _EARLIEST_DAY = 2_147_483_647, -2_147_483_648

Encode = Callable[[Any], Any]
"""What JSON has for a value that is not None."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How values of a type are written."""

    schema: dict[str, Any]
    """Their Kafka Connect schema, without `optional` and `field`."""

    encode: Encode | None
    """None if they are written as they are."""

    fallback: Any
    """What stands where a value is required and the log does not tell it."""

    unavailable: Any = UNAVAILABLE_WORD
    """What stands where the log leaves the value out because it did not change."""


def encoding_of(type_: ColumnType, modes: Modes) -> Encoding:
    """How Debezium writes values of a type."""
    match type_.kind:
        case TypeKind.BOOLEAN:
            return Encoding({"type": "boolean"}, None, False)
        case TypeKind.INT16 | TypeKind.INT32 | TypeKind.INT64:
            return Encoding({"type": type_.kind.value}, None, 0)
        case TypeKind.UINT64:
            return Encoding({"type": "int64"}, None, 0)
        case TypeKind.YEAR:
            return Encoding(_named("int32", "io.debezium.time.Year"), None, 0)
        case TypeKind.FLOAT32 | TypeKind.FLOAT64:
            name = "float" if type_.kind is TypeKind.FLOAT32 else "double"
            return Encoding({"type": name}, _float, 0.0)
        case TypeKind.DECIMAL:
            return _decimal(type_, modes.decimals)
        case TypeKind.BYTES:
            return Encoding({"type": "bytes"}, _base64, "", _UNAVAILABLE_BYTES)
        case TypeKind.BITS:
            return _bits(type_)
        case (
            TypeKind.DATE
            | TypeKind.TIME
            | TypeKind.TIME_ZONED
            | TypeKind.TIMESTAMP
            | TypeKind.TIMESTAMP_ZONED
        ):
            return _temporal(type_, modes.times)
        case TypeKind.INTERVAL:
            if modes.intervals is Intervals.STRING:
                return Encoding(_named("string", "io.debezium.time.Interval"), _iso_interval, "")
            schema = _named("int64", "io.debezium.time.MicroDuration")
            return Encoding(schema, _interval_us, 0)
        case TypeKind.MAP:
            return Encoding(_named("string", "io.debezium.data.Json"), _json, "{}")
        case TypeKind.POINT:
            return Encoding(_POINT_SCHEMA, _point, {"x": 0.0, "y": 0.0, "wkb": None, "srid": None})
        case TypeKind.ARRAY:
            return _array(type_, modes)
        case TypeKind.DYNAMIC:
            return _dynamic(type_, modes)
        case TypeKind.ENUM | TypeKind.SET:
            name = "Enum" if type_.kind is TypeKind.ENUM else "EnumSet"
            schema = _named("string", f"io.debezium.data.{name}")
            return Encoding(schema | {"parameters": {"allowed": ",".join(type_.members)}}, None, "")
        case TypeKind.UUID | TypeKind.JSON | TypeKind.XML:
            name = type_.kind.value.capitalize()
            return Encoding(_named("string", f"io.debezium.data.{name}"), None, "")
        case TypeKind.OTHER if type_.name == "tsvector":
            return Encoding(_named("string", "io.debezium.data.Tsvector"), None, "")
        case _:
            return Encoding({"type": "string"}, None, "")


def field_schema(column: Column, encoding: Encoding) -> dict[str, Any]:
    """The Kafka Connect schema of a column."""
    return {**encoding.schema, "optional": column.nullable, "field": column.name}


def _named(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "name": name, "version": 1}


def _float(value: float) -> float | str:
    """JSON has no NaN and no infinity; Kafka Connect writes their names."""
    if value - value == 0.0:
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def unscaled(value: Decimal, scale: int) -> str:
    """The digits of a decimal without its point, as Java's BigInteger is written, in base64.

    >>> unscaled(Decimal("1.5"), 2), unscaled(Decimal("-1"), 0)
    ('AJY=', '/w==')
    """
    number = int(_EXACT.scaleb(value, scale))
    return _base64(number.to_bytes((number.bit_length() // 8) + 1, "big", signed=True))


def _exact_context() -> Any:
    from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context

    return Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


_EXACT: Final = _exact_context()


def _decimal(type_: ColumnType, mode: Decimals) -> Encoding:
    if mode is Decimals.STRING:
        return Encoding({"type": "string"}, _decimal_text, "")
    if mode is Decimals.DOUBLE:
        return Encoding({"type": "double"}, lambda value: _float(float(value)), 0.0)
    if type_.scale is None:
        return Encoding(_VARIABLE_SCHEMA, _variable_decimal, {"scale": 0, "value": "AA=="}, None)
    scale = type_.scale
    parameters = {"scale": str(scale)}
    if type_.precision is not None:
        parameters["connect.decimal.precision"] = str(type_.precision)
    schema = _named("bytes", "org.apache.kafka.connect.data.Decimal") | {"parameters": parameters}

    def encode(value: Decimal) -> str | None:
        return unscaled(value, scale) if value.is_finite() else None

    return Encoding(schema, encode, "AA==", None)


def _decimal_text(value: Decimal) -> str:
    if value.is_finite():
        return format(value, "f")
    return "NaN" if value.is_nan() else "Infinity" if value > 0 else "-Infinity"


def _variable_decimal(value: Decimal) -> dict[str, Any] | None:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        return None
    return {"scale": max(-exponent, 0), "value": unscaled(value, max(-exponent, 0))}


_VARIABLE_SCHEMA: Final = _named("struct", "io.debezium.data.VariableScaleDecimal") | {
    "fields": [
        {"type": "int32", "optional": False, "field": "scale"},
        {"type": "bytes", "optional": False, "field": "value"},
    ],
    "doc": "Variable scaled decimal",
}

_POINT_SCHEMA: Final = _named("struct", "io.debezium.data.geometry.Point") | {
    "fields": [
        {"type": "double", "optional": False, "field": "x"},
        {"type": "double", "optional": False, "field": "y"},
        {"type": "bytes", "optional": True, "field": "wkb"},
        {"type": "int32", "optional": True, "field": "srid"},
    ],
    "doc": "Geometry (POINT)",
}


def _point(value: tuple[float, float]) -> dict[str, Any]:
    x, y = value
    return {
        "x": _float(x),
        "y": _float(y),
        "wkb": _base64(struct.pack("<BIdd", 1, 1, x, y)),
        "srid": None,
    }


def _bits(type_: ColumnType) -> Encoding:
    if type_.length == 1:
        return Encoding({"type": "boolean"}, lambda value: value != b"\0", False)
    schema = _named("bytes", "io.debezium.data.Bits")
    # Debezium's word for "no limit".
    length = 2**31 - 1 if type_.length is None else type_.length
    return Encoding(schema | {"parameters": {"length": str(length)}}, _base64, "")


def _temporal(type_: ColumnType, mode: Times) -> Encoding:
    digits = 6 if type_.precision is None else type_.precision
    match type_.kind:
        case TypeKind.TIMESTAMP_ZONED:
            schema = _named("string", "io.debezium.time.ZonedTimestamp")

            def moment(value: int | float) -> str:
                written = iso_moment(value, digits)
                return written if isinstance(value, float) else f"{written}Z"

            return Encoding(schema, moment, "1970-01-01T00:00:00Z")
        case TypeKind.TIME_ZONED:
            schema = _named("string", "io.debezium.time.ZonedTime")
            return Encoding(schema, lambda value: f"{iso_time(value)}Z", "00:00:00Z")
        case TypeKind.DATE if mode is Times.ISO:
            return Encoding(_named("string", "io.debezium.time.IsoDate"), iso_date, "")
        case TypeKind.DATE:
            return Encoding(_named("int32", "io.debezium.time.Date"), _day, 0)
        case TypeKind.TIME if mode is Times.ISO:
            return Encoding(_named("string", "io.debezium.time.IsoTime"), iso_time, "")
        case TypeKind.TIME if digits <= 3:
            schema = _named("int32", "io.debezium.time.Time")
            return Encoding(schema, lambda value: value // 1000, 0)
        case TypeKind.TIME:
            return Encoding(_named("int64", "io.debezium.time.MicroTime"), None, 0)
        case _ if mode is Times.ISO:
            return Encoding(_named("string", "io.debezium.time.IsoTimestamp"), iso_moment, "")
        case _ if digits <= 3:
            schema = _named("int64", "io.debezium.time.Timestamp")
            return Encoding(schema, lambda value: _microseconds(value) // 1000, 0)
        case _:
            return Encoding(_named("int64", "io.debezium.time.MicroTimestamp"), _microseconds, 0)


def _microseconds(value: float) -> int:
    if value in (inf, -inf):
        return _LATEST_US if value > 0 else _EARLIEST_US
    return int(value)


def _day(value: float) -> int:
    if value in (inf, -inf):
        return _LATEST_DAY if value > 0 else _EARLIEST_DAY
    return int(value)


def _interval_us(value: Interval) -> int:
    total = value.months * _AVERAGE_MONTH_US + value.days * _DAY_US + value.microseconds
    return max(min(total, 2**63 - 1), -(2**63))


def _iso_interval(value: Interval) -> str:
    """Every part as it is: P1Y2M3DT4H5M6.789S, as Debezium writes them.

    >>> _iso_interval(Interval(14, 3, 14706789000))
    'P1Y2M3DT4H5M6.789S'
    """
    years, months = divmod(abs(value.months), 12)
    if value.months < 0:
        years, months = -years, -months
    sign = "-" if value.microseconds < 0 else ""
    seconds, fraction = divmod(abs(value.microseconds), 1_000_000)
    rest = f"{seconds % 60}.{fraction:06d}".rstrip("0").rstrip(".")
    clock = f"{sign}{seconds // 3600}H{sign}{seconds // 60 % 60}M{sign}{rest}S"
    return f"P{years}Y{months}M{value.days}DT{clock}"


def _array(type_: ColumnType, modes: Modes) -> Encoding:
    assert type_.element is not None
    element = encoding_of(type_.element, modes)
    schema = {"type": "array", "items": {**element.schema, "optional": True}}
    inner = element.encode

    def encode(value: list[Any]) -> list[Any]:
        return [
            None
            if each is None
            else encode(each)
            if isinstance(each, list)
            else each
            if inner is None
            else inner(each)
            for each in value
        ]

    return Encoding(schema, encode, [], [element.unavailable])


def _dynamic(type_: ColumnType, modes: Modes) -> Encoding:
    """As the usual type is written; another one as JSON has it, and as an object if that has not.

    >>> encode = _dynamic(ColumnType(TypeKind.DYNAMIC, "", element=ColumnType(TypeKind.TEXT, "")),
    ...     Modes()).encode
    >>> encode("a"), encode(1), encode(1.5), encode(b"a")
    ('a', 1, 1.5, {'blob': 'YQ=='})
    """
    assert type_.element is not None
    usual = encoding_of(type_.element, modes)
    texts_are_bytes = type_.element.kind is TypeKind.BYTES

    def encode(value: Any) -> Any:
        if isinstance(value, str):
            return {"text": value} if texts_are_bytes else value
        if isinstance(value, bytes):
            return _base64(value) if texts_are_bytes else {"blob": _base64(value)}
        return value if isinstance(value, int) else _float(value)

    return Encoding(usual.schema, encode, usual.fallback)
