"""Topics read and written by Spark's own connector, as rows that flows know."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.clock import SystemClock
from headrace.kafka import Isolation, Partition
from headrace.kafka.connection import connect
from headrace.kafka.errors import UnknownTopic
from headrace.kafka.raw_positions import by_topic
from headrace.settings import KafkaSettings
from headrace.streams.outputs import TopicOutput
from headrace.streams.plan import ReadTopics
from headrace.streams.realtime.jars import ensure_connector
from headrace.streams.realtime.properties import connector_properties
from headrace.streams.source.options import INCLUDABLE
from headrace.streams.source.starting import find_bound, parse_bound

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class RealtimeKafka:
    """All records of a cluster's topics, one by one."""

    spark: "SparkSession"
    kafka: KafkaSettings

    def read(self, node: ReadTopics) -> "DataFrame":
        """A streaming DataFrame of the rows; a record that does not parse fails the query."""
        ensure_connector(self.spark)
        records = self.spark.readStream.format("kafka").options(**self._options(node)).load()
        return _decoded(records, node)

    def dead_letters(self, node: ReadTopics) -> "DataFrame":
        """Never asked for: an output with dead letters is refused when it is described."""
        raise NotImplementedError

    def _options(self, node: ReadTopics) -> dict[str, str]:
        named = {"subscribePattern": node.pattern} if node.pattern else {}
        return {
            **connector_properties(self.kafka),
            **(named or {"subscribe": ",".join(node.topics)}),
            "startingOffsets": self._start(node),
            "includeHeaders": str("headers" in _included(node)).lower(),
            "failOnDataLoss": "true",
            "kafka.isolation.level": "read_committed",
        }

    def _start(self, node: ReadTopics) -> str:
        """The connector's word, or the offset of every partition; later runs do not ask."""
        if node.start in ("earliest", "latest"):
            return node.start
        bound = parse_bound(node.start, now_ms=SystemClock().now_ms())
        connection = connect(self.kafka)
        found = connection.topics(node.topics)
        for topic in node.topics:
            if topic not in found:
                raise UnknownTopic(topic)
        partitions = [Partition(each.name, no) for each in found.values() for no in each.leaders]
        offsets = find_bound(connection, partitions, bound, Isolation.READ_COMMITTED)
        return json.dumps(
            {
                topic: {str(number): offsets[Partition(topic, number)] for number in numbers}
                for topic, numbers in by_topic(offsets).items()
            }
        )


def written_by_connector(
    records: "DataFrame", output: TopicOutput, kafka: KafkaSettings
) -> "tuple[DataFrame, dict[str, str]]":
    """Records as the connector takes them, and the options that it writes them with."""
    options = connector_properties(kafka)
    if output.topic_of_row is None:
        return records, {**options, "topic": output.topic}
    from pyspark.sql.functions import coalesce, col, lit

    # With the option, the connector would not look at the column.
    return records.withColumn("topic", coalesce(col("topic"), lit(output.topic))), options


def _decoded(records: "DataFrame", node: ReadTopics) -> "DataFrame":
    from pyspark.sql.functions import col

    tombstones = node.options.get("tombstones", "reject")
    if tombstones == "skip":
        records = records.where("value is not null")
    included = [col(name).alias(f"_{name}") for name in _included(node)]
    if node.format == "raw":
        return records.select(*node.schema_names, *included)
    text = _text(required=tombstones == "reject")
    if node.format == "text":
        return records.select(text.alias("value"), *included)
    from pyspark.sql.functions import from_json

    assert node.rows is not None
    row = from_json(text, node.rows, {"mode": "FAILFAST"}).alias("_row")
    return records.select(row, *included).select(
        "_row.*", *(f"_{name}" for name in _included(node))
    )


def _text(*, required: bool) -> "Column":
    """The value as text; what is no text, and what is missing but required, fails the query."""
    from pyspark.sql.functions import coalesce, col, concat, lit, raise_error, validate_utf8

    text = validate_utf8(col("value").cast("string"))
    if not required:
        return text
    place = concat(col("topic"), lit("-"), col("partition"), lit(" offset "), col("offset"))
    missing = raise_error(concat(place, lit(' has no value; say tombstones="skip" or "null"')))
    return coalesce(text, missing.cast("string"))


def _included(node: ReadTopics) -> list[str]:
    asked = node.options.get("include", "").split(",")
    return [each for each in INCLUDABLE if each in asked]
