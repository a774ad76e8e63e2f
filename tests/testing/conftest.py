"""The harness runs on the Spark that all tests share."""

from typing import TYPE_CHECKING

import pytest

from tests.streams.conftest import (
    _standalone,
    pytest_collection_modifyitems,
    spark,
    spark_master,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["_standalone", "pytest_collection_modifyitems", "spark", "spark_master"]


@pytest.fixture(scope="session")
def headrace_spark(spark: "SparkSession") -> "SparkSession":
    return spark
