"""One Spark session for the whole run; each start costs seconds, and a process can have one."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headrace.errors import HeadraceError
from headrace.settings import StreamsSettings
from headrace.streams.java import find_java
from headrace.streams.session import spark_session, stop_session
from tests.streams.cluster.standalone import StandaloneSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Whichever test comes first also waits for the session, a minute on a machine that is busy.
    for item in items:
        waits = "spark" in getattr(item, "fixturenames", ())
        if waits and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def _standalone(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StandaloneSpark | None]:
    """The cluster that is started for the tests, if `--spark` says so."""
    pytest.importorskip("pyspark")
    try:
        find_java(os.environ)
    except HeadraceError as missing:
        pytest.skip(str(missing))
    if pytestconfig.getoption("--spark") != "standalone":
        yield None
        return
    with StandaloneSpark(tmp_path_factory.mktemp("spark-cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def standalone(_standalone: StandaloneSpark | None) -> StandaloneSpark:
    """A Spark cluster whose parts may be killed; there is none unless `--spark standalone`."""
    if _standalone is None:
        pytest.skip("there is no cluster to hurt; --spark standalone starts one")
    return _standalone


@pytest.fixture(scope="session")
def spark_master(pytestconfig: pytest.Config, _standalone: StandaloneSpark | None) -> str:
    """The Spark to run on: inside a process, or a cluster that somebody else or we started."""
    chosen: str = pytestconfig.getoption("--spark")
    return chosen if _standalone is None else _standalone.master


@pytest.fixture(scope="session")
def spark(spark_master: str) -> Iterator["SparkSession"]:
    """The shared session, of two cores and small shuffles; to be left running and as it is."""
    # Of a cluster not everything, so that a test can start another application beside this one.
    settings = StreamsSettings(
        master=spark_master, partitions=2, properties={"spark.cores.max": "2"}
    )
    session = spark_session(settings, name="tests")
    yield session
    stop_session()


@pytest.fixture(scope="session")
def headrace_spark(spark: "SparkSession") -> "SparkSession":
    """Harnesses and golden cases run on the Spark that all tests share."""
    return spark
