"""What information_schema says about tables, and what types are in neutral words."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from headrace.capture.changes import Column, ColumnType, Table, TableName, TypeKind
from headrace.capture.mariadb.cells import shortest
from headrace.capture.mariadb.connection import ask
from headrace.capture.mariadb.tablemap import TableMap, Wire, WireColumn
from headrace.capture.mariadb.temporal import parse_date, parse_datetime, parse_time

SYSTEM: Final = ("information_schema", "mysql", "performance_schema", "sys")
"""Databases that are the server's own."""

CODECS: Final = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ascii": "latin-1",
    "latin1": "cp1252",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13",
    "greek": "iso8859-7",
    "hebrew": "iso8859-8",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "sjis": "shift_jis",
    "ujis": "euc_jp",
    "euckr": "euc_kr",
    "koi8r": "koi8-r",
    "koi8u": "koi8-u",
    "tis620": "tis-620",
    "gb2312": "gb2312",
}
"""Python's names of character sets; those that are missing have the same name."""

_INTEGERS: Final = {
    "tinyint": (TypeKind.INT16, TypeKind.INT16),
    "smallint": (TypeKind.INT16, TypeKind.INT32),
    "mediumint": (TypeKind.INT32, TypeKind.INT32),
    "int": (TypeKind.INT32, TypeKind.INT64),
    "bigint": (TypeKind.INT64, TypeKind.UINT64),
}
"""Kinds with a sign and without."""

_KINDS: Final = {
    "float": TypeKind.FLOAT32,
    "double": TypeKind.FLOAT64,
    "decimal": TypeKind.DECIMAL,
    "year": TypeKind.YEAR,
    "date": TypeKind.DATE,
    "time": TypeKind.TIME,
    "datetime": TypeKind.TIMESTAMP,
    "timestamp": TypeKind.TIMESTAMP_ZONED,
    "bit": TypeKind.BITS,
    "enum": TypeKind.ENUM,
    "set": TypeKind.SET,
    "json": TypeKind.JSON,
    "uuid": TypeKind.UUID,
    "inet4": TypeKind.OTHER,
    "inet6": TypeKind.OTHER,
}
_BINARY: Final = (
    *("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
    *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
    *("multipolygon", "geometrycollection", "geomcollection", "vector"),
)
_WIRES: Final = {
    Wire.TINY: "tinyint",
    Wire.SHORT: "smallint",
    Wire.INT24: "mediumint",
    Wire.LONG: "int",
    Wire.LONGLONG: "bigint",
    Wire.FLOAT: "float",
    Wire.DOUBLE: "double",
    Wire.NEWDECIMAL: "decimal",
    Wire.YEAR: "year",
    Wire.DATE: "date",
    Wire.TIME2: "time",
    Wire.DATETIME2: "datetime",
    Wire.TIMESTAMP2: "timestamp",
    Wire.BIT: "bit",
    Wire.ENUM: "enum",
    Wire.SET: "set",
    Wire.JSON: "json",
    Wire.GEOMETRY: "geometry",
}
_MICROSECONDS: Final = 6

_COLUMNS_SQL: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE,
       CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, EXTRA
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s
ORDER BY ORDINAL_POSITION
"""

_KEY_SQL: Final = """
SELECT COLUMN_NAME FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND INDEX_NAME = 'PRIMARY'
ORDER BY SEQ_IN_INDEX
"""

_TABLES_SQL: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY 1, 2
"""


def names_of(connection: Any) -> list[TableName]:
    """Every table that could be captured."""
    rows = ask(connection, _TABLES_SQL)
    return [TableName(schema, name) for schema, name in rows if schema.lower() not in SYSTEM]


def describe(connection: Any, name: TableName) -> Table | None:
    """A table as it is now; None if it is not there."""
    columns = [
        Column(
            column,
            _type(kind, written, length, precision, scale, fraction),
            nullable=nullable == "YES",
            generated="GENERATED" in extra.upper().replace("DEFAULT_GENERATED", ""),
        )
        for _, _, column, kind, written, nullable, length, precision, scale, fraction, extra in ask(
            connection, _COLUMNS_SQL, *name
        )
    ]
    if not columns:
        return None
    names = [column.name for column in columns]
    key = tuple(names.index(each) for (each,) in ask(connection, _KEY_SQL, *name))
    return Table(name, tuple(columns), key)


def collations_of(connection: Any) -> dict[int, str]:
    """The character sets of collations, by number."""
    rows = ask(
        connection,
        "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS"
        " WHERE CHARACTER_SET_NAME IS NOT NULL AND ID IS NOT NULL",
    )
    return {int(number): name for number, name in rows}


def table_of(told: TableMap, codec_of: Callable[[int], str | None]) -> Table:
    """A table as far as the log alone describes it."""
    columns = tuple(
        Column(column.name, _wire_type(column, codec_of), nullable=column.nullable)
        for column in told.columns
    )
    return Table(told.name, columns, told.key)


def fits(table: Table, told: TableMap, codec_of: Callable[[int], str | None]) -> bool:
    """Whether what a catalog says is what rows in the log look like."""
    return (
        table.names == tuple(column.name for column in told.columns)
        and table.key == told.key
        and all(
            _alike(column.type, _wire_type(wire, codec_of)) and column.nullable == wire.nullable
            for column, wire in zip(table.columns, told.columns, strict=True)
        )
    )


def _alike(known: ColumnType, told: ColumnType) -> bool:
    if known.kind in (TypeKind.UUID, TypeKind.OTHER):
        return told.kind is TypeKind.BYTES
    # Only the catalog knows that a text is JSON.
    if known.kind is TypeKind.JSON and told.kind is TypeKind.TEXT:
        return True
    return (known.kind, known.members) == (told.kind, told.members) and (
        known.kind is not TypeKind.DECIMAL
        or (known.precision, known.scale) == (told.precision, told.scale)
    )


def _type(
    kind: str,
    written: str,
    length: str | None,
    precision: str | None,
    scale: str | None,
    fraction: str | None,
) -> ColumnType:
    kind = kind.lower()
    if kind in _INTEGERS:
        return ColumnType(_INTEGERS[kind]["unsigned" in written.lower()], written)
    if kind in _BINARY:
        return ColumnType(TypeKind.BYTES, written, length=int(length) if length else None)
    found = _KINDS.get(kind, TypeKind.TEXT)
    if found is TypeKind.DECIMAL:
        return ColumnType(found, written, int(precision or 0), int(scale or 0))
    if found is TypeKind.TIME:
        return ColumnType(found, written, _MICROSECONDS)
    if found in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_ZONED):
        return ColumnType(found, written, int(fraction or 0))
    if found is TypeKind.BITS:
        return ColumnType(found, written, length=int(precision or 1))
    if found in (TypeKind.ENUM, TypeKind.SET):
        return ColumnType(found, kind, members=_members(written))
    if found is TypeKind.TEXT:
        return ColumnType(found, written, length=int(length) if length else None)
    return ColumnType(found, written)


