"""Fixtures shared by the end-to-end tests: a cluster, and topics with names of their own.

A test that takes `cluster` runs once against Headrace and once against Apache Kafka; each is
started once per session. Where Apache Kafka cannot run, its half is skipped with the reason.
"""

import itertools
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode

from headrace.testing.apache_kafka import ApacheKafka
from tests.clients.wire import Wire
from tests.clusters import (
    APACHE_KAFKA,
    HEADRACE,
    Cluster,
    apache_kafka_cluster,
    headrace_cluster,
)
from tests.secure_kafka import SecureKafka, secure_kafka_cluster

_numbers = itertools.count(1)


class TopicFactory(Protocol):
    """Creates a topic with a fresh name and returns the name once clients can see it."""

    def __call__(self, partitions: int = 1, config: dict[str, str] | None = None) -> str: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--spark",
        default="local[2]",
        metavar="MASTER",
        help="the Spark that tests of flows run on; `standalone` starts a cluster for them",
    )
    parser.addoption(
        "--every-cluster",
        action="store_true",
        help="run on Apache Kafka also what other tests have shown there already",
    )
    parser.addoption(
        "--examples",
        type=int,
        default=1,
        help="how many random flows, or databases, to compare with what should come of them "
        "(tests/streams/time, tests/streams/joins, tests/capture)",
    )
    parser.addoption("--kills", type=int, help="how often to kill a flow (tests/streams)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "on_one_cluster: spared Apache Kafka but for --every-cluster"
    )
    config.addinivalue_line("markers", "partitions(count): how many the `topic` fixture has")
    # kafka-python's own affair: it reads its schemas with functions that Python deprecated.
    config.addinivalue_line(
        "filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning"
    )
    # Of every Spark that is started from here, in whatever process.
    os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out on Apache Kafka what other tests have shown there already, unless asked for."""
    if not config.getoption("--every-cluster"):
        config.hook.pytest_deselected(items=[each for each in items if _is_spared(each)])
        items[:] = [each for each in items if not _is_spared(each)]


def _is_spared(item: pytest.Item) -> bool:
    markers = ("on_one_cluster", "apache_kafka")
    return all(item.get_closest_marker(each) is not None for each in markers)


@pytest.fixture(
    scope="session",
    params=[HEADRACE, pytest.param(APACHE_KAFKA, marks=pytest.mark.apache_kafka)],
)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running cluster; shared by the session, so names of topics and groups must be fresh."""
    if request.param == HEADRACE:
        with headrace_cluster("--set", "compaction_check=200ms") as running:
            yield running
        return
    if reason := ApacheKafka.unavailable():
        pytest.skip(reason)
    with apache_kafka_cluster() as running:
        yield running


@pytest.fixture(scope="session")
def secure_kafka() -> Iterator[SecureKafka]:
    """Apache Kafka with TLS and passwords, shared by the session."""
    if reason := ApacheKafka.unavailable():
        pytest.skip(reason)
    with secure_kafka_cluster() as running:
        yield running


@pytest.fixture(scope="session")
def admin(cluster: Cluster) -> Iterator[AdminClient]:
    """A confluent-kafka admin client of the cluster."""
    with AdminClient({"bootstrap.servers": cluster.bootstrap}) as client:
        yield client


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, telling which test it belongs to."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).removeprefix("test-")
    return f"{words[:60].strip('-')}-{next(_numbers)}"


@pytest.fixture
def group(fresh_name: str) -> str:
    """The name of a consumer group that does not exist yet."""
    return f"group-{fresh_name}"


@pytest.fixture
def new_topic(cluster: Cluster, admin: AdminClient, fresh_name: str) -> TopicFactory:
    """Creates topics of the given shape."""

    def create(partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = f"{fresh_name}-{next(_numbers)}"
        created = admin.create_topics(
            [NewTopic(name, partitions, 1, config=config or {})], request_timeout=20
        )
        created[name].result(20)
        _await_topic(cluster, name, partitions)
        return name

    return create


@pytest.fixture
def topic(request: pytest.FixtureRequest, new_topic: TopicFactory) -> str:
    """A fresh topic with one partition, or as many as the test's `partitions` marker says."""
    marker = request.node.get_closest_marker("partitions")
    return new_topic(marker.args[0] if marker else 1)


def _await_topic(cluster: Cluster, name: str, partitions: int) -> None:
    """Wait until the broker serves the topic, which Kafka announces a little before it does."""
    ends = [{"partition_index": number, "timestamp": -1} for number in range(partitions)]
    wanted = [{"name": name, "partitions": ends}]
    deadline = time.monotonic() + 20
    with Wire(cluster) as wire:
        while True:
            (found,) = wire.ask("list_offsets", 1, replica_id=-1, topics=wanted).topics
            if all(partition.error_code is ErrorCode.none for partition in found.partitions):
                return
            assert time.monotonic() < deadline, f"{name} is not served: {found.partitions}"
            time.sleep(0.02)
