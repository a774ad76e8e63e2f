"""Joins of a flow: behind each other, on a real cluster, and over a bounded range."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.streams import Flow
from headrace.streams.time import Watermark
from headrace.streams.windows import tumbling
from headrace.testing import FlowHarness
from tests.clusters import Cluster, on_one_cluster
from tests.streams.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

IN_ORDER = Watermark(out_of_order="0 s")


def test_a_window_follows_a_lookup_that_follows_a_join(
    flow_harness: Callable[[Flow], FlowHarness],
):
    flow = Flow("chain")
    searches = flow.stream("searches", "id int, at timestamp", time="at", watermark=IN_ORDER)
    clicks = flow.stream("clicks", "id int, user int, at timestamp", time="at", watermark=IN_ORDER)
    users = flow.table("users", "user int, city string", key="user")
    clicked = searches.join(clicks, on="id", within="1 minute").lookup(users, on="user")
    flow.topic("cities", clicked.window(tumbling("1 hour"), by="city").agg(n="count(*)"))
    harness = flow_harness(flow)
    harness.send("users", {"user": 7, "city": "London"})
    harness.send("searches", {"id": 1, "at": "2026-01-01T10:00:00Z"})
    harness.send("clicks", {"id": 1, "user": 7, "at": "2026-01-01T10:00:30Z"})
    harness.step()
    assert harness.take("cities") == []
    harness.send("searches", {"id": 2, "at": "2026-01-01T11:00:01Z"})
    harness.send("clicks", {"id": 2, "user": 8, "at": "2026-01-01T11:00:01Z"})
    harness.step()
    (hour,) = harness.take("cities")
    assert (hour["city"], hour["n"]) == ("London", 1)


def test_events_wait_for_the_stream_that_a_table_is_made_of_unless_it_is_silent(
    flow_harness: Callable[[Flow], FlowHarness],
):
    flow = Flow("held")
    sales = flow.stream(
        "sales", "id int, country string, at timestamp", time="at", watermark=IN_ORDER
    )
    impatient = Watermark(out_of_order="0 s", idle_after="1 minute")
    rates = flow.stream(
        "rates", "country string, rate int, since timestamp", time="since", watermark=impatient
    )
    past = rates.table(key="country", valid_from="since")
    flow.topic("invoices", sales.lookup(past, on="country", at="at").select("id", "rate"))
    harness = flow_harness(flow)
    sold = [
        {"id": hour, "country": "de", "at": f"2026-01-01T{hour}:00:00Z"} for hour in (10, 11, 12)
    ]
    harness.send("sales", *sold[:2])
    harness.step()
    assert harness.take("invoices") == []
    for rate, since in ((19, "09:00"), (16, "10:30")):
        harness.send("rates", {"country": "de", "rate": rate, "since": f"2026-01-01T{since}:00Z"})
    harness.step()
    assert harness.take("invoices") == [{"id": 10, "rate": 19}]
    harness.advance("2 minutes")
    harness.send("sales", sold[2])
    harness.step()
    assert harness.take("invoices") == [{"id": 11, "rate": 16}]


def test_rows_meet_what_is_made_of_them(flow_harness: Callable[[Flow], FlowHarness]):
    flow = Flow("shares")
    sales = flow.table("sales", "id int, shop int, price int", key="id")
    shops = flow.table("shops", "shop int, city string", key="shop")
    placed = sales.join(shops, on="shop")
    totals = placed.group_by("city").agg(total="sum(price)")
    flow.topic("shares", placed.join(totals, on="city").select("id", "city", "price", "total"))
    harness = flow_harness(flow)
    harness.send("shops", {"shop": 1, "city": "Rome"}, {"shop": 2, "city": "Rome"})
    harness.send("sales", {"id": 1, "shop": 1, "price": 30}, {"id": 2, "shop": 2, "price": 70})
    harness.step()
    harness.kill()
    harness.restart()
    harness.send("shops", {"shop": 2, "city": "Oslo"})
    harness.step()
    shares = {each["id"]: (each["city"], each["total"]) for each in harness.rows("shares")}
    assert shares == {1: ("Rome", 30), 2: ("Oslo", 70)}


@on_one_cluster
@pytest.mark.parametrize("at_once", [1, 1000])
def test_a_table_is_loaded_before_the_first_event_and_batches_make_no_difference(
    spark: "SparkSession", cluster: Cluster, tmp_path: Path, fresh_name: str, at_once: int
):
    topics = Topics(cluster.bootstrap)
    source, table, result = (f"{fresh_name}-{each}" for each in ("in", "users", "out"))
    topics.write(source, *({"user": number % 3, "n": number} for number in range(4)))
    topics.write(table, *({"user": number, "name": f"user {number}"} for number in range(2)))
    flow = Flow(fresh_name, settings=topics.settings(tmp_path), spark=spark)
    events = flow.stream(source, "user int, n int", max_records_per_batch=at_once)
    users = flow.table(table, "user int, name string", key="user")
    looked_up = events.lookup(users)
    flow.topic(result, looked_up, key="n")
    flow.run(once=True)
    wanted = {0: "user 0", 1: "user 1", 2: None, 3: "user 0"}
    found: list[Any] = [value for _, value in topics.read(result)]
    assert {each["n"]: each["name"] for each in found} == wanted
    assert len(found) == len(wanted)
    rows = flow.batch().df(looked_up).collect()
    assert {row["n"]: row["name"] for row in rows} == wanted
