"""Tables of PostgreSQL, read in chunks, and the marks between which they are read."""

import io
from collections.abc import Callable
from typing import Any

from headrace.capture.changes import TableName
from headrace.capture.errors import CaptureError
from headrace.capture.postgres.catalog import Catalog, Relation
from headrace.capture.postgres.connection import explained
from headrace.capture.postgres.copying import rows_of
from headrace.capture.postgres.pgoutput import RowReader
from headrace.capture.postgres.setup import full_name, quoted
from headrace.capture.postgres.visibility import running, visibility
from headrace.capture.source import Chunk, KeyRange
from headrace.capture.texts import Text


class PostgresReader:
    """One connection that reads tables.

    Args:
        connection: In autocommit mode; closed with the reader.
        url: The database, for messages.
        marks: The prefix of the marks that it writes.
        catalog: Asked over the same connection, so that it sees what the reader sees.
        describe: A table as it is now, and how to read its rows.
        condition: What rows of a table have to fulfil, if anything.
    """

    def __init__(
        self,
        connection: Any,
        *,
        url: str,
        marks: str,
        catalog: Catalog,
        describe: Callable[[Catalog, TableName], tuple[Relation, RowReader] | None],
        condition: Callable[[TableName], str | None],
    ) -> None:
        self._connection = connection
        self._url = url
        self._marks = marks
        self._catalog = catalog
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
            # Before the snapshot: whatever the log told before the mark and is not seen by then.
            candidates = running(cursor)
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                seen = visibility(cursor)
                found = self._describe(self._catalog, name)
                if found is None:
                    raise CaptureError(f"The table {name} is not there any more.")
                relation, reader = found
                written = io.BytesIO()
                cursor.copy_expert(self._query(cursor, relation, reader, within, limit), written)
            finally:
                cursor.execute("ROLLBACK")
        rows = rows_of(written.getvalue(), reader.reading)
        last = None
        if rows:
            texts = rows[-1].texts
            last = tuple(_key_text(texts[place]) for place in reader.table.key)
        unseen = frozenset(str(xid) for xid in candidates if not seen.sees(xid))
        size = written.tell()
        return Chunk(reader.table, rows, last, len(rows) < limit, size, unseen)

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
                # Literals without a type take that of the column they are compared with.
                given = cursor.mogrify(", ".join(["%s"] * len(table.key)), bound).decode()
                conditions.append(f"({keys}) {comparison} ({given})")
        if (condition := self._condition(table.name)) is not None:
            conditions.append(f"({condition})")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        columns = ", ".join(quoted(name) for name in table.names)
        return (
            f"COPY (SELECT {columns} FROM {full_name(relation)}{where}"  # noqa: S608 - quoted
            f" ORDER BY {keys} LIMIT {limit:d}) TO STDOUT"
        )


def _key_text(text: Text) -> str:
    assert isinstance(text, bytes), "a key has no NULL"
    return text.decode()
