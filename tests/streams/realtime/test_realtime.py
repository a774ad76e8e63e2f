"""Flows in real time, against real clusters: at least once, in milliseconds."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.streams import Flow, InvalidFlow
from headrace.streams.errors import SparkFailed
from headrace.streams.realtime import jars
from headrace.streams.running import CheckpointMismatch, QueryGivenUp, QueryState
from headrace.streams.running.checkpoints import committed_in
from headrace.streams.running.places import LocalPlace
from tests.clusters import Cluster, on_one_cluster
from tests.streams.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.conftest import TopicFactory

ORDER = "customer string, price double"


@pytest.fixture
def connected(spark: "SparkSession") -> "SparkSession":
    """The session with the connector, which is fetched if it is not there."""
    try:
        jars.ensure_connector(spark)
    except SparkFailed as missing:
        pytest.skip(str(missing))
    return spark


def wait_until(condition: Callable[[], bool], seconds: float = 120) -> None:
    tick = threading.Event()
    for _ in range(int(seconds / 0.1)):
        if condition():
            return
        tick.wait(0.1)
    raise AssertionError("it did not happen in time")


@pytest.fixture
def topics(cluster: Cluster) -> Topics:
    return Topics(cluster.bootstrap)


def large_orders(flow: Flow, source: str, target: str) -> None:
    orders = flow.stream(source, ORDER, include=["offset"]).where("price >= 10")
    flow.topic(target, orders, key="customer", headers={"at": "_offset"}, trigger="realtime")


def test_a_flow_in_real_time_follows_its_topic_stops_and_goes_on(
    connected: "SparkSession",
    topics: Topics,
    new_topic: "TopicFactory",
    tmp_path: Path,
    fresh_name: str,
):
    source, target = new_topic(), new_topic()
    topics.write(source, {"customer": "ada", "price": 12.5}, {"customer": "bob", "price": 3})
    flow = Flow(fresh_name, settings=topics.settings(tmp_path), spark=connected)
    large_orders(flow, source, target)
    with flow.start() as run:
        topics.await_records(target, 1)
        topics.write(source, {"customer": "eve", "price": 99})
        topics.await_records(target, 2)
        wait_until(lambda: run.progress[0].read >= 3)
        assert run.progress[0].written >= 2
    assert run.progress[0].state is QueryState.STOPPED
    found = topics.read(target)
    assert ("eve", {"customer": "eve", "price": 99.0, "_offset": 2}) in found
    assert {key for key, _ in found} == {"ada", "eve"}

    position = committed_in(LocalPlace(tmp_path / fresh_name / target))
    assert position is not None
    assert list(position.values()) == [3]
    topics.write(source, {"customer": "max", "price": 50})
    report = flow.run(once=True)
    assert (report.queries[0].state, report.written) == (QueryState.FINISHED, 1)
    assert len(topics.read(target)) == len(found) + 1


@pytest.mark.parametrize("bad", [b"?", None, b'{"price": "much"}', b'{"customer": "\xff"}'])
@on_one_cluster
def test_a_record_that_does_not_parse_fails_the_query(
    connected: "SparkSession",
    topics: Topics,
    new_topic: "TopicFactory",
    tmp_path: Path,
    fresh_name: str,
    bad: bytes | None,
):
    source, target = new_topic(), new_topic()
    topics.write(source, bad)
    flow = Flow(fresh_name, settings=topics.settings(tmp_path), spark=connected)
    large_orders(flow, source, target)
    with pytest.raises(QueryGivenUp, match="is given up after 2 tries"):
        flow.run(once=True)
    assert topics.read(target) == []


@on_one_cluster
def test_raw_records_start_where_they_are_told_and_go_where_each_says(
    connected: "SparkSession",
    topics: Topics,
    new_topic: "TopicFactory",
    tmp_path: Path,
    fresh_name: str,
):
    source, target, other = new_topic(), new_topic(), new_topic()
    topics.write(source, *({"n": each} for each in range(4)))
    flow = Flow(fresh_name, settings=topics.settings(tmp_path), spark=connected)
    rows = flow.stream(source, format="raw", start={source: {0: 2}}, include=["offset"])
    elsewhere = f"if(_offset = 3, '{other}', null)"
    flow.topic(target, rows, value="value", topic=elsewhere, trigger="realtime")
    flow.run(once=True)
    assert [value for _, value in topics.read(target)] == [{"n": 2}]
    assert [value for _, value in topics.read(other)] == [{"n": 3}]


@on_one_cluster
def test_a_batch_is_not_continued_in_real_time(
    connected: "SparkSession",
    topics: Topics,
    new_topic: "TopicFactory",
    tmp_path: Path,
    fresh_name: str,
):
    source, target = new_topic(), new_topic()
    topics.write(source, {"customer": "ada", "price": 12})
    settings = topics.settings(tmp_path)
    batches = Flow(fresh_name, settings=settings, spark=connected)
    batches.topic(target, batches.stream(source, ORDER))
    batches.run(once=True)
    lane = Flow(fresh_name, settings=settings, spark=connected)
    lane.topic(target, lane.stream(source, ORDER), trigger="realtime")
    with pytest.raises(CheckpointMismatch, match=r"in real time now, .*--rebuild as NAME"):
        lane.run(once=True)
    lane.run(once=True, rebuild="lane")
    assert len(topics.read(f"{target}.lane")) == 1


@on_one_cluster
def test_what_a_pipe_brings_in_is_refused_before_it_runs(
    connected: "SparkSession", topics: Topics, new_topic: "TopicFactory", tmp_path: Path
):
    from pyspark.sql.functions import udf

    upper = udf(lambda text: text.upper(), "string")
    source = new_topic()

    def refused(function: object) -> str:
        flow = Flow("lane", settings=topics.settings(tmp_path), spark=connected)
        rows = flow.stream(source, ORDER).pipe(function)  # type: ignore[arg-type]
        flow.topic("out", rows, trigger="realtime")
        with pytest.raises(InvalidFlow) as raised:
            flow.run(once=True)
        return str(raised.value)

    assert "it keeps state (Aggregate" in refused(lambda df: df.groupBy("customer").count())
    assert "it runs Python (the function" in refused(lambda df: df.select(upper("customer")))
    mapped = refused(lambda df: df.mapInArrow(lambda batches: batches, df.schema))
    assert "it runs Python (MapInArrow)" in mapped


def test_jars_that_cannot_be_fetched_are_named_with_a_way_out(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(jars, "PACKAGES", ("org.example:nowhere:1.0",))
    monkeypatch.setattr(jars, "_is_known", lambda spark: False)
    with pytest.raises(SparkFailed) as raised:
        jars.ensure_connector(spark, tmp_path)
    message = str(raised.value)
    assert "org.example:nowhere:1.0 could not be fetched" in message
    assert f"put the jars into {tmp_path / 'jars'}, as org.example_nowhere-1.0.jar" in message
