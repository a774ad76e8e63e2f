"""Where the rows of a `ReadTopics` come from: a running cluster, a bounded range of it, a script.

A connector is the only place where a flow meets the outside on its way in, so the same description
runs for ever, once over last month, or in a test over rows that are written down there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headrace.settings import KafkaSettings
from headrace.streams.changes import as_changes, every_change, last_changes
from headrace.streams.plan import ReadTopics

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
        rows = self._load(node, options_of(node, self.kafka))
        return every_change(as_changes(rows, node)) if node.key else rows

    def dead_letters(self, node: ReadTopics) -> "DataFrame":
        """A streaming DataFrame of what did not parse."""
        return self._load(node, {**options_of(node, self.kafka), "on_error": "only"})

    def _load(self, node: ReadTopics, options: dict[str, str]) -> "DataFrame":
        from headrace.streams.source import register

        register(self.spark)
        group = {} if self.group is None else {"group": self.group}
        reader = self.spark.readStream.format("headrace").options(**options, **group)
        return reader.load()


@dataclass(frozen=True, slots=True)
class BoundedKafka:
    """The records of a cluster's topics between two positions."""

    spark: "SparkSession"
    kafka: KafkaSettings
    start: str
    end: str

    def read(self, node: ReadTopics) -> "DataFrame":
        """The rows in the range; of a table, the last change of each key in it."""
        rows = self._load(node, options_of(node, self.kafka))
        return last_changes(as_changes(rows, node), node) if node.key else rows

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
    """The source's options for a read from a cluster."""
    named = {"pattern": node.pattern} if node.pattern else {"topics": ",".join(node.topics)}
    table = {"include": "key,offset", "tombstones": "null"} if node.key else {}
    schema = {} if node.schema is None else {"schema": ddl_of(node.schema)}
    return {
        "bootstrap": kafka.bootstrap,
        **named,
        **schema,
        "format": node.format,
        "start": node.start,
        **node.options,
        **table,
        **{f"kafka.{name}": value for name, value in kafka.properties.items()},
    }


def ddl_of(schema: "StructType") -> str:
    """A schema as the text that it could have been given as."""
    return ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in schema.fields)
