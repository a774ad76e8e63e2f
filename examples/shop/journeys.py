"""What visitors do: view pages, search, click on results and sometimes order what they clicked.

The simulation is pure: the same seed gives the same steps at the same seconds, and it is others who
wait for these seconds, and tell the broker and the database.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from examples.shop.catalogue import CUSTOMERS, SEARCH_TERMS, Product, find

_SEARCHES_AGAIN: Final = 0.45
_CLICKS_A_RESULT: Final = 0.7
_ORDERS: Final = 0.4
_THINK_SECONDS: Final = 1.5
"""How long a visitor takes for a step, on average."""


@dataclass(frozen=True, slots=True)
class PageView:
    """A page was looked at."""

    url: str


@dataclass(frozen=True, slots=True)
class Search:
    """Something was looked for."""

    query: str
    results: int


@dataclass(frozen=True, slots=True)
class Click:
    """One of the results was chosen."""

    query: str
    url: str


@dataclass(frozen=True, slots=True)
class Purchase:
    """Something was ordered."""

    product: Product
    quantity: int


Step: TypeAlias = PageView | Search | Click | Purchase


@dataclass(frozen=True, slots=True)
class Visit:
    """Who visits, and in which session."""

    session: str
    customer: int


def journey(random: Random) -> Iterator[Step]:
    """One visit, from the front page to an order or to leaving without one."""
    clicked: list[Product] = []
    yield PageView("/")
    while True:
        term = random.choice(SEARCH_TERMS)
        results = find(term)
        yield Search(term, len(results))
        if random.random() < _CLICKS_A_RESULT:
            product = random.choice(results)
            clicked.append(product)
            yield Click(term, product.url)
            yield PageView(product.url)
        if random.random() > _SEARCHES_AGAIN:
            break
    if clicked and random.random() < _ORDERS:
        yield PageView("/checkout")
        yield Purchase(random.choice(clicked), random.choice((1, 1, 1, 2, 3)))


class Visitors:
    """So many visits at a time that about `rate` steps are made each second."""

    def __init__(self, seed: int, rate: float, name: str = "visit") -> None:
        self._random = Random(seed)
        self._name = name
        self._begun = 0
        self._at_once = max(1, round(rate * _THINK_SECONDS))
        self._mean_seconds = self._at_once / rate

    def __iter__(self) -> Iterator[tuple[float, Visit, Step]]:
        """Steps without end, by the seconds since the shop has opened."""
        due: list[tuple[float, int, Visit, Iterator[Step]]] = []
        for _ in range(self._at_once):
            heapq.heappush(due, self._next_visit(0.0))
        while True:
            at, number, visit, steps = heapq.heappop(due)
            step = next(steps, None)
            if step is None:
                heapq.heappush(due, self._next_visit(at))
                continue
            yield at, visit, step
            heapq.heappush(due, (at + self._pause(), number, visit, steps))

    def _next_visit(self, at: float) -> tuple[float, int, Visit, Iterator[Step]]:
        self._begun += 1
        visit = Visit(f"{self._name}-{self._begun:06}", self._random.randint(1, CUSTOMERS))
        return at + self._pause(), self._begun, visit, journey(self._random)

    def _pause(self) -> float:
        return self._random.expovariate(1 / self._mean_seconds)
