"""Tables of PostgreSQL, read in chunks, and the marks between which they are read."""

import io
from collections.abc import Callable
from typing import Any, Final

from headrace.capture.changes import TableName
from headrace.capture.errors import CaptureError
from headrace.capture.postgres.catalog import Relation
from headrace.capture.postgres.connection import explained
from headrace.capture.postgres.pgoutput import RowReader
from headrace.capture.postgres.setup import full_name, quoted
from headrace.capture.source import Chunk, KeyRange

_NULL: Final = b"\\N"
_ESCAPES: Final = {
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b"\\": b"\\",
}
_XID_MASK: Final = 0xFFFFFFFF
"""Snapshots count transactions without wrapping around, the log with."""


class PostgresReader:
    """One connection that reads tables.

    Args:
        connection: In autocommit mode; closed with the reader.
        url: The database, for messages.
        marks: The prefix of the marks that it writes.
        describe: A table as it is now, and how to read its rows.
        condition: What rows of a table have to fulfil, if anything.
    """

    def __init__(
        self,
        connection: Any,
        *,
        url: str,
        marks: str,
        describe: Callable[[Any, TableName], tuple[Relation, RowReader] | None],
        condition: Callable[[TableName], str | None],
    ) -> None:
        self._connection = connection
        self._url = url
        self._marks = marks
        self._describe = describe
        self._condition = condition
        with explained(url), connection.cursor() as cursor:
            # A mark must be in the log, not on a standby.
            cursor.execute("SET synchronous_commit = local")

    def mark(self, mark: str) -> None:
        """Write a watermark; as a transaction, since others wait for the log to be flushed."""
        with explained(self._url), self._connection.cursor() as cursor:
            cursor.execute("SELECT pg_logical_emit_message(true, %s, %s)", (self._marks, mark))

    def chunk(self, name: TableName, within: KeyRange, limit: int) -> Chunk:
        """Up to `limit` rows of the range, lowest keys first, of one snapshot of the database."""
        with explained(self._url), self._connection.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                cursor.execute("SELECT pg_current_snapshot()::text")
                unseen = _under_way(cursor.fetchone()[0])
                found = self._describe(self._connection, name)
                if found is None:
                    raise CaptureError(f"The table {name} is not there any more.")
                relation, reader = found
                written = io.BytesIO()
                cursor.copy_expert(self._query(cursor, relation, reader, within, limit), written)
            finally:
                cursor.execute("ROLLBACK")
        lines = written.getvalue().split(b"\n")[:-1]
        decoders = [decode for decode in reader.decoders if decode is not None]
        rows = [_row(line, decoders) for line in lines]
        last = None
        if lines:
            values = [_plain(value) for value in lines[-1].split(b"\t")]
            last = tuple((values[place] or b"").decode() for place in reader.table.key)
        return Chunk(reader.table, rows, last, len(lines) < limit, unseen)

    def estimate(self, name: TableName) -> int:
        """What the planner believes; partitions together."""
        sql = (
            "SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint"
            " FROM pg_partition_tree(to_regclass(%s)) p JOIN pg_class c ON c.oid = p.relid"
            " WHERE p.isleaf"
        )
        with explained(self._url), self._connection.cursor() as cursor:
            cursor.execute(sql, (f"{quoted(name.schema)}.{quoted(name.table)}",))
            counted = int(cursor.fetchone()[0])
            if counted == 0:
                # Never analysed: count, but no more than takes a moment.
                table = f"{quoted(name.schema)}.{quoted(name.table)}"
                counting = f"SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT 100000) AS few"  # noqa: S608
                cursor.execute(counting)
                counted = int(cursor.fetchone()[0])
        return counted

    def close(self) -> None:
        """Leave."""
        self._connection.close()

    def _query(
        self, cursor: Any, relation: Relation, reader: RowReader, within: KeyRange, limit: int
    ) -> str:
        table = reader.table
        if not table.key:
            raise CaptureError(f"The rows of {table.name} cannot be read in parts: it has no key.")
        keys = ", ".join(quoted(name) for name in table.key_names)
        conditions = []
        for bound, comparison in ((within.low, ">"), (within.high, "<=")):
            if bound is not None:
                # The words are compared as the columns' types, whatever they are.
                casts = ", ".join(
                    f"CAST(%s AS {_type_name(cursor, relation.oid, name)})"
                    for name in table.key_names
                )
                given = cursor.mogrify(casts, bound).decode()
                conditions.append(f"({keys}) {comparison} ({given})")
        if (condition := self._condition(table.name)) is not None:
            conditions.append(f"({condition})")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        columns = ", ".join(quoted(name) for name in table.names)
        return (
            f"COPY (SELECT {columns} FROM {full_name(relation)}{where}"  # noqa: S608 - quoted
            f" ORDER BY {keys} LIMIT {limit:d}) TO STDOUT"
        )


def _type_name(cursor: Any, oid: int, column: str) -> str:
    cursor.execute(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = %s AND attname = %s",
        (oid, column),
    )
    name: str = cursor.fetchone()[0]
    return name.replace("%", "%%")


def _under_way(snapshot: str) -> frozenset[str]:
    """The transactions that a snapshot "xmin:xmax:xip,xip" does not see, as the log names them."""
    _, _, listed = snapshot.split(":")
    return frozenset(str(int(xid) & _XID_MASK) for xid in listed.split(",") if xid)


def _row(line: bytes, decoders: list[Any]) -> tuple[Any, ...]:
    values = line.split(b"\t")
    if b"\\" not in line:
        return tuple([decode(value) for decode, value in zip(decoders, values, strict=True)])
    plain = map(_plain, values)
    return tuple(
        [
            None if value is None else decode(value)
            for decode, value in zip(decoders, plain, strict=True)
        ]
    )


def _plain(value: bytes) -> bytes | None:
    r"""A value without the escapes of COPY's text format; None of NULL.

    >>> _plain(rb"a\tb\\n"), _plain(b"plain"), _plain(rb"\N")
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
