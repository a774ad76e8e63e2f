"""SQLite as a store, and with `?search=` as a search index (FTS5).

Searchable columns are in a virtual table beside the table, `orders_search` beside `orders`, which
triggers keep in step with it:

    SELECT orders.* FROM orders_search JOIN orders ON orders.rowid = orders_search.rowid
    WHERE orders_search MATCH 'blue shoes' ORDER BY rank
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa

from headrace.views.stores.changes import Chunk
from headrace.views.stores.columns import Conversion, as_iso, as_json, converted, tuples
from headrace.views.stores.connected import ConnectedSession
from headrace.views.stores.contract import Shape
from headrace.views.stores.errors import ColumnsRefused, StoreError, StoreRefused, StoreUnreachable
from headrace.views.stores.kinds import Kind, kind_of
from headrace.views.stores.relational import (
    POSITIONS,
    assignments,
    sql_type,
)

BUSY_SECONDS: Final = 30.0
"""How long to wait while others write."""

TYPES: Final = {
    Kind.BOOLEAN: "INTEGER",
    Kind.INT8: "INTEGER",
    Kind.INT16: "INTEGER",
    Kind.INT32: "INTEGER",
    Kind.INT64: "INTEGER",
    Kind.FLOAT32: "REAL",
    Kind.FLOAT64: "REAL",
    Kind.DECIMAL: "TEXT",
    Kind.TEXT: "TEXT",
    Kind.BYTES: "BLOB",
    Kind.DATE: "TEXT",
    Kind.INSTANT: "TEXT",
    Kind.LOCAL_TIME: "TEXT",
    Kind.NESTED: "TEXT",
}
"""The types of columns; texts of decimals and times are exact, and times sort as they come."""

_CONVERSIONS: Final[dict[Kind, Conversion]] = {
    Kind.BOOLEAN: lambda column: column.cast(pa.int8()),
    Kind.FLOAT32: lambda column: column.cast(pa.float64()),
    Kind.DECIMAL: lambda column: column.cast(pa.string()),
    Kind.DATE: lambda column: column.cast(pa.string()),
    Kind.INSTANT: as_iso,
    Kind.LOCAL_TIME: as_iso,
    Kind.NESTED: as_json,
}
_REFUSED: Final = ("SQLITE_CONSTRAINT", "SQLITE_MISMATCH", "SQLITE_TOOBIG")
_PASSING: Final = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_FULL", "SQLITE_CANTOPEN")


@dataclass(frozen=True, slots=True)
class SqliteStore:
    """A SQLite file, which is made if it is not there; its directory has to be."""

    path: str
    search: tuple[str, ...] = ()
    """The columns that a search looks through; without any there is no index."""

    def session(self) -> "SqliteSession":
        """See `Store`."""
        return SqliteSession(self)


class SqliteSession(ConnectedSession):
    """A connection to a SQLite file."""

    mark: ClassVar[str] = "?"
    beginning: ClassVar[str] = "BEGIN IMMEDIATE"

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(sqlite3.Error)
        self._store = store
        fresh = not Path(store.path).exists()
        with self._explained():
            self._connection = sqlite3.connect(
                store.path,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            if fresh:
                # Readers and the one who writes do not wait for each other.
                self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
            # A position that is acknowledged must not be lost with the power.
            self._connection.execute("PRAGMA synchronous = FULL")

    def alive(self) -> bool:
        """See `Session`; a file does not go away, or others would notice too."""
        return Path(self._store.path).exists()

    def _meaning(self, error: Any) -> StoreError:
        return _meaning(error, self._store.path)

    def _run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._connection.execute(sql, values).fetchall()
        return found

    def _positions_table(self) -> str:
        return (
            f"CREATE TABLE IF NOT EXISTS {POSITIONS} (writer TEXT NOT NULL, place TEXT NOT NULL, "
            "version INTEGER NOT NULL, epoch INTEGER NOT NULL, position INTEGER, note TEXT, "
            "changed INTEGER NOT NULL, PRIMARY KEY (writer, place)) WITHOUT ROWID"
        )

    def _columns(self, table: str) -> dict[str, str]:
        found = self._run("SELECT name, type FROM pragma_table_xinfo(?)", table)
        return {name: kind or "of any type" for name, kind in found}

    def _is_unique(self, shape: Shape) -> bool:
        wanted = {name.lower() for name in shape.key}
        by_key = self._run("SELECT name FROM pragma_table_info(?) WHERE pk > 0", shape.table)
        if {name.lower() for (name,) in by_key} == wanted:
            return True
        indexes = self._run(
            'SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial', shape.table
        )
        return any(
            {
                str(name).lower()
                for (name,) in self._run("SELECT name FROM pragma_index_info(?)", at)
            }
            == wanted
            for (at,) in indexes
        )

    def _type(self, field: Any, *, key: bool) -> str:
        return sql_type(field, TYPES)

    def _holds(self, present: str, field: Any) -> bool:
        if present.upper() != "REAL":
            return True
        # Such a column turns large numbers and exact ones into others.
        return kind_of(field) not in (Kind.INT64, Kind.DECIMAL)

    def _create(self, shape: Shape) -> None:
        super()._create(shape)
        self._index(shape)

    def _evolve(self, shape: Shape, present: dict[str, str]) -> None:
        super()._evolve(shape, present)
        self._index(shape)

    def _upsert(self, shape: Shape, chunk: Chunk) -> None:
        names = shape.columns.names
        sql = (
            f"INSERT INTO {self._quoted(shape.table)} ({self._names(names)}) "
            f"VALUES ({', '.join('?' * len(names))})"
        )
        if shape.key:
            changed = assignments(shape, self._quoted, "excluded.{}")
            action = f"DO UPDATE SET {changed}" if changed else "DO NOTHING"
            sql += f" ON CONFLICT ({self._names(shape.key)}) {action}"
        self._run_for_all(sql, chunk.upserts.select(names))

    def _delete(self, shape: Shape, chunk: Chunk) -> None:
        condition = " AND ".join(f"{self._quoted(name)} = ?" for name in shape.key)
        sql = f"DELETE FROM {self._quoted(shape.table)} WHERE {condition}"
        self._run_for_all(sql, chunk.deletes.select(shape.key))

    def _run_for_all(self, sql: str, rows: pa.Table) -> None:
        self._connection.executemany(sql, tuples(converted(rows, _CONVERSIONS)))

    def _refusal(self, error: Exception) -> str | None:
        name = getattr(error, "sqlite_errorname", "") or ""
        if isinstance(error, sqlite3.Error) and name.startswith(_REFUSED):
            return str(error)
        return None

    def _index(self, shape: Shape) -> None:
        """The search index and what keeps it in step, unless they are there."""
        searched = self._store.search
        if not searched:
            return
        for name in searched:
            if name not in shape.columns.names:
                raise ColumnsRefused(
                    f"There is no column {name} to search in {shape.table}; it has "
                    f"{', '.join(shape.columns.names)}."
                )
        name, table = f"{shape.table}_search", self._quoted(shape.table)
        if present := self._columns(name):
            if missing := [each for each in searched if each not in present]:
                raise ColumnsRefused(
                    f"The search index {name} is of other columns, without {missing[0]}. Drop it "
                    f"(DROP TABLE {self._quoted(name)}), and it is made anew."
                )
            return
        index, columns = self._quoted(name), self._names(searched)
        old, new = (
            ", ".join(f"{when}.{self._quoted(each)}" for each in searched)
            for when in ("old", "new")
        )
        remove = (
            f"INSERT INTO {index} ({index}, rowid, {columns}) VALUES ('delete', old.rowid, {old});"
        )
        add = f"INSERT INTO {index} (rowid, {columns}) VALUES (new.rowid, {new});"
        self._run(
            f"CREATE VIRTUAL TABLE {index} USING fts5({columns}, content={table}, "
            "content_rowid='rowid')"
        )
        for when, does in (("INSERT", add), ("DELETE", remove), ("UPDATE", remove + add)):
            trigger = self._quoted(f"headrace_{name}_{when.lower()}")
            self._run(f"DROP TRIGGER IF EXISTS {trigger}")
            self._run(f"CREATE TRIGGER {trigger} AFTER {when} ON {table} BEGIN {does} END")
        # What was in the table before there was an index.
        self._run(f"INSERT INTO {index} ({index}) VALUES ('rebuild')")


def _meaning(error: sqlite3.Error, path: str) -> StoreError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(_PASSING):
        return StoreUnreachable(f"{path} cannot be written now: {error} ({name}).")
    return StoreRefused(f"{path} refused: {error} ({name}).")
