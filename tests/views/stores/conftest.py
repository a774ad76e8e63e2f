"""Servers for the session, and a database of its own for each test."""

import itertools
from collections.abc import Iterator

import pytest

from tests.capture.mariadb.server import MariadbServer
from tests.capture.mariadb.server import unavailable as no_mariadb
from tests.capture.servers import PostgresServer
from tests.views.stores.redis_server import RedisServer
from tests.views.stores.redis_server import unavailable as no_redis

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def postgres_database(postgres: PostgresServer) -> str:
    """The name of an empty database."""
    name = f"sink_{next(_numbers)}"
    connection = postgres.connect()
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    connection.close()
    return name


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
    name = f"sink_{next(_numbers)}"
    connection = mariadb.connect()
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    connection.close()
    return name


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A running Redis."""
    if (reason := no_redis()) is not None:
        pytest.skip(reason)
    with RedisServer() as server:
        yield server
