"""What the two departments make of the events; each sees all of its topics."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from examples.shop.events import CLICKS, ORDERS, PAGE_VIEWS, SEARCHES

SUSPICIOUS_CENTS = 300_000
"""An order this large is looked at before it is sent."""


class Department(Protocol):
    """Reads some topics under a group name of its own and has something to say about them."""

    @property
    def name(self) -> str:
        """The name of its consumer group."""
        ...

    @property
    def topics(self) -> tuple[str, ...]:
        """What it reads."""
        ...

    def note(self, topic: str, event: Mapping[str, Any]) -> None:
        """Take in one event, once."""
        ...

    def finding(self) -> str:
        """The result so far, in a few words."""
        ...


class Analytics:
    """What people look for, and what the shop earns."""

    name = "analytics"
    topics = (PAGE_VIEWS, SEARCHES, CLICKS, ORDERS)

    def __init__(self) -> None:
        self.revenue_cents = 0
        self.queries: Counter[str] = Counter()

    def note(self, topic: str, event: Mapping[str, Any]) -> None:
        """Count searches and add up orders."""
        if topic == ORDERS:
            self.revenue_cents += event["total_cents"]
        elif topic == SEARCHES:
            self.queries[event["query"]] += 1

    def finding(self) -> str:
        """Revenue and the favourite search."""
        favourite = "".join(f", most wanted: {query}" for query, _ in self.queries.most_common(1))
        return f"revenue {self.revenue_cents / 100:,.2f} €{favourite}"


class Fraud:
    """Orders that are too good to be true."""

    name = "fraud"
    topics = (CLICKS, ORDERS)

    def __init__(self) -> None:
        self.suspicious = 0

    def note(self, topic: str, event: Mapping[str, Any]) -> None:
        """Look at the size of an order."""
        if topic == ORDERS and event["total_cents"] >= SUSPICIOUS_CENTS:
            self.suspicious += 1

    def finding(self) -> str:
        """How many orders someone should look at."""
        return f"{self.suspicious} suspicious orders"
