"""What the log says of a table before its rows: names and types of columns, with their details."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from headrace.capture.changes import TableName


class Wire(IntEnum):
    """Types as the log numbers them."""

    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    BLOB_COMPRESSED = 140
    VARCHAR_COMPRESSED = 141
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


class Detail(IntEnum):
    """What the log may add to the description of a table, as it numbers it."""

    SIGNS = 1
    COLLATION = 2
    """One for all texts, and those that have another."""

    COLLATIONS = 3
    """One for each text."""

    NAMES = 4
    SETS = 5
    ENUMS = 6
    KEY = 8
    KEY_OF_PARTS = 9
    """A key of the first letters of columns, each followed by their number."""

    WORDS_COLLATION = 10
    WORDS_COLLATIONS = 11
    """As above, of ENUM and SET."""


_NUMERIC: Final = {
    Wire.TINY,
    Wire.SHORT,
    Wire.INT24,
    Wire.LONG,
    Wire.LONGLONG,
    Wire.NEWDECIMAL,
    Wire.FLOAT,
    Wire.DOUBLE,
    Wire.YEAR,
}
_TEXTUAL: Final = {Wire.VARCHAR, Wire.VAR_STRING, Wire.STRING, Wire.BLOB}
_TWO_BYTES: Final = {
    Wire.VARCHAR,
    Wire.VAR_STRING,
    Wire.STRING,
    Wire.NEWDECIMAL,
    Wire.BIT,
    Wire.ENUM,
    Wire.SET,
    Wire.VARCHAR_COMPRESSED,
}
_ONE_BYTE: Final = {
    Wire.FLOAT,
    Wire.DOUBLE,
    Wire.BLOB,
    Wire.GEOMETRY,
    Wire.JSON,
    Wire.TIMESTAMP2,
    Wire.DATETIME2,
    Wire.TIME2,
    Wire.BLOB_COMPRESSED,
}


@dataclass(slots=True)
class WireColumn:
    """A column as the log describes it."""

    type: Wire
    meta: int
    nullable: bool
    name: str = ""
    unsigned: bool = False
    collation: int = 63
    members: tuple[str, ...] = ()


@dataclass(slots=True)
class TableMap:
    """A table as the log describes it."""

    name: TableName
    columns: list[WireColumn]
    key: tuple[int, ...] = ()
    named: bool = False
    """Whether names of columns were told: binlog_row_metadata is FULL."""


def packed(data: bytes, place: int) -> tuple[int, int]:
    """A number in one to nine bytes, and the place behind it."""
    first = data[place]
    if first < 251:
        return first, place + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[place + 1 : place + 1 + size], "little"), place + 1 + size


def parse_table_map(data: bytes, place: int, *, mariadb: bool) -> TableMap:
    """The description that begins at a place, behind the table's number and flags."""
    size = data[place]
    schema = data[place + 1 : place + 1 + size].decode()
    place += size + 2
    size = data[place]
    table = data[place + 1 : place + 1 + size].decode()
    place += size + 2
    count, place = packed(data, place)
    types = data[place : place + count]
    place += count
    length, place = packed(data, place)
    metas = data[place : place + length]
    place += length
    nulls = data[place : place + (count + 7) // 8]
    place += (count + 7) // 8
    columns, at = [], 0
    for number, kind in enumerate(types):
        type_, meta = Wire(kind), 0
        if type_ in _TWO_BYTES:
            # Strings and their likes have the real type in the first byte, the size in the second.
            swapped = type_ in (Wire.STRING, Wire.NEWDECIMAL, Wire.ENUM, Wire.SET)
            meta = int.from_bytes(metas[at : at + 2], "big" if swapped else "little")
            at += 2
        elif type_ in _ONE_BYTE:
            meta = metas[at]
            at += 1
        if type_ is Wire.STRING:
            type_, meta = _real_string(meta)
        columns.append(WireColumn(type_, meta, bool(nulls[number // 8] >> number % 8 & 1)))
    found = TableMap(TableName(schema, table), columns)
    details: dict[int, bytes] = {}
    while place < len(data):
        kind = data[place]
        length, place = packed(data, place + 1)
        details[kind] = data[place : place + length]
        place += length
    _detail(found, details, mariadb=mariadb)
    return found


def _real_string(meta: int) -> tuple[Wire, int]:
    kind, size = meta >> 8, meta & 0xFF
    if kind in (Wire.ENUM, Wire.SET):
        return Wire(kind), size
    # Two bits of the length are hidden, inverted, in the type.
    return Wire.STRING, size | ((kind & 0x30) ^ 0x30) << 4


def _detail(table: TableMap, details: dict[int, bytes], *, mariadb: bool) -> None:
    columns = table.columns
    numeric = [each for each in columns if each.type in _NUMERIC]
    textual = [
        each
        for each in columns
        if each.type in _TEXTUAL or (mariadb and each.type is Wire.GEOMETRY)
    ]
    worded = [each for each in columns if each.type in (Wire.ENUM, Wire.SET)]
    if signs := details.get(Detail.SIGNS):
        for place, column in enumerate(numeric):
            column.unsigned = bool(signs[place // 8] & 0x80 >> place % 8)
    for chosen, default, listed in (
        (textual, Detail.COLLATION, Detail.COLLATIONS),
        (worded, Detail.WORDS_COLLATION, Detail.WORDS_COLLATIONS),
    ):
        if default in details:
            first, *pairs = _numbers(details[default])
            for column in chosen:
                column.collation = first
            for place, collation in zip(pairs[::2], pairs[1::2], strict=True):
                chosen[place].collation = collation
        elif listed in details:
            for column, collation in zip(chosen, _numbers(details[listed]), strict=True):
                column.collation = collation
    if names := details.get(Detail.NAMES):
        place = 0
        for column in columns:
            size, place = packed(names, place)
            column.name = names[place : place + size].decode()
            place += size
        table.named = True
    for kind, wire in ((Detail.SETS, Wire.SET), (Detail.ENUMS, Wire.ENUM)):
        if kind in details:
            chosen = [each for each in columns if each.type is wire]
            _members(chosen, details[kind])
    if Detail.KEY in details:
        table.key = tuple(_numbers(details[Detail.KEY]))
    elif Detail.KEY_OF_PARTS in details:
        table.key = tuple(_numbers(details[Detail.KEY_OF_PARTS])[::2])


def _numbers(data: bytes) -> list[int]:
    found, place = [], 0
    while place < len(data):
        number, place = packed(data, place)
        found.append(number)
    return found


def _members(columns: list[WireColumn], data: bytes) -> None:
    place = 0
    for column in columns:
        count, place = packed(data, place)
        members = []
        for _ in range(count):
            size, place = packed(data, place)
            members.append(data[place : place + size].decode(errors="replace"))
            place += size
        column.members = tuple(members)
