"""Every kind of join, as events in and rows out."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.streams import Flow
from headrace.streams.time import Watermark
from headrace.testing import GoldenCase, golden_cases

GOLDEN = Path(__file__).parent / "golden"
IN_ORDER = Watermark(out_of_order="0 s")


def journeys() -> Flow:
    flow = Flow("journeys")
    searches = flow.stream(
        "searches", "session string, query string, at timestamp", time="at", watermark=IN_ORDER
    )
    clicks = flow.stream(
        "clicks", "session string, url string, at timestamp", time="at", watermark=IN_ORDER
    )
    joined = searches.join(clicks, on="session", within="1 hour", how="left", late="side")
    flow.topic("journeys", joined)
    flow.topic("late", joined.late.select("session", "url", "_reason"))
    return flow


def profiles() -> Flow:
    flow = Flow("profiles")
    clicks = flow.stream("clicks", "session string, url string, user int")
    users = flow.table("users", "user int, name string", key="user")
    flow.topic("profiles", clicks.lookup(users, on="user"))
    return flow


def patient() -> Flow:
    flow = Flow("patient")
    clicks = flow.stream(
        "clicks", "session string, user int, at timestamp", time="at", watermark=IN_ORDER
    )
    users = flow.table("users", "user int, name string", key="user")
    flow.topic("patient", clicks.lookup(users, on="user", wait="1 minute"))
    return flow


def invoices(name: str = "invoices", wait: str | None = None) -> Flow:
    flow = Flow(name)
    sales = flow.stream(
        "sales",
        "invoice int, country string, sold_at timestamp",
        time="sold_at",
        watermark=IN_ORDER,
    )
    rates = flow.table(
        "rates", "country string, rate int, since timestamp", key="country", valid_from="since"
    )
    flow.topic("invoices", sales.lookup(rates, on="country", at="sold_at", wait=wait))
    return flow


def known() -> Flow:
    return invoices("known", wait="1 hour")


def repeated() -> Flow:
    flow = Flow("repeated")
    logins = flow.stream(
        "logins", "id int, user string, at timestamp", time="at", watermark=IN_ORDER
    )
    pairs = logins.join(logins, on="user", within=("0 s", "1 minute"), condition="id < id_right")
    flow.topic("repeated", pairs.select("user", "id", "id_right"))
    return flow


def timelines() -> Flow:
    flow = Flow("timelines")
    posts = flow.table("posts", "id int, sender string, text string, at timestamp", key="id")
    follows = flow.table("follows", "reader string, sender string", key=("reader", "sender"))
    timelines = posts.join(follows, on="sender")
    newest = timelines.top(2, by="reader", order="at desc")
    flow.topic("home", newest.select("reader", "id", "text"), key=("reader", "id"))
    return flow


def orders() -> Flow:
    flow = Flow("orders")
    orders = flow.table("orders", "order int, customer int, price int", key="order")
    customers = flow.table("customers", "customer int, name string", key="customer")
    flow.topic("named-orders", orders.join(customers, on="customer", how="left"))
    return flow


def revenue() -> Flow:
    flow = Flow("revenue")
    orders = flow.table("orders", "order int, customer int, price int", key="order")
    totals = orders.group_by("customer").agg(
        orders="count(*)", total="sum(price)", most="max(price)"
    )
    flow.topic("revenue", totals)
    return flow


def captured() -> Flow:
    flow = Flow("captured")
    users = flow.table("users", "id int, name string, city string", key="id", format="debezium")
    named = users.where("city is not null").select("id", "city", "upper(name) as name")
    flow.topic("cities", named.group_by("city").agg(users="count(*)", first="min(name)"))
    return flow


FLOWS = {
    each.__name__: each
    for each in (
        journeys,
        profiles,
        patient,
        invoices,
        known,
        repeated,
        timelines,
        orders,
        revenue,
        captured,
    )
}
CASES = [case for name in ("streams", "tables") for case in golden_cases(GOLDEN / f"{name}.txt")]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_joins(case: GoldenCase, check_golden: Callable[[GoldenCase, Callable[..., Flow]], None]):
    check_golden(case, lambda flow: FLOWS[flow]())
