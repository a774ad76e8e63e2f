"""A capture of SQLite that is killed with -9, again and again, while others write."""

import random
import sqlite3
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.capture.killing import check_ledger, kill_and_compare
from tests.capture.sqlite.conftest import File
from tests.capture.workload import COLUMNS, ChangedMind, random_transaction, replacing, rows_of
from tests.clusters import Cluster, on_one_cluster


@on_one_cluster
@pytest.mark.timeout(180)
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_killed_and_started_again_it_neither_loses_nor_repeats(
    cluster: Cluster, tmp_path: Path, fresh_name: str, journal: str
) -> None:
    file = File(tmp_path / "shop.db", journal)
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
                random_transaction(connection.execute, chance, batch, replacing("?"), "?")
                connection.execute("COMMIT")
                committed += 1
            except (ChangedMind, sqlite3.IntegrityError):
                connection.execute("ROLLBACK")
        connection.close()
        return committed

    prefix = f"{fresh_name}.main"
    topics = {f"{prefix}.{table}": partial(rows_of, file, table) for table in COLUMNS}
    kill_and_compare(file.url, cluster, fresh_name, client, kills=2, topics=topics)
    check_ledger(cluster, f"{prefix}.ledger")
    file.close()
