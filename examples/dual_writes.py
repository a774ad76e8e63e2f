"""A search index beside a database, kept in step in two ways: `python -m examples.dual_writes`.

Two clients change the prices of the same products. First each of them writes to the database and
then to the index, as most programs do. The database decides whose write is the last one; the index
decides for itself, and whenever a client is overtaken between its two writes, they disagree for
ever. Nothing fails, and no log says so.

Then both write to the database only. A capture makes a stream of what it decided, and one reader
applies that to the index, in that order.
"""

import json
import random
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from headrace import Broker
from headrace.capture import Capture
from headrace.settings import KafkaSettings

PRODUCTS: Final = 100
CLIENTS: Final = ("Ada", "Grace")

_DELAY_SECONDS: Final = 0.002
"""How long the way from a client to the index may take."""

_PATIENCE_SECONDS: Final = 60.0

Prices = dict[int, str]
"""What products cost and who said so, as people find it."""


class Index:
    """A full-text index of products, in a file of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(self._connect()) as connection:
            connection.execute("CREATE VIRTUAL TABLE products USING fts5(price)")

    def put(self, product: int, price: str) -> None:
        """Replace what is known about a product."""
        with closing(self._connect()) as connection:
            connection.execute(
                "INSERT OR REPLACE INTO products (rowid, price) VALUES (?, ?)", (product, price)
            )

    def prices(self) -> Prices:
        """All that is known."""
        with closing(self._connect()) as connection:
            return dict(connection.execute("SELECT rowid, price FROM products"))

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=30, isolation_level=None)


class Database:
    """The products, in a table."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self._path = path
        with closing(self.connect()) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, price TEXT)")

    def connect(self) -> sqlite3.Connection:
        """A connection of a client."""
        return sqlite3.connect(self._path, timeout=30, isolation_level=None)

    def prices(self) -> Prices:
        """What is so."""
        with closing(self.connect()) as connection:
            return dict(connection.execute("SELECT id, price FROM products"))


def change_prices(database: Database, then: Callable[[int, str], None]) -> None:
    """Let both clients change the price of every product, at the same time."""
    together = threading.Barrier(len(CLIENTS))

    def client(name: str) -> None:
        with closing(database.connect()) as connection:
            for product in range(1, PRODUCTS + 1):
                together.wait()
                price = f"{product}.50 says {name}"
                connection.execute(
                    "INSERT INTO products VALUES (?, ?)"
                    " ON CONFLICT (id) DO UPDATE SET price = excluded.price",
                    (product, price),
                )
                then(product, price)

    threads = [threading.Thread(target=client, args=(name,)) for name in CLIENTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def write_to_both(directory: Path) -> int:
    """Have clients write to the database and to the index; gives how many products differ."""
    database, index = Database(directory / "shop.db"), Index(directory / "index.db")

    def put(product: int, price: str) -> None:
        time.sleep(random.uniform(0, _DELAY_SECONDS))
        index.put(product, price)

    change_prices(database, put)
    return differing(database, index)


def write_to_the_database(directory: Path) -> int:
    """Have clients write to the database only, and a reader of its stream to the index."""
    database, index = Database(directory / "shop.db"), Index(directory / "index.db")
    with ExitStack() as resources:
        broker = resources.enter_context(Broker(flush="os"))
        kafka = KafkaSettings(bootstrap=broker.bootstrap)
        resources.enter_context(Capture(database.url, tables=["products"], to="shop", kafka=kafka))
        resources.enter_context(_followed(broker.bootstrap, "shop.main.products", index))
        change_prices(database, lambda product, price: None)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while differing(database, index) and time.monotonic() < deadline:
            time.sleep(0.05)
        return differing(database, index)


def differing(database: Database, index: Index) -> int:
    """How many products are found with another price than they have."""
    found = index.prices()
    return sum(found.get(product) != price for product, price in database.prices().items())


@contextmanager
def _followed(bootstrap: str, topic: str, index: Index) -> Iterator[None]:
    """Apply what a topic tells to the index, as long as the block runs."""
    over = threading.Event()

    def follow() -> None:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "index"})
        with closing(consumer):
            consumer.assign([TopicPartition(topic, 0, 0)])
            while not over.is_set():
                message = consumer.poll(0.1)
                if message is None or message.error() is not None:
                    continue
                row = json.loads(message.value() or b"null")["after"]
                index.put(row["id"], row["price"])

    follower = threading.Thread(target=follow)
    follower.start()
    try:
        yield
    finally:
        over.set()
        follower.join()


def main() -> None:
    """Show both."""
    for title, way in (
        ("to the database and to the index:", write_to_both),
        ("to the database, and captured:", write_to_the_database),
    ):
        with tempfile.TemporaryDirectory(prefix="dual-writes-") as directory:
            print(f"{title:36}{way(Path(directory))} of {PRODUCTS} products differ", flush=True)


if __name__ == "__main__":
    main()
