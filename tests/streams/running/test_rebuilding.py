"""A flow rebuilt beside itself: two versions, a switch, and the end of one."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.kafka import Cluster, create_topic, list_groups, list_topics, topic_config
from headrace.kafka.connection import connect
from headrace.settings import Settings
from headrace.streams import Flow
from headrace.streams.errors import InvalidName
from headrace.streams.running import CheckpointMismatch, FlowAlreadyRunning
from headrace.streams.running.errors import VersionRefused
from headrace.streams.running.places import LocalPlace
from headrace.streams.running.promoting import Promotion, drop, promote
from headrace.streams.running.registry import RegistryFile
from headrace.streams.running.standing import VersionStanding, standings
from headrace.streams.versions import Version
from headrace.testing.plugin import BrokerUnderTest
from tests.streams.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDER = "customer string, price double"


class Shop:
    """A flow in several versions of its code, and the tools around it."""

    def __init__(self, spark: "SparkSession", topics: Topics, directory: Path, name: str) -> None:
        self.spark, self.topics, self.name = spark, topics, name
        self.settings: Settings = topics.settings(directory)
        self.root = LocalPlace(directory)
        self.source, self.target = f"{name}-in", f"{name}-out"

    def flow(self, least: int) -> Flow:
        flow = Flow(self.name, settings=self.settings, spark=self.spark)
        orders = flow.stream(self.source, ORDER, dead_letters=f"{self.target}-bad")
        flow.topic(self.target, orders.where(f"price >= {least}"), key="customer")
        return flow

    def mailer(self) -> Flow:
        flow = Flow(f"{self.name}-mailer", settings=self.settings, spark=self.spark)
        flow.topic(f"{self.name}-mails", flow.stream(self.target, ORDER))
        return flow

    def order(self, *prices: int) -> None:
        self.topics.write(self.source, *({"customer": "ada", "price": each} for each in prices))

    def prices(self, topic: str) -> list[object]:
        return [value["price"] for _, value in self.topics.read(topic)]  # type: ignore[index]

    def promote(self, version: str, *, force: bool = False) -> Promotion:
        kafka = self.settings.kafka
        wanted = Version(self.name, version)
        return promote(self.root, wanted, connect(kafka), Cluster(kafka), force=force)

    def drop(self, version: str, *, topics: bool = False) -> list[str]:
        wanted = Version(self.name, version)
        return drop(self.root, wanted, Cluster(self.settings.kafka), topics=topics)

    def standings(self) -> dict[str, VersionStanding]:
        registry = RegistryFile(self.root).read()
        found = standings(registry, self.root, connect(self.settings.kafka))
        return {each.version.title: each for each in found}


@pytest.fixture
def shop(
    spark: "SparkSession", headrace_broker: BrokerUnderTest, tmp_path: Path, fresh_name: str
) -> Shop:
    return Shop(spark, Topics(headrace_broker.bootstrap), tmp_path, fresh_name)


def test_a_rebuild_begins_anew_beside_the_old_and_takes_its_place(shop: Shop):
    name, second = shop.name, f"{shop.target}.v2"
    shop.order(5, 15, 25)
    shop.topics.write(shop.source, {"price": "much"})
    shop.flow(10).run(once=True)
    report = shop.flow(20).run(once=True, rebuild="v2")
    assert [each.flow for each in report.queries] == [f"{name}@v2"] * 2
    assert (shop.prices(shop.target), shop.prices(second)) == ([15, 25], [25])
    assert len(shop.topics.read(f"{shop.target}-bad.v2")) == 1

    shop.flow(10).run(once=True)
    assert shop.standings()[name].current
    done = shop.promote("v2")
    assert done.topics[shop.target] == (shop.target, second)
    shop.order(100)
    shop.flow(20).run(once=True)
    assert (shop.prices(shop.target), shop.prices(second)) == ([15, 25], [25, 100])

    found = shop.standings()
    assert [(each.current, each.lag) for each in found.values()] == [(False, 1), (True, 0)]
    assert {each.topic for each in found[f"{name}@v2"].outputs} == {second, f"{shop.target}-bad.v2"}


def test_what_is_promoted_must_have_read_everything(shop: Shop):
    shop.order(1)
    shop.flow(0).run(once=True)
    with pytest.raises(VersionRefused, match=r"has no version v2; .* --rebuild as v2` makes one"):
        shop.promote("v2")
    shop.flow(0).run(once=True, rebuild="v2")
    shop.order(2, 3)
    with pytest.raises(VersionRefused, match=r"2 records behind .*--rebuild as v2 --once.*--force"):
        shop.promote("v2")
    with pytest.raises(VersionRefused, match=r"current version of .* already"):
        shop.promote("v1")
    shop.promote("v2", force=True)
    with pytest.raises(VersionRefused, match=r"v1 .* is 2 records behind"):
        shop.promote("v1")
    kafka = shop.settings.kafka
    with pytest.raises(VersionRefused, match="No flow nobody has run here"):
        promote(shop.root, Version("nobody", "v2"), connect(kafka), Cluster(kafka))


def test_a_running_version_is_promoted_while_records_keep_coming(shop: Shop):
    shop.order(1)
    with (
        shop.flow(0).start() as first,
        shop.flow(0).start(rebuild="v2") as second,
    ):
        with pytest.raises(FlowAlreadyRunning, match=f"{shop.name}@v2 is running already"):
            shop.flow(0).start(rebuild="v2")
        shop.order(*range(50))
        shop.promote("v2")
        assert all(each.running for each in shop.standings().values())
        with pytest.raises(FlowAlreadyRunning):
            shop.drop("v1")
    assert [first.progress[0].error, second.progress[0].error] == [None, None]
    assert len(shop.prices(shop.target)) == len(shop.prices(f"{shop.target}.v2")) == 51


def test_those_who_read_the_output_follow_by_rebuilding(shop: Shop):
    shop.order(5, 15)
    shop.flow(10).run(once=True)
    shop.mailer().run(once=True)
    shop.flow(0).run(once=True, rebuild="v2")
    assert shop.promote("v2").flows == (f"{shop.name}-mailer",)
    with pytest.raises(CheckpointMismatch, match=rf"reads {shop.target}\.v2 as json now.* means "):
        shop.mailer().run(once=True)
    shop.mailer().run(once=True, rebuild="v2")
    assert shop.prices(f"{shop.name}-mails.v2") == [5, 15]
    mailer = shop.mailer()
    read = mailer.stream(shop.target, ORDER)
    assert mailer.batch().df(read).count() == 2
    shop.promote("v1")
    shop.mailer().run(once=True)
    assert shop.prices(f"{shop.name}-mails") == [15]


def test_a_program_that_reads_the_old_topic_is_named(shop: Shop):
    from confluent_kafka import Consumer, TopicPartition

    shop.order(5)
    shop.flow(0).run(once=True)
    shop.flow(0).run(once=True, rebuild="v2")
    config = {"bootstrap.servers": shop.topics.bootstrap, "group.id": f"{shop.name}-billing"}
    with Consumer(config) as consumer:
        consumer.commit(offsets=[TopicPartition(shop.target, 0, 1)], asynchronous=False)
    assert shop.promote("v2").groups == (f"{shop.name}-billing",)


def test_a_version_s_topics_are_made_like_those_they_stand_beside(shop: Shop):
    cluster = Cluster(shop.settings.kafka)
    create_topic(cluster, shop.target, partitions=3, config={"retention.ms": "5000000"})
    shop.order(5)
    shop.flow(0).run(once=True, rebuild="v2")
    counts = {each.name: each.partitions for each in list_topics(cluster)}
    assert counts[f"{shop.target}.v2"] == 3
    config = {each.name: each.value for each in topic_config(cluster, f"{shop.target}.v2")}
    assert config["retention.ms"] == "5000000"


def test_a_version_does_not_write_into_a_topic_of_somebody_else(shop: Shop):
    shop.order(5)
    create_topic(Cluster(shop.settings.kafka), f"{shop.target}.v2")
    with pytest.raises(VersionRefused, match="exists already and is not of this version"):
        shop.flow(0).run(once=True, rebuild="v2")
    with pytest.raises(VersionRefused, match=r"v1 is what flow .* itself is called"):
        shop.flow(0).run(once=True, rebuild="v1")
    with pytest.raises(InvalidName):
        shop.flow(0).run(once=True, rebuild="a/b")
    assert RegistryFile(shop.root).read().flows == {}


def test_a_dropped_version_leaves_nothing(shop: Shop):
    shop.order(5)
    shop.flow(0).run(once=True)
    shop.flow(0).run(once=True, rebuild="v2")
    with pytest.raises(VersionRefused, match="v1 is the current version"):
        shop.drop("v1")
    gone = {f"{shop.target}.v2", f"{shop.target}-bad.v2"}
    assert set(shop.drop("v2", topics=True)) == gone
    cluster = Cluster(shop.settings.kafka)
    assert not gone & {each.name for each in list_topics(cluster)}
    assert not [each.name for each in list_groups(cluster) if f"{shop.name}@v2" in each.name]
    assert not (shop.root.path / f"{shop.name}@v2").exists()
    shop.flow(0).run(once=True, rebuild="v2")
    assert shop.prices(f"{shop.target}.v2") == [5]


def test_a_flow_that_reads_what_it_writes_reads_its_own_version(shop: Shop):
    def chained(least: int) -> Flow:
        flow = shop.flow(least)
        flow.topic(f"{shop.name}-copy", flow.stream(shop.target, ORDER))
        return flow

    cluster = Cluster(shop.settings.kafka)
    create_topic(cluster, shop.target)
    shop.order(5, 15)
    for _ in range(2):
        chained(10).run(once=True)
        chained(0).run(once=True, rebuild="v2")
    assert shop.prices(f"{shop.name}-copy") == [15]
    assert shop.prices(f"{shop.name}-copy.v2") == [5, 15]


def test_two_flows_that_write_one_topic_cannot_be_switched_apart(shop: Shop):
    shop.order(5)
    shop.flow(0).run(once=True)
    other = Flow(f"{shop.name}-other", settings=shop.settings, spark=shop.spark)
    other.topic(shop.target, other.stream(shop.source, ORDER))
    other.run(once=True)
    shop.flow(0).run(once=True, rebuild="v2")
    with pytest.raises(VersionRefused, match=rf"{shop.name}-other writes the topic {shop.target}"):
        shop.promote("v2")
