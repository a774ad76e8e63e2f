"""Clients that write random transactions, reproducible by a seed."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.capture.replaying import Rows

CLIENTS = 2
KEYS = 200

COLUMNS = {"accounts": ("id", "balance", "owner"), "ledger": ("id", "batch", "place", "size")}
"""The tables that every database of these tests has."""

Client = Callable[[random.Random, int, threading.Event], int]
"""Commits transactions until the event is set, and gives how many; the number is the client's."""

Execute = Callable[..., object]
"""Runs a statement, with a tuple of values."""

Change = Callable[[Execute, random.Random], None]
"""Changes some row."""


class ChangedMind(Exception):
    """A transaction is rolled back."""


@contextmanager
def writing(client: Client, seed: int) -> Iterator[list[int]]:
    """Clients that write until the block ends; the list has how often each committed."""
    over, failures, committed = threading.Event(), [], [0] * CLIENTS

    def run(number: int) -> None:
        try:
            committed[number] = client(random.Random(seed * 1000 + number), number, over)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield committed
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failures, failures


def random_transaction(
    execute: Execute, chance: random.Random, batch: int, change: Change, mark: str = "%s"
) -> None:
    """Changes, each with a row of `ledger` by which a torn transaction is seen.

    `mark` is how the driver writes a parameter.
    """
    size = chance.choice((1, 1, 2, 5, 40))
    for place in range(size):
        change(execute, chance)
        sql = f"INSERT INTO ledger (batch, place, size) VALUES ({mark}, {mark}, {mark})"
        execute(sql, (batch, place, size))
    if chance.random() < 0.1:
        raise ChangedMind


def replacing(mark: str) -> Change:
    """Changes rows of `accounts` in databases that have REPLACE."""

    def change(execute: Execute, chance: random.Random) -> None:
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

    return change


def rows_of(database: Any, table: str) -> Rows:
    """The rows of a table that all databases print alike, by their keys as records have them."""
    names = COLUMNS[table]
    rows = database.run(f"SELECT {', '.join(names)} FROM {table}")
    return {f'{{"id":{row[0]}}}': dict(zip(names, row, strict=True)) for row in rows}
