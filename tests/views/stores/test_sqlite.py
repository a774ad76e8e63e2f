"""SQLite keeps the contract, and finds what it is asked to search."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from headrace.streams.sinks.storing import StoreSink
from headrace.testing.store_contract import NumberedStore, StoreContract, Writer, changed_rows
from headrace.views.stores.errors import ColumnsRefused, StoreRefused
from headrace.views.stores.sqlite import SqliteStore


class SqliteTarget(NumberedStore):
    """A SQLite file of a test's own."""

    store: SqliteStore

    def __init__(self, path: Path, *search: str) -> None:
        self.store = SqliteStore(str(path), search)

    def run(self, sql: str) -> list[dict[str, Any]]:
        connection = sqlite3.connect(self.store.path, isolation_level=None)
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(sql)]
        finally:
            connection.close()

    def contents(self, table: str) -> list[dict[str, Any]]:
        try:
            return self.run(f'SELECT * FROM "{table}"')
        except sqlite3.OperationalError:
            return []

    def limit(self, table: str) -> bool:
        condition = "WHEN length(new.name) > 10 BEGIN SELECT RAISE(ABORT, 'much too long'); END"
        for when in ("INSERT", "UPDATE"):
            self.run(f"CREATE TRIGGER limit_{when} BEFORE {when} ON {table} {condition}")
        return True

    def steps(self) -> list[str]:
        session = "headrace.views.stores.sqlite:SqliteSession"
        return [f"{session}._run", f"{session}._run_for_all"]


@pytest.fixture
def target(tmp_path: Path) -> SqliteTarget:
    return SqliteTarget(tmp_path / "shop.db")


class TestSqlite(StoreContract):
    @pytest.fixture
    def target(self, tmp_path: Path) -> SqliteTarget:
        return SqliteTarget(tmp_path / "shop.db")


class TestSearch(StoreContract):
    """With an index that is kept in step."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SqliteTarget:
        return SqliteTarget(tmp_path / "shop.db", "name")

    def test_nulls_and_every_type_are_kept(self, target: Any) -> None:
        pytest.skip("those rows have no column that is searched here")


def found(target: SqliteTarget, words: str) -> set[str]:
    sql = (
        "SELECT people.name FROM people_search JOIN people ON people.rowid = people_search.rowid "
        f"WHERE people_search MATCH '{words}'"
    )
    return {row["name"] for row in target.run(sql)}


def test_a_search_finds_what_the_table_has_now(tmp_path: Path) -> None:
    target = SqliteTarget(tmp_path / "shop.db", "name")
    writer = Writer(target.store)
    writer.write([(1, "blue shoes"), (2, "blue hat"), (3, "red shoes")])
    assert found(target, "blue") == {"blue shoes", "blue hat"}
    writer.write([(1, "green shoes"), (2, None), (4, "blue socks")])
    assert found(target, "blue") == {"blue socks"}
    assert found(target, "shoes") == {"green shoes", "red shoes"}


def test_an_index_that_comes_later_has_the_rows_from_before(
    target: SqliteTarget, tmp_path: Path
) -> None:
    writer = Writer(target.store)
    writer.write([(1, "blue shoes")])
    writer.store = SqliteTarget(tmp_path / "shop.db", "name").store
    writer.write([(2, "red shoes")])
    assert found(target, "shoes") == {"blue shoes", "red shoes"}


def test_a_column_to_search_that_is_not_there_is_refused(tmp_path: Path) -> None:
    writer = Writer(SqliteTarget(tmp_path / "shop.db", "title").store)
    with pytest.raises(ColumnsRefused, match="no column title to search in people"):
        writer.write([(1, "ann")])


def test_a_table_without_a_unique_key_is_refused_with_what_to_do(target: SqliteTarget) -> None:
    target.run("CREATE TABLE people (id INTEGER, name TEXT)")
    with pytest.raises(ColumnsRefused, match="CREATE UNIQUE INDEX"):
        Writer(target.store).write([(1, "ann")])


def test_a_table_of_somebody_else_keeps_its_other_columns(target: SqliteTarget) -> None:
    target.run("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, note TEXT DEFAULT 'none')")
    writer = Writer(target.store)
    target.run("INSERT INTO people VALUES (1, 'ann', 'kept')")
    writer.write([(1, "anna"), (2, "bob")])
    assert target.contents("people") == [
        {"id": 1, "name": "anna", "note": "kept"},
        {"id": 2, "name": "bob", "note": "none"},
    ]


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Ann, " * 100)
    with pytest.raises(StoreRefused, match="not a database"):
        Writer(SqliteStore(str(path))).write([(1, "ann")])


def test_a_flow_rebuilt_beside_itself_has_a_table_of_its_own(target: SqliteTarget) -> None:
    beside = StoreSink(target.store, "people", ("id",)).beside("v2")
    assert beside.table == "people_v2"
    assert changed_rows([(1, "ann")]).num_rows == 1
