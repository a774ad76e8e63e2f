"""Rows as the records of a topic: the columns that the topic sink takes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.streams.compile import column, compile_node, explained
from headrace.streams.connectors import InOrder
from headrace.streams.outputs import DeadLetterOutput, Output, StoreOutput, TopicOutput
from headrace.streams.plan import DELETED, Expression, sources
from headrace.streams.stateful import operator_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from headrace.streams.connectors import Connector
    from headrace.streams.state.keyed import Keyed

_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Every column is there, null or not, and times keep their microseconds."""


def compile_output(
    output: Output, connector: "Connector", told: "Keyed | None" = None
) -> "DataFrame":
    """What an output's sink is given, with the connector's rows.

    `told` is the operator that the rows are made by, with what it has told in one batch.
    """
    match output:
        case TopicOutput():
            return as_records(compile_node(output.node, connector, told), output)
        case DeadLetterOutput():
            (read,) = sources(output.node)
            return connector.dead_letters(read)
        case StoreOutput() if output.key and operator_of(output.node) is None:
            # Two tasks that read one partition would write its keys in no order.
            return compile_node(output.node, InOrder(connector), told)
        case _:
            return compile_node(output.node, connector, told)


def as_records(rows: "DataFrame", output: TopicOutput) -> "DataFrame":
    """The columns `key`, `value`, `headers`, `timestamp` and `topic` of an output's records."""
    from pyspark.errors import AnalysisException

    try:
        return rows.select(*_record_columns(rows, output))
    except AnalysisException as error:
        title, about = output.label
        raise explained(error, f"{title} {about}") from None


def _record_columns(rows: "DataFrame", output: TopicOutput) -> "list[Column]":
    from pyspark.sql.functions import col, when

    value = _value(rows, output.value)
    if DELETED in rows.columns:
        value = when(~col(DELETED), value)
    columns = [value.alias("value")]
    if output.key:
        columns.append(_key(rows, output.key).alias("key"))
    if output.headers:
        columns.append(_headers(output).alias("headers"))
    if output.timestamp is not None:
        columns.append(column(output.timestamp).cast("timestamp").alias("timestamp"))
    if output.topic_of_row is not None:
        columns.append(column(output.topic_of_row).cast("string").alias("topic"))
    return columns


def _value(rows: "DataFrame", given: Expression | None) -> "Column":
    from pyspark.sql.functions import col, struct, to_json

    if given is not None:
        return _bytes(rows, column(given))
    shown = [col(f"`{name}`") for name in rows.columns if name != DELETED]
    return to_json(struct(*shown), _JSON).cast("binary")


def _key(rows: "DataFrame", keys: Sequence[Expression]) -> "Column":
    from pyspark.sql.functions import struct, to_json

    if len(keys) == 1:
        return _bytes(rows, column(keys[0]))
    return to_json(struct(*map(column, keys)), _JSON).cast("binary")


def _bytes(rows: "DataFrame", value: "Column") -> "Column":
    """Bytes as they are, structures as JSON, and everything else as its text."""
    from pyspark.sql.functions import to_json
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

    kind = rows.select(value).schema[0].dataType
    if isinstance(kind, BinaryType):
        return value
    if isinstance(kind, (StructType, ArrayType, MapType)):
        return to_json(value, _JSON).cast("binary")
    return value.cast("string").cast("binary")


def _headers(output: TopicOutput) -> "Column":
    from pyspark.sql.functions import array, lit, struct

    return array(
        *(
            struct(
                lit(name).alias("key"), column(each).cast("string").cast("binary").alias("value")
            )
            for name, each in output.headers.items()
        )
    )
