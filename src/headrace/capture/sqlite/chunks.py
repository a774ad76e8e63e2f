"""Tables of SQLite, read in chunks, and the marks between which they are read."""

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from headrace.capture.changes import Row, Table, TableName
from headrace.capture.errors import CaptureError
from headrace.capture.source import Chunk, KeyRange, size_of
from headrace.capture.sqlite.connection import explained, quoted, reading
from headrace.capture.sqlite.setup import Known
from headrace.capture.sqlite.triggers import NOW_MS, Objects, What

_NUMBER: Final = re.compile(r"[+-]?\d+")
_REAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf")


class SqliteReader:
    """One connection that reads tables.

    Args:
        connection: Closed with the reader.
        path: The database.
        objects: What the capture's tables are called.
        current: A table as it is recorded now, and None if it is not.
        condition: What rows of a table have to fulfil, if anything.
        renew: Called before a table is read, to record what it looks like by then.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        path: Path,
        objects: Objects,
        current: Callable[[sqlite3.Connection, TableName], tuple[Known, Table] | None],
        condition: Callable[[TableName], str | None],
        renew: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._path = path
        self._objects = objects
        self._current = current
        self._condition = condition
        self._renew = renew

    def mark(self, mark: str) -> None:
        """Write a watermark among the changes."""
        with explained(self._path):
            self._connection.execute(
                f"INSERT INTO {self._objects.changes} (version, what, time, v0)"
                f" VALUES (0, {What.MARK:d}, {NOW_MS}, ?)",
                (mark,),
            )

    def chunk(self, name: TableName, within: KeyRange, limit: int) -> Chunk:
        """Up to `limit` rows of the range, lowest keys first, as of one moment.

        Rows whose key is NULL, which SQLite allows in some, come with the first chunk.
        """
        with explained(self._path):
            self._renew()
        with explained(self._path), reading(self._connection):
            found = self._current(self._connection, name)
            if found is None:
                raise CaptureError(f"The table {name} is not there any more.")
            known, table = found
            rows: list[Row] = []
            if within.low is None and any(table.columns[each].nullable for each in table.key):
                rows += self._select(known, table, "NOT", KeyRange(), None)
            listed = self._select(known, table, "", within, limit)
        last = tuple(map(literal, table.key_of(listed[-1]))) if listed else None
        return Chunk(table, [*rows, *listed], last, len(listed) < limit, size_of(listed))

    def estimate(self, name: TableName) -> int:
        """How many rows there are."""
        with explained(self._path):
            sql = f"SELECT count(*) FROM {quoted(name.table)}"
            return int(self._connection.execute(sql).fetchone()[0])

    def close(self) -> None:
        """Leave."""
        self._connection.close()

    def _select(
        self, known: Known, table: Table, no: str, within: KeyRange, limit: int | None
    ) -> list[Row]:
        """Rows of the range; with `no`, those that have a NULL in their key."""
        shape = known.shape
        names = [f"t.{quoted(shape.columns[place].name)}" for place in shape.key]
        ordered = [
            f"{name} COLLATE {shape.columns[place].collation}"
            if shape.columns[place].collation != "BINARY"
            else name
            for name, place in zip(names, shape.key, strict=True)
        ]
        conditions = [f"{no} ({' AND '.join(f'{name} IS NOT NULL' for name in names)})"]
        values: list[Any] = []
        for bound, comparison in ((within.low, ">"), (within.high, "<=")):
            if bound is not None:
                asked = ", ".join("?" for _ in names)
                conditions.append(f"({', '.join(ordered)}) {comparison} ({asked})")
                values += map(value_of, bound)
        if (condition := self._condition(table.name)) is not None:
            conditions.append(f"({condition})")
        limited = "" if limit is None else f" LIMIT {limit:d}"
        sql = (
            f"SELECT {', '.join(shape.expressions('t'))} FROM {quoted(shape.table)} AS t"
            f" WHERE {' AND '.join(conditions)} ORDER BY {', '.join(ordered)}{limited}"
        )
        return self._connection.execute(sql, values).fetchall()


def literal(value: Any) -> str:
    r"""A value as SQL has it, from which `value_of` makes the same.

    >>> [literal(each) for each in (1, 1.0, "it's", b"\x00")]
    ['1', '1.0', "'it''s'", "X'00'"]
    """
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return f"X'{value.hex()}'" if isinstance(value, bytes) else repr(value)


def value_of(text: str) -> Any:
    r"""The value of a literal; what is none stands for itself, as people write it.

    >>> [value_of(each) for each in ("1", "1.0", "'it''s'", "X'00'", "abc")]
    [1, 1.0, "it's", b'\x00', 'abc']
    """
    if text[:1] == "'" and text[-1:] == "'" and len(text) > 1:
        return text[1:-1].replace("''", "'")
    if text[:2] in ("X'", "x'") and text[-1:] == "'":
        return bytes.fromhex(text[2:-1])
    if _NUMBER.fullmatch(text):
        return int(text)
    return float(text) if _REAL.fullmatch(text) else text
