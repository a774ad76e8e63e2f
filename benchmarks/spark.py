"""One Spark session for both sides of a comparison: Headrace's and Spark's own Kafka connector."""

import contextlib
from collections.abc import Iterator

from pyspark.sql import SparkSession

from headrace.settings import StreamsSettings
from headrace.streams.session import spark_session, stop_session

CONNECTOR = "Spark's Kafka connector"

_JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
"""Each by itself, since what the connector says it depends on is not all published."""


@contextlib.contextmanager
def session() -> Iterator[SparkSession]:
    """A session as flows have it, with the connector's jars; both stop when the block ends."""
    spark = spark_session(StreamsSettings(master="local[2]"), name="benchmark")
    try:
        for jar in _JARS:
            spark.sql(f"ADD JAR ivy://{jar}?transitive=false")
        yield spark
    finally:
        stop_session()
