"""PostgreSQL's log as events: what a real server tells, and from where it goes on."""

import pytest

from headrace.capture.changes import (
    UNAVAILABLE,
    Begin,
    Commit,
    Message,
    Op,
    Reached,
    SchemaChange,
    TableDropped,
    TableName,
    Truncate,
    Watermark,
)
from tests.capture.conftest import Database
from tests.capture.postgres.reading import (
    changes_in,
    committed,
    events_until,
    reached,
    reopened,
    source_of,
)

LONG = "x" * 9000


def test_a_transaction_is_told_whole_and_in_order(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, a text)")
    stream = source_of(database.url).open(None)
    database.run(
        "BEGIN; INSERT INTO t VALUES (1, 'a'), (2, NULL); UPDATE t SET a = 'b' WHERE id = 1;"
        "DELETE FROM t WHERE id = 2; COMMIT"
    )
    events = events_until(stream, committed(1))
    assert [type(each) for each in events[3:]].count(Begin) == 1
    assert isinstance(events[-1], Commit)
    assert [(each.op, each.before, each.after) for each in changes_in(events)] == [
        (Op.INSERT, None, (1, "a")),
        (Op.INSERT, None, (2, None)),
        (Op.UPDATE, None, (1, "b")),
        (Op.DELETE, (2, None), None),
    ]
    stream.close()


