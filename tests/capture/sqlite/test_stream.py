"""Recorded changes as events: what is told of everything that SQLite lets people do."""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.capture.changes import (
    Commit,
    Event,
    Op,
    RowChange,
    SchemaChange,
    TableDropped,
    TableName,
    Watermark,
)
from headrace.capture.errors import InvalidCapture, NotPrepared, PositionLost
from headrace.capture.selection import Selection
from headrace.capture.source import KeyRange
from headrace.capture.sqlite import SqliteSource
from headrace.capture.sqlite.stream import SqliteStream
from tests.capture.sqlite.conftest import File

Sources = Callable[..., SqliteSource]


@pytest.fixture
def source(file: File) -> Iterator[Sources]:
    """Makes sources of the file, and closes them."""
    made: list[SqliteSource] = []

    def make(*tables: str, **options: Any) -> SqliteSource:
        made.append(SqliteSource(file.url, "test", Selection(tables or ("*",), **options)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def told(stream: SqliteStream) -> list[Event]:
    """Everything that is recorded by now."""
    events: list[Event] = []
    while more := stream.read(0.0):
        events += more
    return events


def changes(stream: SqliteStream) -> list[tuple[Any, ...]]:
    return [
        (each.op, each.before, each.after) for each in told(stream) if isinstance(each, RowChange)
    ]


def position(events: list[Event]) -> str:
    last = events[-1]
    assert isinstance(last, Commit)
    return last.position


def test_values_are_told_as_they_are_stored(file: File, source: Sources) -> None:
    file.script("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c BLOB, d REAL, e)")
    stream = (one := source()).open(one.prepare(None))
    rows = [
        (1, 2**63 - 1, "\U0001f600 'q\"", b"\x00\xff", 1.1, None),
        (2, "not a number", b"blob", "text", b"", 5),
        (3, -(2**63), "nul \x00 inside", b"", float("inf"), 0.1 + 0.2),
        (4, None, None, None, 5e-324, "x"),
    ]
    for row in rows:
        file.run("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", *row)
    found = [row for _, _, row in changes(stream)]
    assert found == rows
    assert [list(map(type, row)) for row in found] == [list(map(type, row)) for row in rows]
    stream.close()


def test_inserts_updates_deletes_and_rolled_back_ones(file: File, source: Sources) -> None:
    file.script("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)")
    stream = (one := source()).open(one.prepare(None))
    file.script(
        "BEGIN; INSERT INTO t VALUES (1, 'a'), (2, 'b'); UPDATE t SET a = 'c' WHERE id = 1;"
        "UPDATE t SET id = 3 WHERE id = 2; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT;"
        "BEGIN; DELETE FROM t; ROLLBACK; DELETE FROM t WHERE id = 1"
    )
    assert changes(stream) == [
        (Op.INSERT, None, (1, "a")),
        (Op.INSERT, None, (2, "b")),
        (Op.UPDATE, (1, "a"), (1, "c")),
        (Op.UPDATE, (2, "b"), (3, "b")),
        (Op.DELETE, (1, "c"), None),
    ]
    file.run("DELETE FROM t")
    assert changes(stream) == [(Op.DELETE, (3, "b"), None)]
    stream.close()


def test_a_stream_goes_on_behind_the_commit_it_is_opened_at(file: File, source: Sources) -> None:
    file.script("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    stream = (one := source()).open(one.prepare(None))
    file.run("INSERT INTO t VALUES (1)")
    reached = position(told(stream))
    file.run("INSERT INTO t VALUES (2)")
    told(stream)
    stream.confirm(reached)
    stream.close()
    assert one.prepare(reached) is None
    again = one.open(reached)
    assert changes(again) == [(Op.INSERT, None, (2,))]
    again.close()


def test_an_uncommitted_transaction_of_others_is_not_told(file: File, source: Sources) -> None:
    file.script("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    stream = (one := source()).open(one.prepare(None))
    told(stream)
    other = file.connect()
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO t VALUES (1)")
    assert told(stream) == []
    other.execute("COMMIT")
    assert changes(stream) == [(Op.INSERT, None, (1,))]
    other.close()
    stream.close()


def test_numbers_go_on_after_everything_was_confirmed(file: File, source: Sources) -> None:
    file.script("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    stream = (one := source()).open(one.prepare(None))
    for number in range(3):
        file.run("INSERT INTO t VALUES (?)", number)
        reached = position(told(stream))
        stream.confirm(reached)
    assert file.run("SELECT count(*) FROM headrace_test_changes") == [(1,)]
    one.prepare(reached)
    stream.close()


def test_rows_that_replace_removes_are_told(file: File, source: Sources) -> None:
    file.script(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, mail TEXT UNIQUE COLLATE NOCASE, n INT UNIQUE)"
    )
    stream = (one := source()).open(one.prepare(None))
    file.script(
        "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4);"
        "INSERT OR REPLACE INTO t VALUES (9, 'A', 2);"  # 1 and 2 go
        "INSERT OR REPLACE INTO t VALUES (3, 'e', 3);"  # 3 stays, as another row
        "UPDATE OR REPLACE t SET mail = 'E' WHERE id = 4;"  # 3 goes
        "INSERT OR IGNORE INTO t VALUES (5, 'e', 5);"
        "INSERT INTO t VALUES (6, 'E', 7) ON CONFLICT (mail) DO UPDATE SET n = 7"
    )
    rows: dict[Any, Any] = {}
    for _, before, after in changes(stream):
        if before is not None:
            rows.pop(before[0])
        if after is not None:
            rows[after[0]] = after
    assert sorted(rows.values()) == file.run("SELECT * FROM t ORDER BY id")
    assert sorted(rows) == [4, 9]
    stream.close()


def test_a_text_key_that_replace_writes_differently_is_told(file: File, source: Sources) -> None:
    file.script("CREATE TABLE t (id TEXT PRIMARY KEY COLLATE NOCASE, n INT)")
    stream = (one := source()).open(one.prepare(None))
    file.script("INSERT INTO t VALUES ('a', 1); INSERT OR REPLACE INTO t VALUES ('A', 2)")
    assert changes(stream)[1:] == [(Op.DELETE, ("a", 1), None), (Op.INSERT, None, ("A", 2))]
    stream.close()


def test_cascades_and_triggers_of_others_are_told_in_order(file: File, source: Sources) -> None:
    file.script(
        "CREATE TABLE p (id INTEGER PRIMARY KEY, n INT, seen TEXT);"
        "CREATE TABLE c (id INTEGER PRIMARY KEY, p REFERENCES p ON DELETE CASCADE)"
    )
    stream = (one := source()).open(one.prepare(None))
    told(stream)
    # Made after ours, it would fire before them.
    file.script(
        "CREATE TRIGGER theirs AFTER UPDATE OF n ON p BEGIN"
        " UPDATE p SET seen = 'yes' WHERE id = NEW.id; END"
    )
    told(stream)
    file.script(
        "PRAGMA foreign_keys = ON; INSERT INTO p VALUES (1, 1, NULL); INSERT INTO c VALUES (7, 1);"
        "UPDATE p SET n = 2; DELETE FROM p"
    )
    assert changes(stream)[2:] == [
        (Op.UPDATE, (1, 1, None), (1, 2, None)),
        (Op.UPDATE, (1, 2, None), (1, 2, "yes")),
        (Op.DELETE, (7, 1), None),
        (Op.DELETE, (1, 2, "yes"), None),
    ]
    stream.close()


def test_tables_of_all_kinds(file: File, source: Sources) -> None:
    file.script(
        "CREATE TABLE w (a TEXT, b INT, c, PRIMARY KEY (b, a)) WITHOUT ROWID;"
        "CREATE TABLE n (a, rowid TEXT);"
        "CREATE TABLE s (id INTEGER PRIMARY KEY, a ANY, b REAL NOT NULL) STRICT;"
        "CREATE TABLE g (id INTEGER PRIMARY KEY, a INT, b INT AS (a + 1), c INT AS (a * 2) STORED);"
        "CREATE VIRTUAL TABLE f USING fts5(words); CREATE VIEW v AS SELECT 1"
    )
    (one := source()).prepare(None)
    described = {each.name.table: each for each in one.tables()}
    assert sorted(described) == ["g", "n", "s", "w"]
    assert described["w"].key_names == ("b", "a")
    assert described["n"].key_names == ("_rowid_",)
    assert [each.generated for each in described["g"].columns] == [False, False, True, True]
    assert str(described["s"].columns[2].type.kind) == "float64"
    stream = one.open(None)
    file.script(
        "INSERT INTO w VALUES ('x', 1, 2); INSERT INTO n VALUES (5, 'r');"
        "INSERT INTO s VALUES (1, 'any', 2); INSERT INTO g (id, a) VALUES (1, 3);"
        "UPDATE g SET a = 4; UPDATE n SET a = 6; INSERT INTO f VALUES ('hello')"
    )
    assert changes(stream) == [
        (Op.INSERT, None, ("x", 1, 2)),
        (Op.INSERT, None, (1, 5, "r")),
        (Op.INSERT, None, (1, "any", 2.0)),
        (Op.INSERT, None, (1, 3, 4, 6)),
        (Op.UPDATE, (1, 3, 4, 6), (1, 4, 5, 8)),
        (Op.UPDATE, (1, 5, "r"), (1, 6, "r")),
    ]
    stream.close()


def test_an_added_column_is_told_even_of_rows_that_came_before_it_was_seen(
    file: File, source: Sources
) -> None:
    file.script("CREATE TABLE t (id INTEGER PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 1)")
    stream = (one := source()).open(one.prepare(None))
    told(stream)
    file.script("ALTER TABLE t ADD COLUMN b TEXT DEFAULT 'd'; INSERT INTO t VALUES (2, 2, 'two')")
    events = told(stream)
    shapes = [each.table.names for each in events if isinstance(each, SchemaChange)]
    assert shapes == [("id", "a", "b")]
    assert [each.after for each in events if isinstance(each, RowChange)] == [
        (2, 2),
        (2, 2, "two"),
    ]
    file.run("UPDATE t SET a = 3 WHERE id = 1")
    assert changes(stream) == [(Op.UPDATE, (1, 1, "d"), (1, 3, "d"))]
    stream.close()


def test_renamed_columns_and_tables_are_seen(file: File, source: Sources) -> None:
    file.script("CREATE TABLE t (id INTEGER PRIMARY KEY, a INT)")
    stream = (one := source()).open(one.prepare(None))
    told(stream)
    file.script("ALTER TABLE t RENAME COLUMN a TO b; ALTER TABLE t RENAME TO u")
    events = told(stream)
    assert [each.name.table for each in events if isinstance(each, TableDropped)] == ["t"]
    assert [each.table.names for each in events if isinstance(each, SchemaChange)] == [("id", "b")]
    file.run("INSERT INTO u VALUES (1, 2)")
    assert changes(stream) == [(Op.INSERT, None, (1, 2))]
    assert [str(each.name) for each in one.tables()] == ["main.u"]
    stream.close()


def test_a_table_that_was_made_anew_is_another_one(file: File, source: Sources) -> None:
    file.script("CREATE TABLE t (id INTEGER PRIMARY KEY, a INT)")
    stream = (one := source()).open(one.prepare(None))
    told(stream)
    (before,) = one.tables()
    file.script(
        "BEGIN; CREATE TABLE t2 (id INTEGER PRIMARY KEY); INSERT INTO t2 VALUES (1);"
        "DROP TABLE t; ALTER TABLE t2 RENAME TO t; COMMIT"
    )
    kinds = [type(each) for each in told(stream)]
    assert kinds.index(TableDropped) < kinds.index(SchemaChange)
    (after,) = one.tables()
    assert after.native != before.native
    stream.close()


def test_vacuum_makes_tables_without_a_key_new_and_no_others(file: File, source: Sources) -> None:
    file.script(
        "CREATE TABLE t (id INTEGER PRIMARY KEY); CREATE TABLE n (a);"
        "INSERT INTO n VALUES (1), (2), (3); DELETE FROM n WHERE a < 3"
    )
    (one := source()).prepare(None)
    before = {str(each.name): each.native for each in one.tables()}
    file.run("ANALYZE")
    assert {str(each.name): each.native for each in one.tables()} == before
    file.run("VACUUM")
    after = {str(each.name): each.native for each in one.tables()}
    assert after["main.t"] == before["main.t"]
    assert after["main.n"] != before["main.n"]
    one.tables()
    assert {str(each.name): each.native for each in one.tables()} == after


def test_conditions_columns_left_out_and_masks(file: File, source: Sources) -> None:
    file.script("CREATE TABLE t (id INTEGER PRIMARY KEY, a INT, card TEXT, mail TEXT)")
    options = {"where": {"t": "a > 10"}, "without": ("t.card",), "masked": ("mail",)}
    stream = (one := source("t", **options)).open(one.prepare(None))
    file.script(
        "INSERT INTO t VALUES (1, 5, 'x', 'm'), (2, 20, 'x', NULL);"
        "UPDATE t SET a = 30; UPDATE t SET a = 1 WHERE id = 1; UPDATE t SET a = 31 WHERE id = 2;"
        "DELETE FROM t"
    )
    assert changes(stream) == [
        (Op.INSERT, None, (2, 20, None)),
        (Op.INSERT, None, (1, 30, "****")),
        (Op.UPDATE, (2, 20, None), (2, 30, None)),
        (Op.DELETE, (1, 30, "****"), None),
        (Op.UPDATE, (2, 30, None), (2, 31, None)),
        (Op.DELETE, (2, 31, None), None),
    ]
    stream.close()


def test_marks_stand_among_the_changes(file: File, source: Sources) -> None:
    file.script("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    stream = (one := source()).open(one.prepare(None))
    reader = one.reader()
    told(stream)
    file.run("INSERT INTO t VALUES (1)")
    reader.mark("low")
    file.run("INSERT INTO t VALUES (2)")
    kinds = [type(each) for each in told(stream)[1:-1]]
    assert kinds == [RowChange, Watermark, RowChange]
    reader.close()
    stream.close()


@pytest.mark.parametrize(
    "table",
    [
        "t (k INTEGER PRIMARY KEY, v)",
        "t (k TEXT PRIMARY KEY COLLATE NOCASE, v)",
        "t (k, v, PRIMARY KEY (k COLLATE RTRIM DESC))",
        "t (v, k NOT NULL, PRIMARY KEY (k, v)) WITHOUT ROWID",
        "t (k, v)",
    ],
)
def test_chunks_have_every_row_once(file: File, source: Sources, table: str) -> None:
    keys: list[Any] = list(range(1, 20))
    if "INTEGER" not in table:
        keys += [1.5, -2.5, "it's", "b", "X'00'", "1e", b"\x00", b"b", "é"]
    if "INTEGER" not in table and "NOT NULL" not in table:
        keys += [None, None]
    file.script(f"CREATE TABLE {table}")
    for key in keys:
        file.run("INSERT INTO t (k, v) VALUES (?, 0)", key)
    (one := source()).prepare(None)
    reader = one.reader()
    name, low, found = TableName("main", "t"), None, []
    while True:
        chunk = reader.chunk(name, KeyRange(low), 3)
        place = chunk.table.names.index("k")
        found += [row[place] for row in chunk.rows]
        low = chunk.last or low
        if chunk.complete:
            break
    stored = [row[0] for row in file.run("SELECT k FROM t")]
    assert sorted(map(repr, found)) == sorted(map(repr, stored))
    assert reader.estimate(name) == len(keys)
    reader.close()


def test_drop_leaves_nothing_behind(file: File, source: Sources) -> None:
    file.script(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE); CREATE TABLE n (a);"
        "CREATE INDEX i ON n (a)"
    )
    before = file.schema()
    one = source()
    one.prepare(None)
    file.run("INSERT INTO t VALUES (1, 2)")
    assert file.schema() != before
    assert one.drop()
    assert file.schema() == before
    assert one.drop() == []
    with pytest.raises(PositionLost, match="not in"):
        one.prepare("abc:1:1")


def test_a_database_that_was_put_back_is_noticed(file: File, source: Sources) -> None:
    file.script("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    one = source()
    stream = one.open(one.prepare(None))
    backup = sqlite3.connect(":memory:")
    with file.connect() as connection:
        connection.backup(backup)
    file.run("INSERT INTO t VALUES (1)")
    reached = position(told(stream))
    stream.close()
    one.close()
    with file.connect() as connection:
        backup.backup(connection)
    with pytest.raises(PositionLost, match="backup"):
        one.prepare(reached)
    file.run("INSERT INTO t VALUES (5)")
    file.run("INSERT INTO t VALUES (6)")
    with pytest.raises(PositionLost, match="backup"):
        one.prepare(reached)


def test_what_stands_in_the_way_is_said_in_plain_words(file: File, source: Sources) -> None:
    with pytest.raises(NotPrepared, match="no table matches"):
        source().prepare(None)
    file.script("CREATE TABLE n (a); CREATE TABLE t (k TEXT PRIMARY KEY)")
    advice = " ".join(source().check().advice)
    assert "main.n has no primary key" in advice
    assert "main.t may be NULL" in advice
    with pytest.raises(InvalidCapture, match="does not make one"):
        SqliteSource(f"{file.url}-missing", "test", Selection(("*",))).check()
    other = file.path.with_name("text.db")
    other.write_text("not a database, but long enough to be mistaken for one" * 20)
    with pytest.raises(InvalidCapture, match="not a SQLite database"):
        SqliteSource(f"sqlite:///{other}", "test", Selection(("*",))).check()
