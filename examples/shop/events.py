"""What devices tell the shop: three topics, keyed by session."""

from datetime import UTC, datetime, timedelta
from typing import Final

import orjson

from examples.shop.devices import Sent
from examples.shop.journeys import Click, PageView, Search, Step, Visit

PAGE_VIEWS: Final = "page_views"
SEARCHES: Final = "searches"
CLICKS: Final = "clicks"

TOPICS: Final = (PAGE_VIEWS, SEARCHES, CLICKS)
"""In the order in which a visitor usually reaches them; orders are in the database."""

PARTITIONS: Final = 2

CAPTURED: Final = tuple(
    f"shop.public.{table}" for table in ("customers", "products", "tax_rates", "orders")
)
"""What the capture tells of the database, one partition each."""


def topic_of(step: Step) -> str:
    """Where it is told."""
    match step:
        case PageView():
            return PAGE_VIEWS
        case Search():
            return SEARCHES
        case Click():
            return CLICKS
    raise ValueError(f"{step} is told by the database")


def encoded(visit: Visit, sent: Sent[Step], opened: datetime) -> bytes:
    """The event as JSON, with the times that the device's own clock shows."""

    def shown(seconds: float) -> datetime:
        return opened + timedelta(seconds=seconds + sent.device.clock_seconds)

    event = {
        "session": visit.session,
        "customer": visit.customer,
        "device": sent.device.kind,
        "occurred": shown(sent.occurred).astimezone(UTC),
        "sent": shown(sent.sent).astimezone(UTC),
    }
    match sent.what:
        case PageView(url):
            event |= {"url": url}
        case Search(query, results):
            event |= {"query": query, "results": results}
        case Click(query, url):
            event |= {"query": query, "url": url}
    return orjson.dumps(event)
