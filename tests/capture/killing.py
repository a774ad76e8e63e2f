"""Captures of any database that are killed with -9 while others write."""

import json
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any, Protocol

from tests.capture.replaying import eventually, records_of, replayed
from tests.capture.test_exactly_once import CaptureProcess
from tests.clusters import Cluster

KEYS = 200


class Captured(Protocol):
    """A database that a test writes to."""

    url: str

    def run(self, sql: str, *values: Any) -> list[Any]: ...


class ChangedMind(Exception):
    """A transaction is rolled back."""


Execute = Callable[..., object]


def random_change(execute: Execute, chance: random.Random, mark: str) -> None:
    """Change a row of `accounts`; `mark` is how the driver writes a parameter."""
    key, other = chance.randint(1, KEYS), chance.randint(1, KEYS * 2)
    kind = chance.random()
    if kind < 0.45:
        sql = f"REPLACE INTO accounts (id, balance, owner) VALUES ({mark}, {mark}, {mark})"
        execute(sql, (key, chance.randint(-100, 100), f"owner {other}"))
    elif kind < 0.75:
        execute(f"UPDATE accounts SET balance = balance + 1 WHERE id = {mark}", (key,))
    elif kind < 0.9:
        execute(f"DELETE FROM accounts WHERE id = {mark}", (key,))
    else:
        execute(f"UPDATE accounts SET id = {mark} WHERE id = {mark}", (other, key))


def random_transaction(execute: Execute, chance: random.Random, batch: int, mark: str) -> None:
    """Changes, each with a row of `ledger` by which a torn transaction is seen."""
    size = chance.choice((1, 1, 2, 5, 40))
    for place in range(size):
        random_change(execute, chance, mark)
        sql = f"INSERT INTO ledger (batch, place, size) VALUES ({mark}, {mark}, {mark})"
        execute(sql, (batch, place, size))
    if chance.random() < 0.1:
        raise ChangedMind


@contextmanager
def writing(
    clients: int, seed: int, client: Callable[[random.Random, int, threading.Event], int]
) -> Iterator[list[int]]:
    """Clients that write until the block ends; the list has how often each committed."""
    over, failures, committed = threading.Event(), [], [0] * clients

    def run(number: int) -> None:
        try:
            committed[number] = client(random.Random(seed * 1000 + number), number, over)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield committed
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failures, failures


def rows_of(database: Captured, table: str) -> dict[str, dict[str, Any]]:
    names = {
        "accounts": ("id", "balance", "owner"),
        "ledger": ("id", "batch", "place", "size"),
    }[table]
    rows = database.run(f"SELECT {', '.join(names)} FROM {table}")
    return {f'{{"id":{row[0]}}}': dict(zip(names, row, strict=True)) for row in rows}


def kill_and_compare(
    database: Captured,
    cluster: Cluster,
    name: str,
    schema: str,
    *,
    seed: int,
    kills: int,
    client: Callable[[random.Random, int, threading.Event], int],
) -> None:
    """Kill a capture at random while clients write; then its topics lead to the tables."""
    chance = random.Random(seed)
    with CaptureProcess(database, cluster, name, "chunk=40") as process:  # type: ignore[arg-type]
        with writing(2, seed, client) as committed:
            for _ in range(kills):
                process.start()
                # Not for something to happen: whatever it is doing by then is a good moment.
                time.sleep(chance.uniform(0.7, 1.5))
                process.end(signal.SIGKILL)
        process.start()
        for table in ("accounts", "ledger"):
            await_equal(cluster, f"{name}.{schema}.{table}", rows_of(database, table))
        assert "Traceback" not in process.end(signal.SIGTERM)
    assert sum(committed) > 20
    check_ledger(cluster, f"{name}.{schema}.ledger")


def await_equal(cluster: Cluster, topic: str, wanted: dict[str, Any]) -> None:
    """Wait until a topic leads to some rows, and show how they differ if it does not."""
    try:
        eventually(lambda: replayed(cluster.bootstrap, topic) == wanted, 60)
    except AssertionError:
        found = replayed(cluster.bootstrap, topic)
        differences = {
            key: (found.get(key), wanted.get(key))
            for key in found.keys() | wanted.keys()
            if found.get(key) != wanted.get(key)
        }
        raise AssertionError(f"{topic} differs: {str(differences)[:2000]}") from None


def check_ledger(cluster: Cluster, topic: str) -> None:
    """Every transaction is told once, whole and in one piece."""
    events = [json.loads(each.value() or b"null") for each in records_of(cluster.bootstrap, topic)]
    rows = [event["after"] for event in events if event["op"] == "c"]
    ids = [row["id"] for row in rows]
    assert len(ids) == len(set(ids)), "a row is told twice"
    pieces = [(batch, list(piece)) for batch, piece in groupby(rows, lambda row: row["batch"])]
    assert len(pieces) == len({batch for batch, _ in pieces}), "a transaction is told in pieces"
    for batch, piece in pieces:
        assert [row["place"] for row in piece] == list(range(piece[0]["size"])), batch
