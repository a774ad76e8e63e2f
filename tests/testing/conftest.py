"""The harness runs on the Spark that all tests share."""

from typing import TYPE_CHECKING

import pytest

from tests.streams.conftest import pytest_collection_modifyitems, spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["pytest_collection_modifyitems", "spark"]


@pytest.fixture(scope="session")
def headrace_spark(spark: "SparkSession") -> "SparkSession":
    return spark
