"""The recorded changes of a SQLite database as a stream of events.

SQLite does not tell triggers which transaction they run in. What it does promise is that a reader
sees all of a transaction or nothing, and that transactions write one after the other; so the
changes between two looks are whole transactions in the order of their commits. They are told as
one: a boundary that is told is one, but not every one is told.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headrace.capture.changes import (
    Begin,
    Commit,
    Event,
    Events,
    Op,
    Position,
    RowChange,
    SchemaChange,
    Table,
    TableDropped,
    Watermark,
)
from headrace.capture.errors import BrokenStream
from headrace.capture.sqlite.connection import explained, reading, schema_version
from headrace.capture.sqlite.setup import Place
from headrace.capture.sqlite.triggers import FIXED, Objects, What

_BATCH: Final = 2000
"""Changes read at a time: readers keep writers waiting where there is no WAL."""

_FORGET: Final = 5000
"""Changes removed at a time: whoever writes keeps all others waiting."""

_LOOK_SECONDS: Final = 0.05
"""How often to look although the files seem not to have changed: their times are coarse."""

_NAP_SECONDS: Final = 0.002
_HEAD: Final = len(FIXED)


class SqliteStream:
    """What was recorded behind a position.

    Args:
        connection: Closed with the stream.
        path: The database.
        objects: What the capture's tables are called.
        start: Where to begin.
        table_of: The table of a version.
        renew: Called when the schema has changed, to record what it is now.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        path: Path,
        objects: Objects,
        start: Position,
        table_of: Callable[[sqlite3.Connection, int], Table],
        renew: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._path = path
        self._objects = objects
        self._start = start
        self._table_of = table_of
        self._renew = renew
        place = Place.parse(start)
        self._identity = place.identity
        self._number = self._end = place.number
        self._end_time = 0
        self._begun = False
        self._schema = -1
        self._select = ""
        self._shapes: dict[str, Table] = {}
        self._files = (os.fspath(path), f"{path}-wal")
        self._signature: tuple[tuple[int, int], ...] = ()

    @property
    def start(self) -> Position:
        """Where it began."""
        return self._start

    def read(self, seconds: float) -> Events:
        """What has come, waiting up to `seconds` for the first of it."""
        deadline = time.monotonic() + seconds
        with explained(self._path):
            while True:
                if self._number < self._end or self._look():
                    return self._batch()
                looked = time.monotonic()
                if looked >= deadline:
                    return []
                until = min(deadline, looked + _LOOK_SECONDS)
                while self._unchanged() and time.monotonic() < until:
                    time.sleep(_NAP_SECONDS)

    def confirm(self, position: Position) -> None:
        """Remove what is before the position; the change at it stays, to be recognised by."""
        number = Place.parse(position).number
        sql = (
            f"DELETE FROM {self._objects.changes} WHERE number < ? AND number <"
            f" (SELECT min(number) + {_FORGET} FROM {self._objects.changes})"
        )
        with explained(self._path):
            while self._connection.execute(sql, (number,)).rowcount == _FORGET:
                pass

    def close(self) -> None:
        """Leave; what was not confirmed comes again."""
        self._connection.close()

    def _unchanged(self) -> bool:
        """Whether the files look as they did; they may have changed nevertheless."""
        found = []
        for each in self._files:
            try:
                stat = os.stat(each)  # noqa: PTH116 - a Path would be made 500 times a second
            except FileNotFoundError:
                continue
            found.append((stat.st_mtime_ns, stat.st_size))
        before, self._signature = self._signature, tuple(found)
        return before == self._signature

    def _look(self) -> bool:
        """Whether there is something new, and up to where it reaches."""
        while True:
            with reading(self._connection):
                schema = schema_version(self._connection)
                if schema == self._schema:
                    found = self._connection.execute(
                        f"SELECT number, time FROM {self._objects.changes}"
                        " ORDER BY number DESC LIMIT 1"
                    ).fetchone()
                    if found is None or found[0] <= self._end:
                        return False
                    self._end, self._end_time = found
                    return True
            self._learn(schema)

    def _learn(self, schema: int) -> None:
        if self._schema >= 0:
            self._renew()
            schema = schema_version(self._connection)
        rows = self._connection.execute(f"PRAGMA table_info({self._objects.changes})")
        columns = ", ".join(row[1] for row in rows)
        self._select = (
            f"SELECT {columns} FROM {self._objects.changes} WHERE number > ? AND number <= ?"
            f" ORDER BY number LIMIT {_BATCH}"
        )
        self._schema = schema

    def _batch(self) -> Events:
        rows = self._connection.execute(self._select, (self._number, self._end)).fetchall()
        if not rows:
            raise BrokenStream(
                f"The changes {self._number + 1} to {self._end} are gone from {self._path}, though "
                "nobody has read them: something else removes rows from the tables of the capture."
            )
        events: list[Event] = []
        if not self._begun:
            events.append(Begin(str(rows[0][0]), self._end_time * 1000, rows[0][0]))
        for row in rows:
            self._event(row, events)
        self._number = rows[-1][0]
        self._begun = self._number < self._end
        if not self._begun:
            place = Place(self._identity, self._number, rows[-1][3])
            events.append(Commit(str(place), self._end_time * 1000))
        return events

    def _event(self, row: tuple[object, ...], events: list[Event]) -> None:
        number, version, what = row[0], row[1], row[2]
        if what == What.MARK:
            events.append(Watermark(str(row[_HEAD]), number))
            return
        assert isinstance(version, int)
        table = self._table_of(self._connection, version)
        name = str(table.name)
        if what == What.DROPPED:
            self._shapes.pop(name, None)
            events.append(TableDropped(table.name, number))
            return
        if what == What.SHAPE:
            events.append(SchemaChange(table, self._shapes.get(name), number))
            self._shapes[name] = table
            return
        middle = _HEAD + len(table.columns)
        first, second = row[_HEAD:middle], row[middle : middle + len(table.columns)]
        if what in (What.INSERT, What.CAME):
            events.append(RowChange(Op.INSERT, table, None, first, number))
        elif what == What.DELETE:
            events.append(RowChange(Op.DELETE, table, first, None, number))
        elif what == What.UPDATE:
            events.append(RowChange(Op.UPDATE, table, second, first, number))
        elif what == What.NOW:
            events.append(RowChange(Op.UPDATE, table, None, first, number))
        else:
            events.append(RowChange(Op.DELETE, table, second, None, number))
