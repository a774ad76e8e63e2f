"""A capture of SQLite that is killed with -9, again and again, while others write."""

import random
import sqlite3
import threading
from pathlib import Path

import pytest

from tests.capture.killing import ChangedMind, kill_and_compare, random_transaction
from tests.capture.sqlite.conftest import File
from tests.clusters import Cluster


@pytest.mark.timeout(180)
def test_killed_and_started_again_it_neither_loses_nor_repeats(
    cluster: Cluster, tmp_path: Path, fresh_name: str
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    file = File(tmp_path / "shop.db", ("wal", "delete")[seed % 2])
    file.script(
        "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INT NOT NULL, owner TEXT);"
        "CREATE TABLE ledger (id INTEGER PRIMARY KEY, batch INT, place INT, size INT)"
    )
    for number in range(1, 301):
        file.run("INSERT INTO accounts VALUES (?, 100, 'owner')", number)

    def client(chance: random.Random, number: int, over: threading.Event) -> int:
        connection, committed, batch = file.connect(), 0, number * 1_000_000
        while not over.wait(0.01):
            batch += 1
            connection.execute("BEGIN IMMEDIATE")
            try:
                random_transaction(connection.execute, chance, batch, "?")
                connection.execute("COMMIT")
                committed += 1
            except (ChangedMind, sqlite3.IntegrityError):
                connection.execute("ROLLBACK")
        connection.close()
        return committed

    kill_and_compare(file, cluster, fresh_name, "main", seed=seed, kills=2, client=client)
    file.close()