def _members(written: str) -> tuple[str, ...]:
    """The words of "enum('a','b''c')".

    >>> _members("enum('a','b''c,d')")
    ('a', "b'c,d")
    """
    return tuple(each.replace("''", "'") for each in re.findall(r"'((?:[^']|'')*)'", written))


def _wire_type(column: WireColumn, codec_of: Callable[[int], str | None]) -> ColumnType:
    kind = _WIRES.get(column.type)
    if kind is None:
        length = column.meta if column.type is not Wire.BLOB else None
        if codec_of(column.collation) is None:
            return ColumnType(TypeKind.BYTES, "binary", length=length)
        return ColumnType(TypeKind.TEXT, "text", length=length)
    sign = " unsigned" if column.unsigned and kind in _INTEGERS else ""
    bits = (column.meta & 0xFF) + (column.meta >> 8) * 8
    number = str(bits if kind == "bit" else column.meta >> 8)
    found = _type(kind, kind + sign, None, number, str(column.meta & 0xFF), str(column.meta))
    if column.members:
        return ColumnType(found.kind, kind, members=column.members)
    return found


def codec_of(charset: str | None) -> str | None:
    """Python's name of a character set; None of what is no text."""
    return None if charset in (None, "binary") else CODECS.get(str(charset), str(charset))


def parser_of(type_: ColumnType) -> Callable[[Any], Any] | None:
    """How to read what the server prints of a type; None if it is the value."""
    match type_.kind:
        case TypeKind.INT16 | TypeKind.INT32 | TypeKind.INT64 | TypeKind.UINT64 | TypeKind.YEAR:
            return int
        case TypeKind.FLOAT32:
            return lambda text: shortest(float(text))
        case TypeKind.FLOAT64:
            return float
        case TypeKind.DECIMAL:
            return Decimal
        case TypeKind.DATE:
            return parse_date
        case TypeKind.TIME:
            return parse_time
        case TypeKind.TIMESTAMP | TypeKind.TIMESTAMP_ZONED:
            return parse_datetime
        case TypeKind.BITS:
            return lambda data: data[::-1]
        case _:
            return None
