"""Tables of MariaDB and MySQL, read in chunks, and the marks between which they are read."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from headrace.capture.changes import Column, Row, Table, TableName, TypeKind
from headrace.capture.errors import CaptureError
from headrace.capture.mariadb.catalog import parser_of
from headrace.capture.mariadb.conditions import Judge
from headrace.capture.mariadb.connection import ask, explained, quoted
from headrace.capture.source import Chunk, KeyRange, size_of

_WORDS: Final = (TypeKind.ENUM, TypeKind.SET)
_NUMBERS: Final = (
    *(TypeKind.INT16, TypeKind.INT32, TypeKind.INT64, TypeKind.UINT64, TypeKind.YEAR),
    *(TypeKind.DECIMAL, TypeKind.FLOAT32, TypeKind.FLOAT64),
)
_BYTES: Final = (TypeKind.BYTES, TypeKind.BITS)


class MariadbReader:
    """One connection that reads tables.

    Args:
        connection: In autocommit mode; closed with the reader.
        url: The database, for messages.
        marks: The table that marks are written to.
        describe: A table as it is now, and what each of its columns becomes.
    """

    def __init__(
        self,
        connection: Any,
        *,
        url: str,
        marks: TableName,
        describe: Callable[[Any, TableName], tuple[Table, "RowParser"] | None],
    ) -> None:
        self._connection = connection
        self._url = url
        self._marks = f"{quoted(marks.schema)}.{quoted(marks.table)}"
        self._describe = describe

    def mark(self, mark: str) -> None:
        """Write a watermark: this connection's row of the table of marks."""
        with explained(self._url):
            ask(
                self._connection,
                f"INSERT INTO {self._marks} VALUES (CONCAT('c', CONNECTION_ID()), %s)"
                " ON DUPLICATE KEY UPDATE mark = VALUES(mark)",
                mark,
            )

    def chunk(self, name: TableName, within: KeyRange, limit: int) -> Chunk:
        """Up to `limit` rows of the range, lowest keys first, of one snapshot of the database."""
        with explained(self._url):
            connection = self._connection
            ask(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            try:
                found = self._describe(connection, name)
                if found is None:
                    raise CaptureError(f"The table {name} is not there any more.")
                table, parser = found
                sql = self._query(table, parser, within, limit)
                rows = ask(connection, sql)
            finally:
                ask(connection, "ROLLBACK")
        width = len(table.columns)
        last = tuple(map(_text, rows[-1][width:])) if rows else None
        parsed = [row for each in rows if parser.keeps(row := parser.row(each[:width]))]
        return Chunk(table, parsed, last, len(rows) < limit, size_of(rows))

    def estimate(self, name: TableName) -> int:
        """What the storage engine believes."""
        with explained(self._url):
            rows = ask(
                self._connection,
                "SELECT TABLE_ROWS FROM information_schema.TABLES"
                " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
                *name,
            )
        return int(rows[0][0] or 0) if rows else 0

    def close(self) -> None:
        """Take the mark away, and leave."""
        with explained(self._url):
            ask(
                self._connection,
                f"DELETE FROM {self._marks} WHERE id = CONCAT('c', CONNECTION_ID())",
            )
            self._connection.close()

    def _query(self, table: Table, parser: "RowParser", within: KeyRange, limit: int) -> str:
        columns = [table.columns[place] for place in table.key]
        if not columns:
            raise CaptureError(f"The rows of {table.name} cannot be read in parts: it has no key.")
        keys = [_ordered(column) for column in columns]
        conditions = []
        if within.low is not None:
            low = [self._literal(*each) for each in zip(columns, within.low, strict=True)]
            conditions.append(_beyond(keys, low, ">"))
            # The first column alone lets the server begin in the middle of its index.
            conditions.append(f"{keys[0]} >= {low[0]}")
        if within.high is not None:
            high = [self._literal(*each) for each in zip(columns, within.high, strict=True)]
            conditions.append(f"NOT {_beyond(keys, high, '>')}")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        listed = ", ".join([*parser.expressions, *keys])
        full = f"{quoted(table.name.schema)}.{quoted(table.name.table)}"
        return f"SELECT {listed} FROM {full}{where} ORDER BY {', '.join(keys)} LIMIT {limit:d}"

    def _literal(self, column: Column, text: str) -> str:
        """A key's text as SQL has it; numbers as such, since texts are compared as floats."""
        kind = column.type.kind
        if kind in _NUMBERS:
            parse = parser_of(column.type)
            assert parse is not None
            parse(text)
            return text
        if kind in _BYTES:
            return f"X'{bytes.fromhex(text.removeprefix('0x')).hex()}'"
        escaped: str = self._connection.escape(text)
        return escaped


class RowParser:
    """How rows of a table are asked for, and read.

    Args:
        table: The columns that are told.
        masked: Which of them are hidden.
        mask: What stands for those.
        judge: Which rows are told; all if None.
    """

    def __init__(
        self, table: Table, masked: Sequence[bool], mask: str, judge: Judge | None = None
    ) -> None:
        self._judge = judge
        self.expressions = [
            f"IF({quoted(column.name)} IS NULL, NULL, '{mask}')" if hidden else _asked(column)
            for column, hidden in zip(table.columns, masked, strict=True)
        ]
        self._parsers = [
            (place, parse)
            for place, (column, hidden) in enumerate(zip(table.columns, masked, strict=True))
            if not hidden and (parse := parser_of(column.type)) is not None
        ]
        self._zeros = zeros_of(table)

    def keeps(self, row: Row) -> bool:
        """Whether a row is told."""
        return self._judge is None or self._judge(row) is True

    def row(self, texts: tuple[Any, ...]) -> Row:
        """The values of a row."""
        row = list(texts)
        for place, parse in self._parsers:
            if (text := row[place]) is not None:
                row[place] = parse(text)
        for place in self._zeros:
            if row[place] is None:
                row[place] = 0
        return tuple(row)


def zeros_of(table: Table) -> tuple[int, ...]:
    """The columns that must have a value, and whose value may be a date that there is not."""
    dated = (TypeKind.DATE, TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_ZONED)
    return tuple(
        place
        for place, column in enumerate(table.columns)
        if not column.nullable and column.type.kind in dated
    )


def _asked(column: Column) -> str:
    name = quoted(column.name)
    # Printed as it is, a number of four bytes has six digits.
    return f"CAST({name} AS DOUBLE)" if column.type.kind is TypeKind.FLOAT32 else name


def _ordered(column: Column) -> str:
    name = quoted(column.name)
    # Sorted by their numbers, but compared by their words.
    return f"CAST({name} AS CHAR)" if column.type.kind in _WORDS else name


def _beyond(keys: list[str], bound: list[str], comparison: str) -> str:
    """(a, b) > (x, y), in words that the servers find an index for."""
    parts = []
    for place, key in enumerate(keys):
        same = [f"{keys[each]} = {bound[each]}" for each in range(place)]
        parts.append(" AND ".join([*same, f"{key} {comparison} {bound[place]}"]))
    return f"({' OR '.join(f'({each})' for each in parts)})"


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
