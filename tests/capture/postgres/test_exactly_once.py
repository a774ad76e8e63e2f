"""A capture of PostgreSQL that is killed with -9, again and again, while others write."""

import json
import random
import threading
from functools import partial

import psycopg2
import pytest

from tests.capture.conftest import Database
from tests.capture.killing import check_ledger, kill_and_compare
from tests.capture.replaying import rows_of
from tests.capture.workload import KEYS, ChangedMind, Execute, random_transaction
from tests.clusters import Cluster, on_one_cluster


@on_one_cluster
@pytest.mark.timeout(180)
def test_killed_and_started_again_it_neither_loses_nor_repeats(
    cluster: Cluster, database: Database, fresh_name: str
) -> None:
    make_tables(database)

    def client(chance: random.Random, number: int, over: threading.Event) -> int:
        connection, committed, batch = database.connect(), 0, number * 1_000_000
        connection.autocommit = False
        while not over.is_set():
            batch += 1
            try:
                with connection, connection.cursor() as cursor:
                    random_transaction(cursor.execute, chance, batch, change)
                committed += 1
            except (ChangedMind, psycopg2.errors.UniqueViolation):
                pass
            except psycopg2.errors.DeadlockDetected:
                pass
        connection.close()
        return committed

    topics = {
        f"{fresh_name}.public.{table}": partial(rows_of, database, table)
        for table in ("accounts", "notes", "ledger")
    }
    kill_and_compare(database.url, cluster, fresh_name, client, kills=4, topics=topics)
    events = check_ledger(cluster, f"{fresh_name}.public.ledger")
    # The time of a commit is taken a moment before its place in the log is.
    # The last commit before each is not known to a capture that has just started.
    sequences = [json.loads(event["source"]["sequence"]) for event in events]
    commits = [int(last) for last, _ in sequences if last is not None]
    assert commits == sorted(commits), "transactions are told out of order"


def make_tables(database: Database) -> None:
    """Tables with rows in them, and long ones that the log leaves out."""
    database.run("CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL, owner text)")
    database.run("CREATE TABLE notes (id int PRIMARY KEY, body text, n int)")
    database.run("ALTER TABLE notes ALTER body SET STORAGE EXTERNAL")
    database.run("CREATE TABLE ledger (id bigserial PRIMARY KEY, batch int, place int, size int)")
    series = "FROM generate_series(1, 300) i"
    database.run(f"INSERT INTO accounts SELECT i, 100, 'owner ' || i {series}")
    database.run(f"INSERT INTO notes SELECT i, repeat('x', 3000), i {series}")


def change(execute: Execute, chance: random.Random) -> None:
    key, other = chance.randint(1, KEYS), chance.randint(1, KEYS * 2)
    kind = chance.random()
    if kind < 0.35:
        execute(
            "INSERT INTO accounts VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE"
            " SET balance = excluded.balance",
            (key, chance.randint(-100, 100), f"owner {other}"),
        )
    elif kind < 0.5:
        execute("UPDATE accounts SET balance = balance + 1 WHERE id = %s", (key,))
    elif kind < 0.6:
        execute("DELETE FROM accounts WHERE id = %s", (key,))
    elif kind < 0.65:
        execute("UPDATE accounts SET id = %s WHERE id = %s", (other, key))
    elif kind < 0.8:
        execute(
            "INSERT INTO notes VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE"
            " SET body = excluded.body",
            (key, chance.choice("abc") * chance.choice((1, 3000)), other),
        )
    elif kind < 0.97:
        execute("UPDATE notes SET n = n + 1 WHERE id = %s", (key,))
    elif kind < 0.995:
        execute("DELETE FROM notes WHERE id = %s", (key,))
    else:
        execute("TRUNCATE notes")