def test_what_was_rolled_back_is_not_told(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    stream = source_of(database.url).open(None)
    database.run("BEGIN; INSERT INTO t VALUES (1); ROLLBACK")
    database.run("BEGIN; SAVEPOINT s; INSERT INTO t VALUES (2); ROLLBACK TO s; COMMIT")
    database.run("INSERT INTO t VALUES (3)")
    assert [each.after for each in changes_in(events_until(stream, committed(1)))] == [(3,)]
    stream.close()


def test_a_stream_goes_on_behind_the_commit_it_is_opened_at(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = source_of(database.url)
    stream = source.open(None)
    database.run("INSERT INTO t VALUES (1)")
    first = events_until(stream, committed(1))
    database.run("INSERT INTO t VALUES (2)")
    events_until(stream, committed(0))  # seen, but never confirmed
    stream.close()
    last = first[-1]
    assert isinstance(last, Commit)
    again = reopened(source, last.position)
    assert [each.after for each in changes_in(events_until(again, committed(1)))] == [(2,)]
    again.close()


def test_idle_time_reaches_further_than_the_last_commit(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = source_of(database.url)
    stream = source.open(None)
    events_until(stream, committed(0))
    database.run("CREATE TABLE elsewhere AS SELECT generate_series(1, 1000)")
    passed = events_until(stream, reached)[-1]
    stream.confirm(passed.position)  # type: ignore[union-attr]
    database.run("INSERT INTO t VALUES (1)")
    assert len(changes_in(events_until(stream, committed(0)))) == 1
    assert source.distance().behind_bytes < 50_000
    stream.close()


def test_nothing_is_confirmed_that_was_not_stored(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = source_of(database.url)
    stream = source.open(None)
    database.run("INSERT INTO t VALUES (1)")
    commit = events_until(stream, committed(1))[-1]
    assert isinstance(commit, Commit)
    stream.confirm(commit.position)
    database.run("CREATE TABLE elsewhere AS SELECT generate_series(1, 1000)")
    events_until(stream, reached)
    stream.close()
    reopened(source, commit.position).close()  # which refuses a slot that stands beyond it


def test_a_changed_key_is_told_with_the_old_one(database: Database) -> None:
    database.run("CREATE TABLE t (a int, id int, b text, PRIMARY KEY (b, a))")
    database.run("INSERT INTO t VALUES (1, 10, 'x')")
    stream = source_of(database.url).open(None)
    database.run("UPDATE t SET a = 2")
    (change,) = changes_in(events_until(stream, committed(1)))
    assert change.table.key_names == ("b", "a")
    assert (change.before, change.after) == ((1, None, "x"), (2, 10, "x"))
    stream.close()


def test_untouched_long_values_are_unavailable_once_the_row_is_gone(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, long text, n int)")
    database.run("ALTER TABLE t ALTER long SET STORAGE EXTERNAL")
    database.run("INSERT INTO t VALUES (1, %s, 1)", LONG)
    stream = source_of(database.url).open(None)
    database.run("BEGIN; UPDATE t SET n = 2; DELETE FROM t; COMMIT")
    update, _ = changes_in(events_until(stream, committed(1)))
    assert update.after == (1, UNAVAILABLE, 2)
    stream.close()


def test_untouched_long_values_are_looked_up_or_told_with_the_row_before(
    database: Database,
) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, long text, n int)")
    database.run("ALTER TABLE t ALTER long SET STORAGE EXTERNAL")
    database.run("INSERT INTO t VALUES (1, %s, 1)", LONG)
    stream = source_of(database.url).open(None)
    database.run("UPDATE t SET n = 2")
    database.run("ALTER TABLE t REPLICA IDENTITY FULL")
    database.run("UPDATE t SET n = 3")
    first, second = changes_in(events_until(stream, committed(2)))
    assert first.after == (1, LONG, 2)
    assert second.before == (1, LONG, 2)
    assert second.after == (1, LONG, 3)
    assert second.table.key_names == ("id",)
    stream.close()


def test_truncated_tables_are_told_each(database: Database) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    stream = source_of(database.url).open(None)
    database.run("TRUNCATE a, b")
    events = events_until(stream, committed(1))
    told = [each.table.name.table for each in events if isinstance(each, Truncate)]
    assert sorted(told) == ["a", "b"]
    stream.close()


def test_partitions_are_told_as_the_table_they_are_parts_of(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, a text) PARTITION BY RANGE (id)")
    database.run("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    database.run("CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20)")
    source = source_of(database.url)
    assert [str(each.name) for each in source.tables()] == ["public.t"]
    stream = source.open(None)
    database.run("INSERT INTO t VALUES (1, 'a'), (11, 'b')")
    found = changes_in(events_until(stream, committed(1)))
    assert [(str(each.table.name), each.after) for each in found] == [
        ("public.t", (1, "a")),
        ("public.t", (11, "b")),
    ]
    stream.close()


def test_stored_generated_columns_are_told(database: Database) -> None:
    if database.version < 18:
        pytest.skip("PostgreSQL publishes generated columns from version 18 on")
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)"
    )
    stream = source_of(database.url).open(None)
    database.run("INSERT INTO t VALUES (4)")
    (change,) = changes_in(events_until(stream, committed(1)))
    assert change.after == (4, 8)
    assert change.table.columns[1].generated
    stream.close()


def test_messages_are_told_and_marks_are_told_apart(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = source_of(database.url)
    stream = source.open(None)
    database.run("SELECT pg_logical_emit_message(true, 'audit', 'hello')")
    with_mark = source.reader()
    with_mark.mark("m1")
    events = events_until(stream, committed(2))
    (message,) = [each for each in events if isinstance(each, Message)]
    assert (message.prefix, message.content, message.transactional) == ("audit", b"hello", True)
    assert [each.id for each in events if isinstance(each, Watermark)] == ["hello", "m1"]
    with_mark.close()
    stream.close()


def test_a_message_outside_of_transactions_is_told_once(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = source_of(database.url)
    stream = source.open(None)
    database.run("SELECT pg_logical_emit_message(false, 'audit', 'hello')")
    database.run("INSERT INTO t VALUES (1)")
    events = events_until(stream, committed(1))
    stream.close()
    place = next(place for place, each in enumerate(events) if isinstance(each, Message))
    passed = events[place + 1]
    assert isinstance(passed, Reached)
    again = reopened(source, passed.position)
    events = events_until(again, committed(1))
    again.close()
    assert not [each for each in events if isinstance(each, Message)]
    assert len(changes_in(events)) == 1


def test_a_changed_table_is_told_before_its_next_row(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, a int)")
    stream = source_of(database.url).open(None)
    database.run("INSERT INTO t VALUES (1, 1)")
    database.run("ALTER TABLE t ADD b text, DROP a; ALTER TABLE t RENAME b TO c")
    database.run("INSERT INTO t VALUES (2, 'x')")
    events = events_until(stream, committed(2))
    first, second = [each for each in events if isinstance(each, SchemaChange)]
    assert (first.before, first.table.names) == (None, ("id", "a"))
    assert (second.before, second.table.names) == (first.table, ("id", "c"))
    assert events.index(second) < events.index(changes_in(events)[1])
    stream.close()


def test_a_table_made_anew_under_its_name_is_another_one(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = source_of(database.url)
    stream = source.open(None)
    database.run("INSERT INTO t VALUES (1)")
    database.run("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY)")
    source.extend()
    database.run("INSERT INTO t VALUES (2)")
    events = events_until(stream, committed(2))
    dropped = [each.name for each in events if isinstance(each, TableDropped)]
    assert dropped == [TableName("public", "t")]
    stream.close()


def test_columns_are_left_out_and_masked(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, secret text, card text, n int)")
    stream = source_of(database.url, without=("secret",), masked=("public.t.card",)).open(None)
    database.run("INSERT INTO t VALUES (1, 'a', '4111', 2), (2, 'b', NULL, 3)")
    found = changes_in(events_until(stream, committed(1)))
    assert found[0].table.names == ("id", "card", "n")
    assert [each.after for each in found] == [(1, "****", 2), (2, None, 3)]
    stream.close()


def test_rows_that_fail_the_condition_are_not_told(database: Database) -> None:
    if database.version < 15:
        pytest.skip("publications have conditions from PostgreSQL 15 on")
    database.run("CREATE TABLE t (id int PRIMARY KEY, n int)")
    stream = source_of(database.url, where={"t": "id > 10"}).open(None)
    database.run("INSERT INTO t VALUES (1, 1), (11, 2)")
    assert [each.after for each in changes_in(events_until(stream, committed(1)))] == [(11, 2)]
    stream.close()
