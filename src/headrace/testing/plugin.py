"""The pytest plugin: a broker for the session and a topic for the test; Spark, and flows on it.

pytest loads this module in every run of a project that has Headrace installed, so it imports
nothing until a fixture is asked for.
"""

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from confluent_kafka.admin import AdminClient
    from pyspark.sql import SparkSession

    from headrace.streams.flow import Flow
    from headrace.testing.golden import GoldenCase
    from headrace.testing.harness.flow_harness import FlowHarness

_BOOTSTRAP = "headrace_bootstrap"
_ADMIN_TIMEOUT_SECONDS = 30.0
_REACH_SECONDS = 5.0
_LONGEST_LABEL = 80
"""Kafka allows 249 characters in the name of a topic; people read about this many."""


class BrokerUnderTest(Protocol):
    """What `headrace_broker` gives: something Kafka clients can connect to."""

    @property
    def bootstrap(self) -> str:
        """Address for `bootstrap.servers`, as `host:port`."""
        ...


@dataclass(frozen=True, slots=True)
class ExistingCluster:
    """A cluster that was there before the tests and stays after them."""

    bootstrap: str


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer `--headrace-bootstrap`, and the same as a setting in the project's pytest options."""
    about = "run the tests against this cluster (host:port) and start no broker"
    group = parser.getgroup("headrace", "Headrace: a Kafka-protocol broker for tests")
    group.addoption("--headrace-bootstrap", dest=_BOOTSTRAP, metavar="ADDRESS", help=about)
    parser.addini(_BOOTSTRAP, help=about, default="")
    group.addoption(
        "--update-golden",
        action="store_true",
        help="write what flows do into the golden files, in the place of what they should do",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, for projects with strict markers."""
    config.addinivalue_line(
        "markers", "headrace_topic(partitions=1, config=None): the shape of `headrace_topic`"
    )


@pytest.fixture(scope="session")
def headrace_settings() -> dict[str, Any]:
    """Settings of the session's broker; override this fixture to choose others.

    A test's data need not survive a power cut, so nothing waits for the disk.
    """
    return {"flush": "os"}


@pytest.fixture(scope="session")
def headrace_broker(
    pytestconfig: pytest.Config, headrace_settings: dict[str, Any]
) -> Iterator[BrokerUnderTest]:
    """A running broker, shared by the session; each pytest-xdist worker has one of its own."""
    existing = pytestconfig.getoption(_BOOTSTRAP) or pytestconfig.getini(_BOOTSTRAP)
    if existing:
        yield ExistingCluster(existing)
        return
    from headrace import Broker

    with Broker(**headrace_settings) as broker:
        yield broker


@pytest.fixture
def headrace_topic(request: pytest.FixtureRequest, _headrace_admin: "AdminClient") -> Iterator[str]:
    """The name of a new, empty topic that no other test uses; it is deleted after the test.

    One partition, unless the test says `@pytest.mark.headrace_topic(partitions=3)`; `config` there
    is a dict of Kafka's topic settings.
    """
    from confluent_kafka.admin import NewTopic

    name = _fresh_name(request.node.name)
    marker = request.node.get_closest_marker("headrace_topic")
    shape = _shape(**marker.kwargs) if marker else _shape()
    created = _headrace_admin.create_topics([NewTopic(name, **shape)])
    created[name].result(_ADMIN_TIMEOUT_SECONDS)
    yield name
    _headrace_admin.delete_topics([name])[name].result(_ADMIN_TIMEOUT_SECONDS)


@pytest.fixture(scope="session")
def headrace_spark() -> "Iterator[SparkSession]":
    """A SparkSession for flows, shared by the session; one that is running already is used.

    Two cores and small shuffles, since what tests have is small. Override this fixture to have
    another.
    """
    from headrace.settings import StreamsSettings
    from headrace.streams.session import spark_session, stop_session

    yield spark_session(StreamsSettings(master="local[2]", partitions=2), name="tests")
    stop_session()


@pytest.fixture
def flow_harness(headrace_spark: "SparkSession") -> "Iterator[Callable[..., FlowHarness]]":
    """Opens a `FlowHarness` for a flow, `flow_harness(flow)`, and closes it after the test."""
    from headrace.testing.harness.flow_harness import FlowHarness

    with ExitStack() as opened:

        def open_harness(flow: "Flow", **options: Any) -> FlowHarness:
            return opened.enter_context(FlowHarness(flow, spark=headrace_spark, **options))

        yield open_harness


@pytest.fixture
def check_golden(
    headrace_spark: "SparkSession", pytestconfig: pytest.Config
) -> "Callable[[Path | str | GoldenCase, Callable[..., Flow]], None]":
    """Checks a golden file, or one case of it, against a flow: `check_golden(path, make_flow)`.

    With `--update-golden` the file is made to say what the flow does.
    """
    from headrace.testing.golden import check_golden as check

    update = bool(pytestconfig.getoption("--update-golden"))
    return partial(check, spark=headrace_spark, update=update)


@pytest.fixture(scope="session")
def _headrace_admin(headrace_broker: BrokerUnderTest) -> "AdminClient":
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": headrace_broker.bootstrap})
    try:
        admin.list_topics(timeout=_REACH_SECONDS)
    except KafkaException as error:
        pytest.exit(
            f"no Kafka cluster answers at {headrace_broker.bootstrap} within {_REACH_SECONDS:g} s "
            f"({error.args[0].str()}); start it, or leave out --headrace-bootstrap",
            returncode=pytest.ExitCode.USAGE_ERROR,
        )
    return admin


def _fresh_name(test: str) -> str:
    """A topic name that tells the test and differs between runs, workers and machines.

    >>> _fresh_name("test_orders[eu/west]").rpartition("-")[0]
    'orders-eu-west'
    """
    label = re.sub(r"[^A-Za-z0-9]+", "-", test.removeprefix("test_")).strip("-")
    return f"{label[:_LONGEST_LABEL]}-{uuid.uuid4().hex[:8]}"


def _shape(*, partitions: int = 1, config: dict[str, str] | None = None) -> dict[str, Any]:
    return {"num_partitions": partitions, "replication_factor": 1, "config": config or {}}
