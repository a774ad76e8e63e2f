"""Joins of a flow: behind each other, on a real cluster, and over a bounded range."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.streams import Flow
from headrace.streams.errors import InvalidFlow
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


def test_an_operator_that_both_sides_are_made_by_is_refused(
    flow_harness: Callable[[Flow], FlowHarness],
):
    flow = Flow("twice")
    people = flow.table("people", "id int, boss int", key="id")
    cities = flow.table("cities", "boss int, city string", key="boss")
    placed = people.join(cities, on="boss")
    flow.topic("pairs", placed.join(placed, on="id", suffix="_2"))
    with pytest.raises(InvalidFlow, match="used twice in one output"):
        flow_harness(flow)


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
