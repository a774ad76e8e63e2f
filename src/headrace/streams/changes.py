"""The records of a table's topic as its changes, and the changes of a range as rows."""

from typing import TYPE_CHECKING

from headrace.streams.plan import DELETED, ReadTopics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OFFSET = "_offset"


def as_changes(rows: "DataFrame", node: ReadTopics) -> "DataFrame":
    """Rows with `_deleted`; of a record without a value the key alone is known.

    `rows` has the record's `_key` and `_offset` beside the schema's columns, which are all null if
    there is no value. A key of one column is its text, one of several is a JSON object of them.
    """
    from pyspark.sql.functions import coalesce, col

    missing = col(node.key[0]).isNull()
    for name in node.key[1:]:
        missing &= col(name).isNull()
    marked = rows.withColumn(DELETED, missing)
    known = {name: coalesce(col(name), _from_key(marked, node, name)) for name in node.key}
    return marked.withColumns(known).select(*node.schema_names, DELETED, _OFFSET)


def every_change(changes: "DataFrame") -> "DataFrame":
    """The changes in the columns that a table has."""
    return changes.drop(_OFFSET)


def last_changes(changes: "DataFrame", node: ReadTopics) -> "DataFrame":
    """The last change of each key; all records of a key are in one partition."""
    from pyspark.sql.functions import max_by, struct

    others = [name for name in changes.columns if name not in (*node.key, _OFFSET)]
    last = changes.groupBy(*node.key).agg(max_by(struct(*others), _OFFSET).alias("_last"))
    return last.select(*node.key, "_last.*").select(*node.schema_names, DELETED)


def _from_key(rows: "DataFrame", node: ReadTopics, name: str) -> "Column":
    from pyspark.sql.functions import col, from_json
    from pyspark.sql.types import StructType

    text = col("_key").cast("string")
    if len(node.key) == 1:
        return text.cast(rows.schema[name].dataType)
    fields = StructType([rows.schema[each] for each in node.key])
    return from_json(text, fields)[name]
