"""Topics as Spark DataFrames, without a jar: a PySpark data source called "headrace".

On the driver: `options` checks what was asked for, `planner` decides what each batch reads
(`starting` finds where to begin, `admission` limits it, `splits` cuts it into tasks), `offsets` is
what Spark's checkpoint remembers of it, and `progress` tells a consumer group. In the tasks:
`reading` fetches, decodes and gives Spark Arrow. `datasource` is all of that as Spark calls it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.streams.source.errors import (
    InvalidOffsets,
    InvalidOption,
    PartitionShrunk,
    SourceError,
    TopicGone,
    TopicReplaced,
    UnreadableRecords,
)
from headrace.streams.source.options import SourceOptions, parse_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "InvalidOffsets",
    "InvalidOption",
    "PartitionShrunk",
    "SourceError",
    "SourceOptions",
    "TopicGone",
    "TopicReplaced",
    "UnreadableRecords",
    "check_source",
    "parse_options",
    "register",
]


def register(spark: "SparkSession") -> None:
    """Make `format("headrace")` known to a session; doing it again changes nothing."""
    from headrace.streams.source.datasource import HeadraceDataSource

    # Whether the name is taken is looked up in the thread's active session, whichever registers.
    java: Any = spark.sparkContext._jvm
    sessions = java.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        spark.dataSource.register(HeadraceDataSource)
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())


def check_source(options: Mapping[str, str]) -> SourceOptions:
    """Check options and whether what they name is there, before Spark does.

    Spark would find out too, but tells it inside of forty lines of its own. Raises `InvalidOption`,
    `ClusterUnreachable` within seconds, or `UnknownTopic`.
    """
    from headrace.streams.source.planner import Planner

    parsed = parse_options(options)
    Planner(parsed).check()
    return parsed
