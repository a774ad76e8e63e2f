"""What a database's log says, in words that fit every database.

A log is a sequence of events: a transaction begins, rows change, it commits. `Event` lists them
all. They are named tuples, because one is made per change: cheap to make, and never changed.

A row is a sequence with one value per column of its `Table`, in the table's order. What Python
value stands for which kind of column is the contract between databases and envelopes:

| kind | value |
|---|---|
| BOOLEAN | bool |
| INT16, INT32, INT64, UINT64, YEAR | int |
| FLOAT32, FLOAT64 | float |
| DECIMAL | decimal.Decimal, NaN and infinities included |
| TEXT, UUID, JSON, XML, ENUM, SET, RANGE, OTHER | str, as the database writes it |
| BYTES, BITS | bytes; BITS with the lowest bits in the first byte |
| DATE | int, days since 1970-01-01, or an infinite float |
| TIME | int, microseconds since midnight |
| TIME_ZONED | int, microseconds since midnight in UTC |
| TIMESTAMP | int, microseconds since 1970-01-01 00:00 of whatever zone, or an infinite float |
| TIMESTAMP_ZONED | int, microseconds since 1970-01-01 00:00 UTC, or an infinite float |
| INTERVAL | `Interval` |
| MAP | dict of str to str or None |
| POINT | tuple of two floats |
| ARRAY | list of the element's values, or of such lists |
| DYNAMIC | the element's value as a rule, but any int, float, str or bytes |

NULL is None. `UNAVAILABLE` stands where the log leaves out a value that did not change and the
source has no other way to tell it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cached_property
from typing import Any, Final, NamedTuple

Row = Sequence[Any]
"""One value per column of a table; a tuple, or something that is equal to one."""

Position = str
"""A place between two transactions in a database's log, as the database writes it.

Opaque here: only the source that made it can compare it or start from it.
"""


class Unavailable(Enum):
    """The only value of its kind, so that it can be told from everything that a column may hold."""

    VALUE = "unavailable"


UNAVAILABLE: Final = Unavailable.VALUE
"""A value that the log leaves out because the update did not touch it (TOAST)."""


class Interval(NamedTuple):
    """A span of time in the three units that cannot be turned into each other."""

    months: int
    days: int
    microseconds: int


class TypeKind(StrEnum):
    """What kind of value a column holds."""

    BOOLEAN = "boolean"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT64 = "uint64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    DECIMAL = "decimal"
    TEXT = "text"
    BYTES = "bytes"
    BITS = "bits"
    DATE = "date"
    TIME = "time"
    TIME_ZONED = "time_zoned"
    TIMESTAMP = "timestamp"
    TIMESTAMP_ZONED = "timestamp_zoned"
    YEAR = "year"
    INTERVAL = "interval"
    UUID = "uuid"
    JSON = "json"
    XML = "xml"
    ENUM = "enum"
    SET = "set"
    RANGE = "range"
    MAP = "map"
    POINT = "point"
    ARRAY = "array"
    DYNAMIC = "dynamic"
    """Every value has a type of its own, of which the column's is only the usual one (SQLite)."""

    OTHER = "other"
    """Anything else, as the text that the database prints."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column."""

    kind: TypeKind
    name: str
    """As the database writes it, such as "numeric(10,2)"."""

    precision: int | None = None
    """Digits of a decimal; of a time, those after the second."""

    scale: int | None = None
    """Digits after the point of a decimal; None if every value has its own."""

    length: int | None = None
    """Of text, bytes or bits, where it is limited."""

    members: tuple[str, ...] = ()
    """The words of an ENUM or SET, in order."""

    element: "ColumnType | None" = None
    """What an ARRAY holds, and a DYNAMIC column as a rule."""

    native: int = 0
    """The number that the database knows the type by, where it has one."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    type: ColumnType
    nullable: bool = True
    generated: bool = False
    """Computed by the database from other columns."""


class TableName(NamedTuple):
    """A table by its full name; MariaDB's databases are schemas here, SQLite's is "main"."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, eq=False)
class Table:
    """A table as it was when rows were written: one object per version, compared by identity."""

    name: TableName
    columns: tuple[Column, ...]
    key: tuple[int, ...] = ()
    """Which columns, by place, tell its rows apart, in the key's own order; empty if none do."""

    native: int = 0
    """The number that the database knows it by, where it has one: another if it was made anew."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def key_names(self) -> tuple[str, ...]:
        """The names of the columns of its key."""
        return tuple(self.names[place] for place in self.key)

    def key_of(self, row: Row) -> tuple[Any, ...]:
        """What tells this row from others."""
        return tuple([row[place] for place in self.key])

    def says_the_same(self, other: "Table") -> bool:
        """Whether the two describe rows alike."""
        return (self.name, self.columns, self.key) == (other.name, other.columns, other.key)


class Op(StrEnum):
    """What happened to a row; the letters are Debezium's."""

    READ = "r"
    INSERT = "c"
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"
    MESSAGE = "m"


class Begin(NamedTuple):
    """A transaction begins. All until its `Commit` belongs to it; none is told that failed."""

    id: str
    time_us: int
    """When it committed, in microseconds since the epoch."""

    place: Any = None
    """Where in the log; the source's own affair."""


class RowChange(NamedTuple):
    """A row came, changed or went; or was found, by a snapshot."""

    op: Op
    table: Table
    before: Row | None
    """What it was, as far as the log says; None of an insert, and where it says nothing.

    Where the log tells the key only, all other values are None.
    """

    after: Row | None
    place: Any = None


class Truncate(NamedTuple):
    """All rows of a table went at once."""

    table: Table
    place: Any = None


class Message(NamedTuple):
    """Something that an application wrote into the log, and that is in no table."""

    prefix: str
    content: bytes
    transactional: bool
    """False if it stands outside of transactions, and is told even if its writer failed."""

    place: Any = None


class Watermark(NamedTuple):
    """A mark that a snapshot of ours wrote into the log, at this place among the changes."""

    id: str
    place: Any = None


class SchemaChange(NamedTuple):
    """From here on, rows of a table look like this."""

    table: Table
    before: Table | None
    """What they looked like, if that is known."""

    place: Any = None


class TableDropped(NamedTuple):
    """A table is gone, and what comes under its name is another one."""

    name: TableName
    place: Any = None


class Commit(NamedTuple):
    """A transaction is complete, and a capture may resume behind it."""

    position: Position
    time_us: int


class Reached(NamedTuple):
    """No transaction is under way, and there is nothing for us up to here."""

    position: Position


Event = (
    Begin
    | RowChange
    | Truncate
    | Message
    | Watermark
    | SchemaChange
    | TableDropped
    | Commit
    | Reached
)
"""Anything that a log says."""

Events = Sequence[Event]
"""Some of it, in order."""
