"""One Spark for both sides of a comparison: Headrace's and Spark's own Kafka connector."""

import contextlib
from collections.abc import Iterator

from pyspark.sql import SparkSession

from headrace.settings import StreamsSettings
from headrace.streams.realtime.jars import ensure_connector
from headrace.streams.session import spark_session, stateful_session, stop_session

CONNECTOR = "Spark's Kafka connector"


@contextlib.contextmanager
def session() -> Iterator[SparkSession]:
    """A session as flows have it, with the connector's jars; both stop when the block ends."""
    spark = spark_session(StreamsSettings(master="local[2]"), name="benchmark")
    try:
        ensure_connector(spark)
        yield spark
    finally:
        stop_session()


def with_its_own_files(spark: SparkSession) -> SparkSession:
    """A session of the same Spark that writes checkpoints as Spark does when nobody tells it how.

    Headrace's sessions have chosen another way, from which queries by the connector gain as well.
    """
    own = stateful_session(spark)
    own.conf.unset("spark.sql.streaming.checkpointFileManagerClass")
    return own
