"""Views of flows: declared, filled exactly once, and read when they reflect what was written."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Message, Producer

from headrace.kafka import Cluster as Kafka
from headrace.kafka.connection import connect
from headrace.settings import ServeSettings, Settings
from headrace.streams import Flow, InvalidFlow
from headrace.streams.running.places import root_of
from headrace.streams.running.promoting import promote
from headrace.streams.versions import Version
from headrace.views import ReadFailed, Views, ViewServer, position_of
from headrace.views.migrating import await_built
from headrace.views.registry import read_registry
from tests.clusters import Cluster
from tests.streams.topics import Topics
from tests.views.serving.feeds import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.conftest import TopicFactory


@pytest.fixture
def name(fresh_name: str) -> str:
    return fresh_name.replace("-", "_")[-40:]


@pytest.fixture
def settings(cluster: Cluster, tmp_path: Path) -> Settings:
    found = Topics(cluster.bootstrap).settings(tmp_path / "checkpoints")
    serve = ServeSettings(address="127.0.0.1:0", directory=str(tmp_path / "views"))
    return Settings(kafka=found.kafka, streams=found.streams, serve=serve)


def written(cluster: Cluster, topic: str, *orders: str) -> str:
    """Write orders as "customer price" under their customers; the position of the last of them."""
    told: list[Message] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for order in orders:
        customer, price = order.split()
        value = f'{{"customer": "{customer}", "price": {price}}}'
        producer.produce(topic, value, customer, on_delivery=lambda _, each: told.append(each))
    producer.flush(20)
    return position_of(*told)


def test_a_view_reflects_what_was_written_before(
    spark: "SparkSession",
    cluster: Cluster,
    new_topic: "TopicFactory",
    settings: Settings,
    name: str,
):
    source = new_topic(2)
    flow = Flow(name, settings=settings, spark=spark)
    orders = flow.stream(source, "customer string, price double").table(key="customer")
    flow.view(name, orders.where("price >= 10"))
    assert f"view {name}" in str(flow)
    after = written(cluster, source, "ada 12", "bob 3", "eve 20")
    flow.run(once=True)
    with ViewServer(settings) as server:
        views = Views(server.url)
        assert await_built(views, name) is not None
        assert views.get(name, "ada", after=after) == {"customer": "ada", "price": 12.0}
        page = views.rows(name, order="price desc")
        assert [each["customer"] for each in page.rows] == ["eve", "ada"]
        assert set(after.split(",")) <= set(page.position.split(","))
        later = written(cluster, source, "ada 1", "bob 30")
        with pytest.raises(ReadFailed, match="does not reflect"):
            views.get(name, "ada", after=later, timeout="100ms")
        flow.run(once=True)
        assert views.get(name, "ada", after=later) is None
        assert views.get(name, "bob", after=later) == {"customer": "bob", "price": 30.0}
        with pytest.raises(ReadFailed, match="is not made of elsewhere"):
            views.count(name, after="elsewhere:0:3")


def test_a_version_of_a_flow_brings_its_views_along(
    spark: "SparkSession",
    cluster: Cluster,
    new_topic: "TopicFactory",
    settings: Settings,
    name: str,
):
    source = new_topic(1)
    after = written(cluster, source, "ada 12", "bob 3")

    def shop(least: int) -> Flow:
        flow = Flow(name, settings=settings, spark=spark)
        orders = flow.stream(source, "customer string, price double").table(key="customer")
        flow.view(name, orders.where(f"price >= {least}"))
        return flow

    shop(10).run(once=True)
    shop(1).run(once=True, rebuild="v2")
    kafka = Kafka(settings.kafka)
    assert read_registry(kafka).declared[f"{name}.v2"].of == name
    with ViewServer(settings) as server:
        views = Views(server.url)
        await_built(views, f"{name}.v2")
        assert views.count(name, after=after) == 1
        assert views.count(f"{name}.v2", after=after) == 2
        found = views.diff(name, f"{name}.v2")
        assert (found["same"], found["only_in_other"]) == (1, 1)
        followed = views.follow(name)
        assert len(until(followed, "up-to-date")[0].data["rows"]) == 1
        root = root_of(settings.streams, lambda: spark)
        promote(root, Version(name, "v2"), connect(settings.kafka), kafka)
        *_, snapshot = until(followed, "snapshot")
        assert len(snapshot.data["rows"]) == 2
        assert views.count(name, after=after) == 2


def test_a_view_needs_a_table_with_a_key(settings: Settings):
    flow = Flow("shop", settings=settings)
    with pytest.raises(InvalidFlow, match="needs a table with a key"):
        flow.view("orders", flow.stream("orders", "customer string"))
