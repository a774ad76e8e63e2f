"""What tests ask of the events of a feed."""

from collections.abc import Iterator
from typing import Any

from headrace.views.client import FeedEvent


def until(events: Iterator[FeedEvent], name: str) -> list[FeedEvent]:
    """What is told up to and including the first event of a name."""
    told = []
    for event in events:
        told.append(event)
        if event.name == name:
            return told
    raise AssertionError(f"the feed ended before {name}")


def changes_of(event: FeedEvent) -> list[tuple[str, str, Any]]:
    return [(each["op"], each["key"], each.get("row")) for each in event.data["changes"]]
