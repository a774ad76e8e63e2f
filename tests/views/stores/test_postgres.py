"""PostgreSQL keeps the contract, and its server may go away."""

from collections.abc import Iterator
from typing import Any

import psycopg2
import psycopg2.extras
import pytest

from headrace.testing.store_contract import NumberedStore, StoreContract, Writer, people
from headrace.views.stores.errors import ColumnsRefused, StoreRefused, StoreUnreachable
from headrace.views.stores.postgres import PostgresStore
from headrace.views.stores.sessions import close_idle
from tests.capture.servers import PostgresServer


class PostgresTarget(NumberedStore):
    """A database of a test's own."""

    store: PostgresStore

    def __init__(self, url: str) -> None:
        self.store = PostgresStore(url)

    def run(self, sql: str) -> list[dict[str, Any]]:
        connection = psycopg2.connect(self.store.url)
        connection.autocommit = True
        try:
            with connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
                cursor.execute(sql)
                return [dict(row) for row in cursor.fetchall()] if cursor.description else []
        finally:
            connection.close()

    def contents(self, table: str) -> list[dict[str, Any]]:
        try:
            return self.run(f'SELECT * FROM "{table}"')
        except psycopg2.errors.UndefinedTable:
            return []

    def limit(self, table: str) -> bool:
        self.run(f'ALTER TABLE {table} ADD CONSTRAINT "much too long" CHECK (length(name) <= 10)')
        return True

    def steps(self) -> list[str]:
        session = "headrace.views.stores.postgres:PostgresSession"
        return [f"{session}._run", f"{session}._copy"]


@pytest.fixture
def target(postgres: PostgresServer, postgres_database: str) -> Iterator[PostgresTarget]:
    yield PostgresTarget(postgres.url(postgres_database))
    close_idle()


class TestPostgres(StoreContract):
    @pytest.fixture
    def target(self, postgres: PostgresServer, postgres_database: str) -> Iterator[PostgresTarget]:
        yield PostgresTarget(postgres.url(postgres_database))
        close_idle()


def test_types_are_those_of_the_documentation(target: PostgresTarget) -> None:
    TestPostgres().test_nulls_and_every_type_are_kept(target)
    found = target.run(
        "SELECT column_name, data_type, numeric_precision, numeric_scale "
        "FROM information_schema.columns WHERE table_name = 'typed'"
    )
    types = {row["column_name"]: row["data_type"] for row in found}
    assert types == {
        "id": "integer",
        "text": "text",
        "yes": "boolean",
        "tiny": "smallint",
        "small": "smallint",
        "whole": "bigint",
        "single": "real",
        "double": "double precision",
        "price": "numeric",
        "raw": "bytea",
        "day": "date",
        "at": "timestamp with time zone",
        "wall": "timestamp without time zone",
        "tags": "jsonb",
        "where": "jsonb",
    }
    (first, second, third) = target.run("SELECT * FROM typed ORDER BY id")
    assert bytes(first["raw"]) == b"\x00\xff'\\"
    assert first["at"].isoformat() == "2026-02-28T23:59:59.123456+00:00"
    assert first["wall"].isoformat() == "2026-02-28T12:00:00"
    assert (first["tags"], first["where"]) == (["a", "b"], {"x": 1, "y": 2.5})
    assert (second["double"], bytes(second["raw"]), second["tags"]) == (1e300, b"", [])
    assert {name for name, value in third.items() if value is not None} == {"id", "text"}


def test_a_column_that_would_lose_something_is_refused(target: PostgresTarget) -> None:
    target.run("CREATE TABLE people (id bigint PRIMARY KEY, name bytea)")
    with pytest.raises(ColumnsRefused, match="column name of people is bytea there"):
        Writer(target.store).write([(1, "ann")])


def test_a_table_in_a_schema_can_be_named(target: PostgresTarget) -> None:
    target.run("CREATE SCHEMA shop")
    writer = Writer(target.store, table="shop.people")
    writer.write([(1, "ann")])
    writer.write([(1, "anna")])
    assert target.run("SELECT * FROM shop.people") == [{"id": 1, "name": "anna"}]


def test_text_that_the_server_cannot_store_is_refused(target: PostgresTarget) -> None:
    from headrace.testing.store_contract import applied

    assert applied(target.store, [(1, "fine"), (2, "nul \0 byte"), (3, "fine too")]) == [1]
    assert people(target) == {1: "fine", 3: "fine too"}


def test_a_server_that_restarts_is_found_again(target: PostgresTarget) -> None:
    writer = Writer(target.store)
    writer.write([(1, "ann")])
    target.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'headrace sink'"
    )
    writer.write([(2, "bob")])
    assert people(target) == {1: "ann", 2: "bob"}


def test_a_server_that_is_away_is_said_to_be_and_no_password_is_told() -> None:
    store = PostgresStore("postgresql://shop:secret@127.0.0.1:1/shop")
    with pytest.raises(StoreUnreachable, match=r"shop:\*\*\*@127.0.0.1:1") as failure:
        store.session()
    assert "secret" not in str(failure.value)
    assert "secret" not in repr(store)


def test_a_role_that_may_not_write_is_told(target: PostgresTarget) -> None:
    target.run("DROP ROLE IF EXISTS reader")
    target.run("CREATE ROLE reader LOGIN")
    store = PostgresStore(target.store.url.replace("postgres@", "reader@"))
    with pytest.raises(StoreRefused, match="permission denied"):
        Writer(store).write([(1, "ann")])
