"""A MariaDB for the session, and a database of its own for each test."""

import itertools
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.capture.mariadb.server import MariadbServer
from tests.capture.mariadb.server import unavailable as no_mariadb
from tests.capture.servers import PostgresServer

_numbers = itertools.count(1)


@pytest.fixture
def postgres_database(postgres: PostgresServer) -> str:
    """The name of an empty database."""
    return _created(postgres)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariadbServer]:
    """A running MariaDB."""
    if (reason := no_mariadb()) is not None:
        pytest.skip(reason)
    server = MariadbServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def mariadb_database(mariadb: MariadbServer) -> str:
    """The name of an empty database."""
    return _created(mariadb)


def _created(server: PostgresServer | MariadbServer) -> str:
    name = f"sink_{next(_numbers)}"
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    return name
