"""One Spark session for the whole run; each start costs seconds, and a process can have one."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headrace.errors import HeadraceError
from headrace.settings import StreamsSettings
from headrace.streams.java import find_java
from headrace.streams.session import spark_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Whichever test comes first also waits for the session, a minute on a machine that is busy.
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """The shared session, of two cores and small shuffles; to be left running and as it is."""
    pytest.importorskip("pyspark")
    try:
        find_java(os.environ)
    except HeadraceError as missing:
        pytest.skip(str(missing))
    session = spark_session(StreamsSettings(master="local[2]", partitions=2), name="tests")
    yield session
    stop_session()
