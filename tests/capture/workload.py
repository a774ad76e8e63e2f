"""Random transactions on two tables, reproducible by a seed."""

import random
import threading
from typing import Any

from tests.capture.conftest import Database

TABLES = ("accounts", "notes")


def make_tables(database: Database, rows: int = 0) -> None:
    database.run("CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL, owner text)")
    database.run("CREATE TABLE notes (id int PRIMARY KEY, body text, n int)")
    database.run("ALTER TABLE notes ALTER body SET STORAGE EXTERNAL")
    database.run("CREATE TABLE ledger (id bigserial PRIMARY KEY, batch int, place int, size int)")
    if rows:
        database.run(
            "INSERT INTO accounts SELECT i, 100, 'owner ' || i FROM generate_series(1, %s) i", rows
        )
        database.run(
            "INSERT INTO notes SELECT i, repeat('x', 3000), i FROM generate_series(1, %s) i", rows
        )


class Workload:
    """Clients that write until they are told to stop.

    Every transaction also writes its own rows into `ledger`, numbered, so that one that is torn,
    told twice or told out of order is seen.
    """

    def __init__(self, database: Database, seed: int, *, clients: int = 2, keys: int = 200) -> None:
        self._database = database
        self._keys = keys
        self._over = threading.Event()
        self._failures: list[BaseException] = []
        self.transactions = 0
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(seed * 1000 + number), number))
            for number in range(clients)
        ]

    def __enter__(self) -> "Workload":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        assert not self._failures, self._failures

    def _run(self, chance: random.Random, number: int) -> None:
        import psycopg2

        connection = self._database.connect()
        connection.autocommit = False
        batch = 0
        try:
            while not self._over.is_set():
                batch += 1
                try:
                    with connection, connection.cursor() as cursor:
                        self._transaction(cursor, chance, number * 1_000_000 + batch)
                    self.transactions += 1
                except (_ChangedMind, psycopg2.errors.UniqueViolation):
                    pass
                except psycopg2.errors.DeadlockDetected:
                    pass
        except BaseException as failure:
            self._failures.append(failure)
        finally:
            connection.close()

    def _transaction(self, cursor: Any, chance: random.Random, batch: int) -> None:
        size = chance.choice((1, 1, 2, 5, 40))
        for place in range(size):
            self._change(cursor, chance)
            cursor.execute(
                "INSERT INTO ledger (batch, place, size) VALUES (%s, %s, %s)", (batch, place, size)
            )
        if chance.random() < 0.1:
            raise _ChangedMind

    def _change(self, cursor: Any, chance: random.Random) -> None:
        key, other = chance.randint(1, self._keys), chance.randint(1, self._keys * 2)
        kind = chance.random()
        if kind < 0.35:
            cursor.execute(
                "INSERT INTO accounts VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE"
                " SET balance = excluded.balance",
                (key, chance.randint(-100, 100), f"owner {other}"),
            )
        elif kind < 0.5:
            cursor.execute("UPDATE accounts SET balance = balance + 1 WHERE id = %s", (key,))
        elif kind < 0.6:
            cursor.execute("DELETE FROM accounts WHERE id = %s", (key,))
        elif kind < 0.65:
            cursor.execute("UPDATE accounts SET id = %s WHERE id = %s", (other, key))
        elif kind < 0.8:
            cursor.execute(
                "INSERT INTO notes VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE"
                " SET body = excluded.body",
                (key, chance.choice("abc") * chance.choice((1, 3000)), other),
            )
        elif kind < 0.97:
            cursor.execute("UPDATE notes SET n = n + 1 WHERE id = %s", (key,))
        elif kind < 0.995:
            cursor.execute("DELETE FROM notes WHERE id = %s", (key,))
        else:
            cursor.execute("TRUNCATE notes")


class _ChangedMind(Exception):
    """A transaction is rolled back."""
