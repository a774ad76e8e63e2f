"""What visitors do: view pages, search, click on results and sometimes order what they clicked.

The simulation is pure: the same seed gives the same events, and time is put on by the caller.
"""

from collections.abc import Iterator
from random import Random

from examples.shop.catalogue import SEARCH_TERMS, Product, find
from examples.shop.events import CLICKS, ORDERS, PAGE_VIEWS, SEARCHES, Event

COUNTRIES = ("DE", "FR", "GB", "NL", "PL", "SE")

_SEARCHES_AGAIN = 0.45
_CLICKS_A_RESULT = 0.7
_ORDERS = 0.35
_BUYS_IN_BULK = 0.02
"""Few orders are so large that the fraud department wants to see them."""


def journey(random: Random, session: str, visitor: str) -> Iterator[Event]:
    """One visit, from the front page to an order or to leaving without one."""

    def event(topic: str, **details: object) -> Event:
        return Event(topic, session, {"visitor": visitor, **details})

    clicked: list[Product] = []
    yield event(PAGE_VIEWS, url="/")
    while True:
        term = random.choice(SEARCH_TERMS)
        results = find(term)
        yield event(SEARCHES, query=term, results=len(results))
        if random.random() < _CLICKS_A_RESULT:
            product = random.choice(results)
            clicked.append(product)
            yield event(CLICKS, query=term, url=product.url)
            yield event(PAGE_VIEWS, url=product.url)
        if random.random() > _SEARCHES_AGAIN:
            break
    if clicked and random.random() < _ORDERS:
        yield event(PAGE_VIEWS, url="/checkout")
        yield event(ORDERS, **_order(random, clicked))


class Shop:
    """Many visits at once, interleaved as they would arrive at a busy shop."""

    def __init__(self, seed: int, visits_at_once: int = 50) -> None:
        self._random = Random(seed)
        self._visits_begun = 0
        self._visits = [self._next_visit() for _ in range(visits_at_once)]

    def __iter__(self) -> Iterator[Event]:
        """Events without end."""
        while True:
            place = self._random.randrange(len(self._visits))
            event = next(self._visits[place], None)
            if event is None:
                self._visits[place] = self._next_visit()
            else:
                yield event

    def _next_visit(self) -> Iterator[Event]:
        self._visits_begun += 1
        visitor = f"visitor-{self._random.randrange(1, 1000):03}"
        return journey(self._random, f"session-{self._visits_begun:06}", visitor)


def _order(random: Random, clicked: list[Product]) -> dict[str, object]:
    most = 40 if random.random() < _BUYS_IN_BULK else 3
    quantities = {product: random.randint(1, most) for product in dict.fromkeys(clicked)}
    return {
        "country": random.choice(COUNTRIES),
        "items": [
            {"product": product.name, "quantity": quantity, "price_cents": product.price_cents}
            for product, quantity in quantities.items()
        ],
        "total_cents": sum(
            quantity * product.price_cents for product, quantity in quantities.items()
        ),
    }
