"""What a capture makes in a SQLite database, kept in step with the tables that it is about."""

import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from headrace.capture.changes import Position, TableName
from headrace.capture.errors import NotPrepared, PositionLost
from headrace.capture.selection import Selection
from headrace.capture.source import Check
from headrace.capture.sqlite.connection import quoted, schema_version, writing
from headrace.capture.sqlite.shapes import SCHEMA, Shape, names_of, shape_of
from headrace.capture.sqlite.triggers import NOW_MS, Objects, What, triggers_of

_UNMOVED: Final = 2
"""The number of the row by which VACUUM is noticed."""


class Place(NamedTuple):
    """A place between two changes.

    The time is of the change before it, so that a database that was put back to an older state,
    and has gone on from there, is not mistaken for the one that was captured.
    """

    identity: str
    number: int
    time: int

    @classmethod
    def parse(cls, position: Position) -> "Place":
        """Of what `str` gave."""
        identity, number, time = position.split(":")
        return cls(identity, int(number), int(time))

    def __str__(self) -> str:
        return f"{self.identity}:{self.number}:{self.time}"


class Known(NamedTuple):
    """A table as it was last recorded."""

    version: int
    generation: int
    shape: Shape


class Setup:
    """The tables and triggers of one capture.

    Args:
        connection: In autocommit mode.
        objects: What they are called.
        path: The database, for messages.
        selection: What is captured.
    """

    def __init__(
        self, connection: sqlite3.Connection, objects: Objects, path: Path, selection: Selection
    ) -> None:
        self._connection = connection
        self._objects = objects
        self._path = path
        self._selection = selection
        self._seen: int | None = None

    def check(self) -> Check:
        """What is missing, and what could be better."""
        return Check(tuple(self._problems()), tuple(self._advice()))

    def make(self, resume: Position | None) -> Position | None:
        """Make what is not there; the position of the first change to come if all of it is new."""
        if (problems := tuple(self._problems())) and not self.exists():
            raise NotPrepared(str(self._path), problems)
        if resume is not None:
            self.require(resume)
        if self.exists():
            self.renew()
            return None
        identity = uuid.uuid4().hex[:16]
        objects = self._objects
        with writing(self._connection):
            for statement in objects.create():
                self._connection.execute(statement)
            self._connection.execute(
                f"INSERT INTO {objects.capture} (rowid, identity) VALUES ({_UNMOVED}, ?)",
                (identity,),
            )
            self._install()
        return str(Place(identity, 0, 0))

    def renew(self) -> bool:
        """Keep up with tables that came, went or changed; whether the schema was another one."""
        if schema_version(self._connection) == self._seen:
            return False
        with writing(self._connection):
            self._install()
        return True

    def exists(self) -> bool:
        """Whether everything was made."""
        sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
        name = f"{self._objects.prefix}_capture"
        return self._connection.execute(sql, (name,)).fetchone() is not None

    def first(self) -> Position:
        """The position before everything that is recorded."""
        if not self.exists():
            raise PositionLost(f"{self._path} has no triggers of this capture to begin from.")
        return str(Place(self._identity()[1], 0, 0))

    def require(self, position: Position) -> None:
        """PositionLost unless every change behind a position is recorded."""
        remedy = (
            "Changes since then are not known. Run the capture with --lost snapshot to read its "
            "tables anew, or drop it."
        )
        if not self.exists():
            raise PositionLost(
                f"The triggers of this capture are not in {self._path} any more: they were "
                f"dropped, or the file is another one. {remedy}"
            )
        place = Place.parse(position)
        if place.identity != self._identity()[1]:
            raise PositionLost(
                f"The triggers in {self._path} were made anew since the capture last ran. {remedy}"
            )
        found = self._connection.execute(
            f"SELECT time FROM {self._objects.changes} WHERE number = ?",
            (place.number,),
        ).fetchone()
        if place.number and (found is None or found[0] != place.time):
            raise PositionLost(
                f"{self._path} does not have the change at which the capture had arrived: it was "
                f"put back to an older state, from a backup perhaps. {remedy}"
            )

    def current(self) -> dict[str, Known]:
        """The tables that are recorded now, by name."""
        rows = self._connection.execute(
            f"SELECT version, generation, shape FROM {self._objects.tables} WHERE current"
        )
        known = [Known(row[0], row[1], Shape.from_json(row[2])) for row in rows]
        return {each.shape.table: each for each in known}

    def drop(self) -> list[str]:
        """Remove everything, and say what there was."""
        if not self.exists():
            return []
        dropped = []
        with writing(self._connection):
            for name in [name for name, _, _ in self._triggers()]:
                self._connection.execute(f"DROP TRIGGER {quoted(name)}")
                dropped.append(f"trigger {name}")
            objects = self._objects
            for table in (objects.changes, objects.tables, objects.capture, objects.aside):
                self._connection.execute(f"DROP TABLE {table}")
                dropped.append(f"table {table[1:-1]}")
        return dropped

    def _identity(self) -> tuple[int, str]:
        sql = f"SELECT rowid, identity FROM {self._objects.capture}"
        number, identity = self._connection.execute(sql).fetchone()
        return number, identity

    def _install(self) -> None:
        """Make the triggers of each table what they should be; within a transaction."""
        vacuumed = self._notice_vacuum()
        known = self.current()
        there = {name: (table, sql) for name, table, sql in self._triggers()}
        latest = self._latest_triggers()
        wanted = {name for name in names_of(self._connection) if self._chooses(name)}
        for name in sorted(wanted):
            shape = shape_of(self._connection, name, self._selection)
            before = known.get(name)
            condition = self._selection.condition(shape.name, SCHEMA)
            if before is not None:
                expected = triggers_of(self._objects, shape, before.version, condition)
                mine = {
                    each: sql
                    for each, (_, sql) in there.items()
                    if each.startswith(f"{self._objects.prefix}_{before.version}_")
                }
                moved = vacuumed and shape.by_rowid
                if mine == expected and before.shape == shape and not moved:
                    # Those that were made last fire first, before others change the row again.
                    if latest[name] not in mine:
                        self._make_triggers(expected, mine)
                    continue
                lost = not mine or moved or _key(shape) != _key(before.shape)
                self._make_triggers({}, mine)
            else:
                lost = False
            self._record_shape(shape, before, condition, lost=lost)
        for name in known.keys() - wanted:
            prefix = f"{self._objects.prefix}_{known[name].version}_"
            self._make_triggers({}, {each: "" for each in there if each.startswith(prefix)})
            self._forget(known[name])
            self._tell(known[name].version, What.DROPPED)
        self._seen = schema_version(self._connection)

    def _record_shape(
        self, shape: Shape, before: Known | None, condition: str | None, *, lost: bool
    ) -> None:
        """From here on, changes of a table are recorded in this shape."""
        objects = self._objects
        (version, generation), *_ = self._connection.execute(
            "SELECT coalesce(max(version), 0) + 1,"
            " coalesce(max(generation) FILTER (WHERE name = ?), 0)"
            f" FROM {objects.tables}",
            (shape.table,),
        )
        if before is None or lost:
            generation += 1
        if before is not None:
            self._forget(before)
            if lost:
                self._tell(before.version, What.DROPPED)
        self._connection.execute(
            f"INSERT INTO {objects.tables} VALUES (?, ?, ?, ?, TRUE)",
            (version, shape.table, generation, shape.to_json()),
        )
        self._widen(objects.changes, 2 * len(shape.columns))
        self._widen(objects.aside, len(shape.columns))
        self._tell(version, What.SHAPE)
        self._make_triggers(triggers_of(objects, shape, version, condition), {})
        if before is not None and not lost:
            self._tell_now(shape, before, version, condition)

    def _tell_now(self, shape: Shape, before: Known, version: int, condition: str | None) -> None:
        """Tell rows anew that changed since a table's shape did, perhaps without a new column."""
        same = " AND ".join(
            f"c.v{old} IS t.{quoted(shape.columns[new].name)}"
            for old, new in zip(before.shape.key, shape.key, strict=True)
        )
        ops = ", ".join(str(int(each)) for each in (What.INSERT, What.UPDATE, What.CAME, What.NOW))
        values = shape.expressions("t")
        wanted = f" AND ({condition})" if condition else ""
        self._connection.execute(
            f"{self._objects.record(version, What.NOW, values)} FROM {quoted(shape.table)} AS t"
            f" WHERE EXISTS (SELECT 1 FROM {self._objects.changes} AS c"
            f" WHERE c.version = {before.version} AND c.what IN ({ops}) AND {same}){wanted}"
        )

    def _forget(self, known: Known) -> None:
        sql = f"UPDATE {self._objects.tables} SET current = FALSE WHERE version = ?"
        self._connection.execute(sql, (known.version,))

    def _tell(self, version: int, what: What) -> None:
        self._connection.execute(
            f"INSERT INTO {self._objects.changes} (version, what, time) VALUES (?, ?, {NOW_MS})",
            (version, int(what)),
        )

    def _notice_vacuum(self) -> bool:
        number, _ = self._identity()
        if number == _UNMOVED:
            return False
        self._connection.execute(f"UPDATE {self._objects.capture} SET rowid = {_UNMOVED}")
        return True

    def _chooses(self, table: str) -> bool:
        return self._selection.has_table(TableName(SCHEMA, table), SCHEMA)

    def _triggers(self) -> list[tuple[str, str, str]]:
        """Our triggers: name, table, SQL."""
        rows = self._connection.execute(
            "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger'"
        )
        prefix = f"{self._objects.prefix}_"
        return [
            row
            for row in rows
            if row[0].startswith(prefix) and row[0].removeprefix(prefix).split("_")[0].isdigit()
        ]

    def _latest_triggers(self) -> dict[str, str]:
        """The trigger of each table that was made last."""
        rows = self._connection.execute(
            "SELECT tbl_name, name FROM sqlite_schema WHERE type = 'trigger' ORDER BY rowid"
        )
        return dict(rows.fetchall())

    def _make_triggers(self, wanted: dict[str, str], there: dict[str, str]) -> None:
        for name in there:
            self._connection.execute(f"DROP TRIGGER {quoted(name)}")
        for sql in wanted.values():
            self._connection.execute(sql)

    def _widen(self, table: str, width: int) -> None:
        rows = self._connection.execute(f"PRAGMA table_info({table})").fetchall()
        there = sum(1 for row in rows if row[1][1:].isdigit())
        for place in range(there, width):
            self._connection.execute(f"ALTER TABLE {table} ADD COLUMN v{place}")

    def _shapes(self) -> Sequence[Shape]:
        return [
            shape_of(self._connection, name, self._selection)
            for name in names_of(self._connection)
            if self._chooses(name)
        ]

    def _problems(self) -> Iterator[str]:
        if not any(self._chooses(name) for name in names_of(self._connection)):
            yield "no table matches; see .tables in the sqlite3 shell for what there is."
        if self._ask("PRAGMA query_only"):
            yield "it may not be written, and changes are recorded in the database itself."

    def _advice(self) -> Iterator[str]:
        if self._ask("PRAGMA journal_mode") != "wal":
            yield (
                "its readers and writers wait for each other. PRAGMA journal_mode = WAL lets the "
                "capture read while others write."
            )
        for shape in self._shapes():
            if shape.by_rowid:
                yield (
                    f"{shape.name} has no primary key: the numbers of its rows tell them apart, "
                    "and since VACUUM may change those, the table is read anew after it."
                )
            elif not all(shape.columns[place].required for place in shape.key):
                yield (
                    f"the primary key of {shape.name} may be NULL, and rows that have it so cannot "
                    "be told apart: declare its columns NOT NULL."
                )

    def _ask(self, sql: str) -> Any:
        return self._connection.execute(sql).fetchone()[0]


def _key(shape: Shape) -> list[str]:
    return [shape.columns[place].name for place in shape.key]
