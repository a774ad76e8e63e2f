"""A SQLite file for each test, with WAL and without."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class File:
    """A database and a connection to it that is an application's."""

    def __init__(self, path: Path, journal: str) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"
        self._connection = self.connect()
        self.run(f"PRAGMA journal_mode = {journal}")

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=30, isolation_level=None)

    def run(self, sql: str, *values: object) -> list[Any]:
        """Run a statement and give its rows."""
        return self._connection.execute(sql, values).fetchall()

    def script(self, sql: str) -> None:
        """Run several statements."""
        self._connection.executescript(sql)

    def schema(self) -> list[Any]:
        return self.run("SELECT type, name, sql FROM sqlite_schema ORDER BY name")

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(params=["wal", "delete"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[File]:
    """An empty database."""
    found = File(tmp_path / "shop.db", request.param)
    yield found
    found.close()
