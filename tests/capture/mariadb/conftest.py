"""A MariaDB server for the session, and a database of its own for each test."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.capture.mariadb.server import MariadbServer, unavailable

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariadbServer]:
    """A running server, shared by the session."""
    if (reason := unavailable()) is not None:
        pytest.skip(reason)
    server = MariadbServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


class Shop:
    """A fresh database on the shared server."""

    def __init__(self, server: MariadbServer, name: str) -> None:
        self.server = server
        self.name = name
        self.url = server.url(name)
        self._connection = server.connect(name)

    def run(self, sql: str, *values: object) -> list[Any]:
        """Run a statement and give its rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall())

    def reconnect(self) -> None:
        """Connect anew, to a server that was restarted."""
        self._connection = self.server.connect(self.name)

    def connect(self) -> Any:
        """Another connection, in autocommit mode."""
        return self.server.connect(self.name)

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def shop(mariadb: MariadbServer) -> Iterator[Shop]:
    """An empty database."""
    name = f"shop_{next(_numbers)}"
    administer(mariadb, f"CREATE DATABASE {name}")
    found = Shop(mariadb, name)
    yield found
    found.close()
    administer(mariadb, f"DROP DATABASE IF EXISTS {name}")


def administer(server: MariadbServer, sql: str) -> None:
    """Run a statement over a connection of its own."""
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute(sql)
    connection.close()
