"""A PostgreSQL server for the session, a database of its own for each test, and a broker."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from headrace import Broker
from tests.capture.servers import PostgresServer

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running server, shared by the session."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker in this process, for tests of what has nothing to do with the cluster."""
    with Broker(flush="os") as started:
        yield started


class Database:
    """A fresh database on the shared server."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server = server
        self.name = name
        self.url = server.url(name)
        self._connection = server.connect(name)
        self.version: int = self._connection.server_version // 10_000

    def run(self, sql: str, *arguments: object) -> list[Any]:
        """Run a statement, or several, and give its rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, arguments or None)
            return list(cursor.fetchall()) if cursor.description else []

    def connect(self) -> Any:
        """Another connection, in autocommit mode."""
        return self.server.connect(self.name)

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Database]:
    """An empty database, whose slots and everything else are gone afterwards."""
    name = f"test_{next(_numbers)}"
    administration = postgres.connect()
    with administration.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        found = Database(postgres, name)
        yield found
        found.close()
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
        )
        for _ in range(200):
            cursor.execute(
                "SELECT slot_name, active FROM pg_replication_slots WHERE database = %s", (name,)
            )
            slots = cursor.fetchall()
            for slot, active in slots:
                if not active:
                    cursor.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
            if not slots:
                break
            cursor.execute("SELECT pg_sleep(0.05)")
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
    administration.close()
