"""What a table of SQLite looks like, as a capture records it."""

import sqlite3
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

import orjson

from headrace.capture.changes import Column, ColumnType, Table, TableName, TypeKind
from headrace.capture.errors import InvalidCapture
from headrace.capture.naming import PREFIX
from headrace.capture.selection import MASK, Selection
from headrace.capture.sqlite.connection import quoted

SCHEMA: Final = "main"
"""The one schema of a file."""

_VIRTUAL, _STORED = 2, 3
"""How SQLite marks generated columns."""

_ROWID_WORDS: Final = ("rowid", "_rowid_", "oid")
"""The names of a row's number, of which columns may take any."""


@dataclass(frozen=True, slots=True)
class ShapeColumn:
    """A column that is recorded."""

    name: str
    declared: str
    """The type as it was declared, in whatever words."""

    required: bool = False
    generated: bool = False
    masked: bool = False
    certain: bool = False
    """Whether SQLite itself sees to it that values are of the type."""

    collation: str = "BINARY"
    """How the key compares it, if it is of the key."""


@dataclass(frozen=True, slots=True)
class Unique:
    """Columns that no two rows have alike, by name, with how they are compared."""

    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """The recorded columns of a table, and what tells its rows apart."""

    table: str
    columns: tuple[ShapeColumn, ...]
    key: tuple[int, ...]
    """By place; the number of the row stands first if nothing else tells rows apart."""

    by_rowid: bool = False
    uniques: tuple[Unique, ...] = ()
    """Beside the key: REPLACE removes rows because of them."""

    present: tuple[str, ...] = ()
    """All columns, those that are not recorded too: conditions may name them."""

    @property
    def name(self) -> TableName:
        """The table's full name."""
        return TableName(SCHEMA, self.table)

    def expressions(self, row: str) -> list[str]:
        """The recorded values of a row: of NEW, of OLD or of the table itself."""
        return [
            f"CASE WHEN {row}.{quoted(each.name)} IS NOT NULL THEN '{MASK}' END"
            if each.masked
            else f"{row}.{quoted(each.name)}"
            for each in self.columns
        ]

    def to_json(self) -> str:
        """As it is stored."""
        return orjson.dumps(asdict(self)).decode()

    @classmethod
    def from_json(cls, stored: str) -> Self:
        """As it was stored."""
        found: dict[str, Any] = orjson.loads(stored)
        return cls(
            found["table"],
            tuple(ShapeColumn(**each) for each in found["columns"]),
            tuple(found["key"]),
            found["by_rowid"],
            tuple(Unique(tuple((n, c) for n, c in each["columns"])) for each in found["uniques"]),
            tuple(found["present"]),
        )

    def to_table(self, generation: int) -> Table:
        """In neutral words."""
        columns = tuple(
            Column(each.name, _type(each), nullable=not each.required, generated=each.generated)
            for each in self.columns
        )
        return Table(self.name, columns, self.key, generation)


def _type(column: ShapeColumn) -> ColumnType:
    kind = natural_kind(column.declared)
    natural = ColumnType(kind, column.declared.lower())
    if column.masked or (column.certain and column.declared.upper() != "ANY"):
        return natural
    return ColumnType(TypeKind.DYNAMIC, natural.name, element=natural)


def natural_kind(declared: str) -> TypeKind:
    """What values of a column are expected to be; SQLite's own rules, and habits beyond them.

    >>> [str(natural_kind(each)) for each in ("BIGINT", "varchar(9)", "DECIMAL(9,2)", "datetime")]
    ['int64', 'text', 'float64', 'text']
    """
    word = declared.upper()
    if "INT" in word:
        return TypeKind.INT64
    if any(part in word for part in ("CHAR", "CLOB", "TEXT")):
        return TypeKind.TEXT
    if "BLOB" in word:
        return TypeKind.BYTES
    if any(part in word for part in ("REAL", "FLOA", "DOUB", "DEC", "NUM")):
        return TypeKind.FLOAT64
    return TypeKind.INT64 if "BOOL" in word else TypeKind.TEXT


def names_of(connection: sqlite3.Connection) -> list[str]:
    """The tables that can have triggers, without SQLite's own and ours."""
    return [
        name
        for schema, name, kind, *_ in connection.execute("PRAGMA table_list")
        if schema == SCHEMA and kind == "table" and not name.startswith(("sqlite_", PREFIX))
    ]


def shape_of(connection: sqlite3.Connection, table: str, selection: Selection) -> Shape:
    """A table as it is now, with the columns that are captured."""
    ((*_, without_rowid, strict),) = (
        row for row in connection.execute(f"PRAGMA table_list({quoted(table)})") if row[0] == SCHEMA
    )
    rows = list(connection.execute(f"PRAGMA table_xinfo({quoted(table)})"))
    indexes = [
        (origin, list(connection.execute(f"PRAGMA index_xinfo({quoted(index)})")))
        for _, index, unique, origin, _ in connection.execute(f"PRAGMA index_list({quoted(table)})")
        if unique
    ]
    primary = {name: place for _, name, _, _, _, place, _ in rows if place}
    collations = {
        column: collation
        for origin, columns in indexes
        if origin == "pk"
        for _, _, column, _, collation, of_key in columns
        if of_key
    }
    # A primary key without an index is the number of the row itself.
    is_number = bool(primary) and not collations and not without_rowid
    name = TableName(SCHEMA, table)
    columns = []
    if not primary:
        columns.append(_number(table, [row[1] for row in rows]))
    for _, column, declared, required, _, place, hidden in rows:
        if hidden not in (0, _VIRTUAL, _STORED):
            continue
        if not selection.tells(name, column, in_key=bool(place)):
            continue
        columns.append(
            ShapeColumn(
                column,
                declared,
                bool(required) or (bool(place) and (is_number or bool(without_rowid))),
                hidden != 0,
                selection.masks(name, column, natural_kind(declared), in_key=bool(place)),
                bool(strict) or (bool(place) and is_number),
                collations.get(column, "BINARY"),
            )
        )
    places = {column.name: place for place, column in enumerate(columns)}
    key = sorted(primary, key=lambda each: primary[each])
    return Shape(
        table,
        tuple(columns),
        tuple(places[each] for each in key) if primary else (0,),
        not primary,
        tuple(_uniques(indexes)),
        tuple(row[1] for row in rows),
    )


def _uniques(indexes: list[tuple[str, list[Any]]]) -> list[Unique]:
    found = []
    for origin, columns in indexes:
        of_key = [(row[2], row[4].upper()) for row in columns if row[5]]
        plain = all(collation == "BINARY" for _, collation in of_key)
        # What an expression is made of is not told.
        if all(name is not None for name, _ in of_key) and not (origin == "pk" and plain):
            found.append(Unique(tuple(of_key)))
    return found


def _number(table: str, names: list[str]) -> ShapeColumn:
    taken = {name.lower() for name in names}
    for word in _ROWID_WORDS:
        if word not in taken:
            return ShapeColumn(word, "INTEGER", required=True, certain=True)
    raise InvalidCapture(
        f"{SCHEMA}.{table} has no primary key, and columns called rowid, _rowid_ and oid, so that "
        "the number of a row has no name. Leave the table out."
    )
