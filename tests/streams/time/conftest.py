"""Golden cases run on the Spark that all tests share."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def headrace_spark(spark: "SparkSession") -> "SparkSession":
    return spark
