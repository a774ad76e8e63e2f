"""MariaDB keeps the contract."""

from collections.abc import Iterator
from typing import Any

import pymysql
import pymysql.cursors
import pytest

from headrace.testing.store_contract import NumberedStore, StoreContract, Writer, applied, people
from headrace.views.stores.errors import ColumnsRefused, StoreUnreachable
from headrace.views.stores.mariadb import MariadbStore
from headrace.views.stores.sessions import close_idle
from tests.capture.mariadb.server import MariadbServer


class MariadbTarget(NumberedStore):
    """A database of a test's own."""

    store: MariadbStore

    def __init__(self, server: MariadbServer, database: str) -> None:
        self._server = server
        self._database = database
        self.store = MariadbStore(server.url(database))

    def run(self, sql: str) -> list[dict[str, Any]]:
        connection = self._server.connect(self._database)
        try:
            with connection.cursor(pymysql.cursors.DictCursor) as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def contents(self, table: str) -> list[dict[str, Any]]:
        try:
            return self.run(f"SELECT * FROM `{table}`")
        except pymysql.ProgrammingError:
            return []

    def limit(self, table: str) -> bool:
        self.run(f"ALTER TABLE {table} ADD CONSTRAINT `much too long` CHECK (length(name) <= 10)")
        return True

    def steps(self) -> list[str]:
        session = "headrace.views.stores.mariadb:MariadbSession"
        return [f"{session}._run", f"{session}._run_for_all"]


@pytest.fixture
def target(mariadb: MariadbServer, mariadb_database: str) -> Iterator[MariadbTarget]:
    yield MariadbTarget(mariadb, mariadb_database)
    close_idle()


class TestMariadb(StoreContract):
    @pytest.fixture
    def target(self, mariadb: MariadbServer, mariadb_database: str) -> Iterator[MariadbTarget]:
        yield MariadbTarget(mariadb, mariadb_database)
        close_idle()


def test_types_are_those_of_the_documentation(target: MariadbTarget) -> None:
    TestMariadb().test_nulls_and_every_type_are_kept(target)
    first, second, third = target.run("SELECT * FROM typed ORDER BY id")
    assert first["raw"] == b"\x00\xff'\\"
    assert first["at"].isoformat() == "2026-02-28T23:59:59.123456"
    assert first["wall"].isoformat() == "2026-02-28T12:00:00"
    assert (first["tags"], first["where"]) == ('["a","b"]', '{"x":1,"y":2.5}')
    assert (second["double"], second["raw"]) == (1e300, b"")
    assert {name for name, value in third.items() if value is not None} == {"id", "text"}


def test_what_is_too_long_is_refused_and_not_cut(target: MariadbTarget) -> None:
    target.run("CREATE TABLE people (id bigint PRIMARY KEY, name varchar(5))")
    assert applied(target.store, [(1, "short"), (2, "too long")]) == [1]
    assert people(target) == {1: "short"}


def test_a_column_that_would_lose_something_is_refused(target: MariadbTarget) -> None:
    target.run("CREATE TABLE people (id bigint PRIMARY KEY, name int)")
    with pytest.raises(ColumnsRefused, match="column name of people is int"):
        Writer(target.store).write([(1, "ann")])


def test_a_server_that_is_away_is_said_to_be() -> None:
    with pytest.raises(StoreUnreachable, match=r"shop:\*\*\*@127.0.0.1:1"):
        MariadbStore("mariadb://shop:secret@127.0.0.1:1/shop").session()
