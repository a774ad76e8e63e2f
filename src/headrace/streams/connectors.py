"""Where the rows of a `ReadTopics` come from: a running cluster, a bounded range of it, a script.

A connector is the only place where a flow meets the outside on its way in, so the same description
runs for ever, once over last month, or in a test over rows that are written down there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from headrace.settings import KafkaSettings
from headrace.streams.changes import last_changes
from headrace.streams.plan import ReadTopics
from headrace.streams.skipping import counted, skips
from headrace.streams.time import Watermark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Connector(Protocol):
    """Makes rows of a read."""

    def read(self, node: ReadTopics) -> "DataFrame":
        """The rows, with the columns that the node promises."""
        ...

    def dead_letters(self, node: ReadTopics) -> "DataFrame":
        """The records that did not parse, as the records of a dead-letter topic."""
        ...


_given: ContextVar[Connector | None] = ContextVar("headrace_connector", default=None)


@contextmanager
def reading_through(connector: Connector) -> Iterator[None]:
    """Let `.df` read through this connector inside the block, as functions for `pipe` may do."""
    token = _given.set(connector)
    try:
        yield
    finally:
        _given.reset(token)


def given_connector() -> Connector | None:
    """The connector of the block that this runs in, if it is in one."""
    return _given.get()


@dataclass(frozen=True, slots=True)
class StreamingKafka:
    """All records of a cluster's topics, those to come included."""

    spark: "SparkSession"
    kafka: KafkaSettings
    group: str | None = None
    """The consumer group that progress is committed to, for tools that watch lag."""

    def read(self, node: ReadTopics) -> "DataFrame":
        """A streaming DataFrame of the rows; of a table, of its changes."""
        return self._counted(node, options_of(node, self.kafka))

    def dead_letters(self, node: ReadTopics) -> "DataFrame":
        """A streaming DataFrame of what did not parse."""
        return self._counted(node, {**options_of(node, self.kafka), "on_error": "only"})

    def _counted(self, node: ReadTopics, options: dict[str, str]) -> "DataFrame":
        if not skips(options) and node.telling is None:
            return self._load(node, options)
        return counted(self._load(node, {**options, "count_skipped": "true"}))

    def _load(self, node: ReadTopics, options: dict[str, str]) -> "DataFrame":
        from headrace.streams.source import register

        register(self.spark)
        group = {} if self.group is None else {"group": self.group}
        reader = self.spark.readStream.format("headrace").options(**options, **group)
        return reader.load()


@dataclass(frozen=True, slots=True)
class InOrder:
    """What another connector reads, each batch by one task, so that no key is in two places."""

    connector: Connector

    def read(self, node: ReadTopics) -> "DataFrame":
        """The rows, in the order of their partitions."""
        return self.connector.read(replace(node, options={**node.options, "parallelism": "1"}))

    def dead_letters(self, node: ReadTopics) -> "DataFrame":
        """What did not parse."""
        return self.connector.dead_letters(node)


@dataclass(frozen=True, slots=True)
class BoundedKafka:
    """The records of a cluster's topics between two positions."""

    spark: "SparkSession"
    kafka: KafkaSettings
    start: str
    end: str

    def read(self, node: ReadTopics) -> "DataFrame":
        """The rows in the range; of a table, the last change of each key in it."""
        options = options_of(node, self.kafka)
        if not node.key or node.history:
            return self._load(node, options)
        return last_changes(self._load(node, {**options, "include": "offset"}), node)

    def dead_letters(self, node: ReadTopics) -> "DataFrame":
        """What did not parse in the range."""
        return self._load(node, {**options_of(node, self.kafka), "on_error": "only"})

    def _load(self, node: ReadTopics, options: dict[str, str]) -> "DataFrame":
        from headrace.streams.source import register

        register(self.spark)
        bounds = {**options, "start": self.start, "end": self.end}
        reader = self.spark.read.format("headrace").options(**bounds)
        return reader.load()


def options_of(node: ReadTopics, kafka: KafkaSettings) -> dict[str, str]:
    """The source's options for a read from a cluster; may ask a registry for the schema."""
    named = {"pattern": node.pattern} if node.pattern else {"topics": ",".join(node.topics)}
    table = {"key": ",".join(node.key)} if node.key else {}
    schema = _schema_of(node)
    return {
        "bootstrap": kafka.bootstrap,
        **named,
        # As JSON, because DDL has no words for all that a schema can say.
        **({} if schema is None else {"schema": schema.json()}),
        "format": node.format,
        "start": node.start,
        **node.options,
        **table,
        **_time_options(node),
        **_history_options(node),
        **({"hold_first": "true"} if node.held else {}),
        **{f"kafka.{name}": value for name, value in kafka.properties.items()},
    }


def _history_options(node: ReadTopics) -> dict[str, str]:
    """The time of records, where the past of a table is asked for."""
    if not node.history:
        return {}
    return {"include": ",".join(dict.fromkeys((*node.included, "timestamp")))}


def _time_options(node: ReadTopics) -> dict[str, str]:
    telling = node.telling
    if telling is None:
        return {}
    told = {"time_from": telling.time_from, "time_tick_ms": telling.tick}
    if telling.time_from != "column":
        return {name: str(value) for name, value in told.items() if value is not None}
    rules = node.watermark or Watermark()
    given = {
        **told,
        "time": node.time,
        "time_by": rules.by,
        "time_until": rules.until,
        "time_max_ahead_ms": None if rules.ahead is None else max(rules.ahead // 1000, 1),
    }
    return {name: str(value) for name, value in given.items() if value is not None}


def _schema_of(node: ReadTopics) -> "StructType | None":
    """The schema that was given, else the registry's, else none."""
    from headrace.streams.formats import row_schema

    if node.schema is None and "registry" in node.options:
        return row_schema(node.format, None, node.options, node.topics)
    return node.schema
