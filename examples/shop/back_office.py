"""What the shop does with its database: takes orders, and changes what is in it now and then."""

import time
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any, Final

import psycopg2

from examples.shop.catalogue import CITIES, CUSTOMERS, PRODUCTS
from examples.shop.journeys import Purchase, Visit

_RETRY_SECONDS: Final = 0.5

_ORDER: Final = """
    INSERT INTO orders (customer, item, quantity, total_cents, country, placed_at)
    SELECT id, %s, %s, %s, country, %s FROM customers WHERE id = %s
"""


class BackOffice:
    """A connection to the database, made anew whenever the database has been away."""

    def __init__(self, url: str, random: Random, closing: Callable[[], bool]) -> None:
        self._url = url
        self._random = random
        self._closing = closing
        self._connection: Any = None

    def take(self, visit: Visit, purchase: Purchase, placed_at: datetime) -> None:
        """Write an order down, however often that takes: a customer who waits is still one.

        If the database dies while it commits, nobody knows whether it has; then the order may be
        there twice. It is the database that says how many orders there are.
        """
        product, quantity = purchase.product, purchase.quantity
        total = product.price_cents * quantity
        self._execute(_ORDER, (product.name, quantity, total, placed_at, visit.customer))

    def work(self) -> None:
        """Do one of the things that a shop does besides: somebody moves, a price or a tax changes.

        A new tax holds from a little later on, as new taxes do.
        """
        chosen, random = self._random.random(), self._random
        country = random.choice(list(CITIES))
        if chosen < 0.5:
            city = random.choice(CITIES[country])
            self._execute(
                "UPDATE customers SET city = %s, country = %s WHERE id = %s",
                (city, country, random.randint(1, CUSTOMERS)),
            )
        elif chosen < 0.7:
            self._execute(
                "UPDATE products SET price_cents = price_cents + 10 WHERE id = %s",
                (random.choice(PRODUCTS).number,),
            )
        elif chosen < 0.95:
            self._execute(
                "UPDATE orders SET status = 'shipped' WHERE id IN (SELECT id FROM orders"
                " WHERE status = 'placed' AND placed_at < now() - interval '20 seconds' LIMIT 20)",
                (),
            )
        else:
            self._execute(
                "INSERT INTO tax_rates VALUES (%s, now() + interval '15 seconds', %s)"
                " ON CONFLICT DO NOTHING",
                (country, random.randint(15, 25)),
            )

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()

    def _execute(self, statement: str, values: tuple[object, ...]) -> None:
        while True:
            try:
                if self._connection is None:
                    self._connection = psycopg2.connect(self._url, connect_timeout=5)
                    self._connection.autocommit = True
                with self._connection.cursor() as cursor:
                    cursor.execute(statement, values)
            except (psycopg2.OperationalError, psycopg2.InterfaceError):
                self._connection = None
                if self._closing():
                    return
                time.sleep(_RETRY_SECONDS)
            else:
                return
