"""The SQL that records what changes: the tables that a capture makes, and its triggers.

Every change is a row of the table of changes: what happened, to a table of which version, when, and
the values, which SQLite keeps as they are, since the columns for them have no type. An update has
the new values and then the old ones.

REPLACE removes the rows that are in its way without a word: no trigger fires. So before an insert
or an update, the rows that may be in its way are put aside, and after it, those of them that are
gone are recorded as deleted.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final

from headrace.capture.sqlite.connection import quoted
from headrace.capture.sqlite.shapes import Shape, Unique


class What(IntEnum):
    """What a row of the table of changes tells."""

    INSERT = 1
    DELETE = 2
    UPDATE = 3
    LEFT = 4
    """An update after which a row does not fulfil the capture's condition any more."""

    CAME = 5
    """An update after which it does."""

    NOW = 6
    """A row as it is, after a change that was not recorded whole."""

    SHAPE = 7
    DROPPED = 8
    MARK = 9


NOW_MS: Final = "CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER)"
"""Milliseconds since the epoch, in every version of SQLite."""

FIXED: Final = ("number", "version", "what", "time")
"""The columns of the table of changes before its values."""


class Objects:
    """The names of what a capture makes in a database.

    Args:
        name: With which all of them begin.
    """

    def __init__(self, name: str) -> None:
        self.prefix = name
        self.changes = quoted(f"{name}_changes")
        self.tables = quoted(f"{name}_tables")
        self.capture = quoted(f"{name}_capture")
        self.aside = quoted(f"{name}_aside")

    def create(self) -> Iterator[str]:
        """What makes the tables.

        The row of `capture` has a number that VACUUM would not give it, by which it is noticed that
        rows have other numbers.
        """
        yield (
            f"CREATE TABLE {self.changes} (number INTEGER PRIMARY KEY, version INTEGER NOT NULL,"
            " what INTEGER NOT NULL, time INTEGER NOT NULL, v0)"
        )
        yield (
            f"CREATE TABLE {self.tables} (version INTEGER PRIMARY KEY, name TEXT NOT NULL,"
            " generation INTEGER NOT NULL, shape TEXT NOT NULL, current INTEGER NOT NULL)"
        )
        yield f"CREATE TABLE {self.capture} (identity TEXT NOT NULL)"
        yield f"CREATE TABLE {self.aside} (version INTEGER NOT NULL, v0)"

    def record(self, version: int, what: What | str, values: Sequence[str]) -> str:
        """The beginning of a statement that records a change, up to its values."""
        columns = ", ".join(f"v{place}" for place in range(len(values)))
        told = str(int(what)) if isinstance(what, What) else what
        return (
            f"INSERT INTO {self.changes} (version, what, time, {columns})"
            f" SELECT {version}, {told}, {NOW_MS}, {', '.join(values)}"
        )


def triggers_of(
    objects: Objects, shape: Shape, version: int, condition: str | None
) -> dict[str, str]:
    """The triggers that record changes of a table, by name."""
    table = quoted(shape.table)
    new, old = shape.expressions("NEW"), shape.expressions("OLD")
    record = objects.record
    is_meant, was_meant = _fulfils(shape, "NEW", condition), _fulfils(shape, "OLD", condition)
    bodies = {
        "insert": f"AFTER INSERT ON {table} BEGIN {_gone(objects, shape, version)}"
        f"{record(version, What.INSERT, new)} WHERE {is_meant}; END",
        "delete": f"AFTER DELETE ON {table} BEGIN "
        f"{record(version, What.DELETE, old)} WHERE {was_meant}; END",
    }
    if condition is None:
        told = f"{record(version, What.UPDATE, [*new, *old])}; END"
    else:
        what = (
            f"CASE WHEN {is_meant} AND {was_meant} THEN {What.UPDATE:d}"
            f" WHEN {was_meant} THEN {What.LEFT:d} ELSE {What.CAME:d} END"
        )
        told = f"{record(version, what, [*new, *old])} WHERE {is_meant} OR {was_meant}; END"
    bodies["update"] = f"AFTER UPDATE ON {table} BEGIN {_gone(objects, shape, version)}{told}"
    if shape.uniques:
        same = " AND ".join(
            f"t.{quoted(shape.columns[place].name)} IS OLD.{quoted(shape.columns[place].name)}"
            for place in shape.key
        )
        aside = _put_aside(objects, shape, version)
        bodies["inserting"] = f"BEFORE INSERT ON {table} BEGIN {aside}; END"
        bodies["updating"] = f"BEFORE UPDATE ON {table} BEGIN {aside} AND NOT ({same}); END"
    return {
        f"{objects.prefix}_{version}_{name}": (
            f"CREATE TRIGGER {quoted(f'{objects.prefix}_{version}_{name}')} {body}"
        )
        for name, body in bodies.items()
    }


def _fulfils(shape: Shape, row: str, condition: str | None) -> str:
    """Whether a row fulfils the capture's condition, which names columns without their table."""
    if condition is None:
        return "TRUE"
    columns = ", ".join(f"{row}.{quoted(each)} AS {quoted(each)}" for each in shape.present)
    return f"EXISTS (SELECT 1 FROM (SELECT {columns}) WHERE {condition})"


def _put_aside(objects: Objects, shape: Shape, version: int) -> str:
    places = ", ".join(f"v{place}" for place in range(len(shape.columns)))
    values = ", ".join(shape.expressions("t"))
    same = " OR ".join(f"({_same(each)})" for each in shape.uniques)
    return (
        f"DELETE FROM {objects.aside}; INSERT INTO {objects.aside} (version, {places})"
        f" SELECT {version}, {values} FROM {quoted(shape.table)} AS t WHERE ({same})"
    )


def _same(unique: Unique) -> str:
    return " AND ".join(
        f"t.{quoted(name)} = NEW.{quoted(name)} COLLATE {collation}"
        for name, collation in unique.columns
    )


def _gone(objects: Objects, shape: Shape, version: int) -> str:
    """Record what was put aside and is not there any more."""
    if not shape.uniques:
        return ""
    values = [f"a.v{place}" for place in range(len(shape.columns))]
    names = [(place, f"t.{quoted(shape.columns[place].name)}") for place in shape.key]
    # The first comparison finds the row by the key, the second tells "a" from "A".
    there = " AND ".join(
        f"{name} IS a.v{place} AND {name} IS a.v{place} COLLATE BINARY" for place, name in names
    )
    # Whether it fulfilled the condition is not known here; deleting what nobody has does no harm.
    return (
        f"{objects.record(version, What.DELETE, values)} FROM {objects.aside} AS a WHERE NOT EXISTS"
        f" (SELECT 1 FROM {quoted(shape.table)} AS t WHERE {there});"
        f" DELETE FROM {objects.aside};"
    )
