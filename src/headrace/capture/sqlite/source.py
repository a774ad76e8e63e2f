"""A SQLite database as a source of changes."""

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from headrace.capture.changes import Begin, Position, Table, TableName
from headrace.capture.errors import BrokenStream, PositionLost
from headrace.capture.naming import object_name
from headrace.capture.selection import Selection
from headrace.capture.source import Check, LogDistance
from headrace.capture.sqlite.chunks import SqliteReader
from headrace.capture.sqlite.connection import connect, explained, path_of
from headrace.capture.sqlite.setup import Known, Setup
from headrace.capture.sqlite.shapes import SCHEMA, Shape
from headrace.capture.sqlite.stream import SqliteStream
from headrace.capture.sqlite.triggers import Objects

_LONGEST_NAME = 64
_SAMPLE = 100
"""How many changes are measured to know about how large all of them are."""


class SqliteSource:
    """One database, and what a capture wants of it.

    Args:
        url: sqlite:///file.db.
        name: The capture's; what it makes is called headrace_ and that.
        selection: What is captured.
    """

    connector = "sqlite"
    schema = SCHEMA

    def __init__(self, url: str, name: str, selection: Selection) -> None:
        self._path = path_of(url)
        self._selection = selection
        self._objects = Objects(object_name(name, _LONGEST_NAME))
        self._lock = threading.Lock()
        self._shared: sqlite3.Connection | None = None
        self._made: Setup | None = None
        self._tables: dict[int, Table] = {}
        self._named: dict[TableName | None, str] = {}

    @property
    def database(self) -> str:
        """The file's name without its ending."""
        return self._path.stem

    def check(self) -> Check:
        """Look at the file and its tables, and change nothing."""
        with self._lock, explained(self._path):
            return self._setup().check()

    def prepare(self, resume: Position | None) -> Position | None:
        """Make the triggers and what they write to."""
        with self._lock, explained(self._path):
            return self._setup().make(resume)

    def give_up(self) -> None:
        """Nothing: writers of a file are not waited for beyond moments."""

    def extend(self) -> None:
        """Put triggers on tables that match by now."""
        self._renew()

    def tables(self) -> Sequence[Table]:
        """The tables that are captured, as they are recorded now."""
        with self._lock, explained(self._path):
            setup = self._setup()
            setup.renew()
            connection = self._connection()
            return [self._table_of(connection, each.version) for each in setup.current().values()]

    def open(self, position: Position | None) -> SqliteStream:
        """The changes behind a position."""
        with self._lock, explained(self._path):
            setup = self._setup()
            if position is None:
                position = setup.first()
            else:
                setup.require(position)
        return SqliteStream(
            connect(self._path),
            path=self._path,
            objects=self._objects,
            start=position,
            table_of=self._table_of,
            renew=self._renew,
        )

    def reader(self) -> SqliteReader:
        """A connection of its own that reads tables."""
        return SqliteReader(
            connect(self._path),
            path=self._path,
            objects=self._objects,
            current=self._current,
            condition=lambda name: self._selection.condition(name, SCHEMA),
            renew=self._renew,
        )

    def distance(self) -> LogDistance:
        """About how large the recorded changes are; all are kept until they are confirmed."""
        with self._lock, explained(self._path):
            if not self._setup().exists():
                raise PositionLost(f"The triggers of this capture are gone from {self._path}.")
            connection, changes = self._connection(), self._objects.changes
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({changes})")]
            sizes = " + ".join(f"coalesce(length(CAST({each} AS BLOB)), 1)" for each in columns)
            count, size = connection.execute(
                f"SELECT (SELECT count(*) FROM {changes}), coalesce(avg({sizes}), 0)"
                f" FROM (SELECT * FROM {changes} ORDER BY number DESC LIMIT {_SAMPLE})"
            ).fetchone()
        # The last one that was told is kept, to be recognised by.
        kept = int(max(count - 1, 0) * size)
        return LogDistance(kept, kept)

    def drop(self) -> Sequence[str]:
        """Remove the triggers and the tables that they write to."""
        with self._lock, explained(self._path):
            self._tables.clear()
            dropped = self._setup().drop()
            self._made = None
            return dropped

    def close(self) -> None:
        """End the connection that is not a stream's or a reader's."""
        with self._lock:
            if self._shared is not None:
                self._shared.close()
                self._shared = self._made = None

    def database_of(self, name: TableName | None) -> str:
        """The database: there is no other one in reach."""
        return self.database

    def sequence(self, begin: Begin | None, place: Any) -> str:
        """Null: `change` says it."""
        return "null"

    def origin(self, name: TableName | None, begin: Begin | None, place: Any) -> str:
        """The table, the group of transactions that were told together, and the change's number."""
        if (named := self._named.get(name)) is None:
            schema, table = ("", "") if name is None else name
            named = orjson.dumps({"schema": schema, "table": table}).decode()[1:-1]
            self._named[name] = named
        group = "null" if begin is None else begin.place
        return f'{named},"txId":{group},"change":{"null" if place is None else place}'

    def origin_schema(self) -> Sequence[Mapping[str, Any]]:
        """The Kafka Connect fields of that."""
        return [
            {"type": "string", "optional": False, "field": "schema"},
            {"type": "string", "optional": False, "field": "table"},
            {"type": "int64", "optional": True, "field": "txId"},
            {"type": "int64", "optional": True, "field": "change"},
        ]

    def transaction_id(self, begin: Begin) -> str:
        """The number of its first change."""
        return begin.id

    def _connection(self) -> sqlite3.Connection:
        if self._shared is None:
            self._shared = connect(self._path)
        return self._shared

    def _setup(self) -> Setup:
        if self._made is None:
            self._made = Setup(self._connection(), self._objects, self._path, self._selection)
        return self._made

    def _renew(self) -> None:
        with self._lock, explained(self._path):
            self._setup().renew()

    def _current(
        self, connection: sqlite3.Connection, name: TableName
    ) -> tuple[Known, Table] | None:
        row = connection.execute(
            f"SELECT version, generation, shape FROM {self._objects.tables}"
            " WHERE current AND name = ?",
            (name.table,),
        ).fetchone()
        if row is None:
            return None
        known = Known(row[0], row[1], Shape.from_json(row[2]))
        return known, self._table_of(connection, known.version)

    def _table_of(self, connection: sqlite3.Connection, version: int) -> Table:
        """One object for each version, whoever asks."""
        if (table := self._tables.get(version)) is None:
            row = connection.execute(
                f"SELECT generation, shape FROM {self._objects.tables} WHERE version = ?",
                (version,),
            ).fetchone()
            if row is None:
                raise BrokenStream(f"{self._path} does not say which table has version {version}.")
            table = self._tables.setdefault(version, Shape.from_json(row[1]).to_table(row[0]))
        return table
