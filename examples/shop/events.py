"""What happens in the shop: four kinds of event, one topic each, keyed by session."""

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

PAGE_VIEWS = "page_views"
SEARCHES = "searches"
CLICKS = "clicks"
ORDERS = "orders"

TOPICS = (PAGE_VIEWS, SEARCHES, CLICKS, ORDERS)
"""Every topic of the shop, in the order in which a visitor usually reaches them."""

PARTITIONS = 3
"""Partitions of each topic: the most members of a group that can share one topic's work."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something a visitor did."""

    topic: str
    session: str
    """The key: all events of one visit stay in order, in one partition."""
    details: Mapping[str, object]

    def encode(self, at_ms: int) -> bytes:
        """The event as JSON, stamped with the time at which it happened."""
        return orjson.dumps({"session": self.session, "at": at_ms, **self.details})
