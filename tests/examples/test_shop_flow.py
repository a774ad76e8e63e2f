"""What the shop's flow makes of orders, searches and page views."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from headrace.streams import Flow
from headrace.testing import FlowHarness

FLOWS = Path(__file__).parents[2] / "examples" / "shop" / "flows.py"

pytestmark = pytest.mark.timeout(300)


def change(op: str = "c", **row: Any) -> dict[str, Any]:
    """A change of a table as a capture tells it."""
    return {"op": op, "before": None, "after": row, "source": {"ts_ms": 0}, "ts_ms": 0}


def order(number: int, placed_at: str, op: str = "c", **other: Any) -> dict[str, Any]:
    row = {"customer": 1, "item": "tent for two", "quantity": 1, "total_cents": 34_900}
    more = {"country": "DE", "status": "placed", "placed_at": at(placed_at)}
    return change(op, id=number, **{**row, **more, **other})


def told(time: str, session: str = "a", **event: Any) -> dict[str, Any]:
    """What a device tells whose clock is right."""
    who = {"session": session, "customer": 1, "device": "desktop"}
    return {**who, "occurred": at(time), "sent": at(time), **event}


def at(time: str) -> str:
    return f"2026-01-01T{time}Z"


@pytest.fixture
def flow() -> Flow:
    made: Flow = runpy.run_path(str(FLOWS))["flow"]
    return made


def test_orders_searches_and_visits_become_what_the_views_say(
    flow: Flow, flow_harness: Callable[..., FlowHarness]
):
    harness = flow_harness(flow, now=at("10:00:00"))
    ada = {"id": 1, "name": "Ada", "city": "London", "country": "GB"}
    harness.send("shop.public.customers", change("r", **ada), key='{"id":1}')
    for since, percent in (("00:00:00", 19), ("10:01:00", 16)):
        rate = change("r", country="DE", since=at(since), percent=percent)
        harness.send("shop.public.tax_rates", rate, key=f'{{"since":"{since}"}}')
    harness.step()

    for number, time in ((1, "10:00:10"), (2, "10:01:10")):
        harness.send("shop.public.orders", order(number, time), key=f'{{"id":{number}}}')
    harness.send("searches", told("10:00:05", query="tent", results=2), timestamp=at("10:00:05"))
    searched = told("10:00:06", session="b", query="boat", results=0)
    harness.send("searches", searched, timestamp=at("10:00:06"))
    harness.send("clicks", told("10:00:09", query="tent", url="/x"), timestamp=at("10:00:09"))
    for time, url in (("10:00:00", "/"), ("10:00:09", "/x")):
        harness.send("page_views", told(time, url=url), timestamp=at(time))
    harness.step()
    # An order out of a tunnel, and one that was sent: the first corrects a minute, the other none.
    harness.send("shop.public.orders", order(3, "10:00:20"), key='{"id":3}')
    sent = order(1, "10:00:10", "u", status="shipped")
    harness.send("shop.public.orders", sent, key='{"id":1}')
    for _ in range(2):
        harness.advance("2 minutes")
        harness.step()

    minutes = latest(harness, "revenue_per_minute", "window_start")
    assert [row["orders"] for row in minutes] == [2, 1]
    assert [row["revenue_cents"] for row in minutes] == [69_800, 34_900]
    best = latest(harness, "best_sellers", "window_start")
    assert "tent for two" in str(best[0]["best_sellers"])
    orders = latest(harness, "orders", "id")
    assert [row["status"] for row in orders] == ["shipped", "placed", "placed"]
    assert {row["city"] for row in orders} == {"London"}
    assert [row["percent"] for row in latest(harness, "invoices", "id")] == [19, 16, 19]
    searches = latest(harness, "click_through", "query")
    assert [(row["query"], row["searches"], row["clicked"]) for row in searches] == [
        ("boat", 1, 0),
        ("tent", 1, 1),
    ]
    (visit,) = latest(harness, "visits", "window_start")
    assert (visit["pages"], visit["entered"], visit["left"]) == (2, "/", "/x")


def latest(harness: FlowHarness, output: str, key: str) -> list[dict[str, Any]]:
    """The last row of each key, in the order of keys."""
    rows = {row[key]: row for row in harness.rows(output)}
    return [rows[each] for each in sorted(rows)]
