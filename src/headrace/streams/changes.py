"""The changes of a table in a range as its rows at the end of it."""

from typing import TYPE_CHECKING

from headrace.streams.plan import ReadTopics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OFFSET = "_offset"


def last_changes(changes: "DataFrame", node: ReadTopics) -> "DataFrame":
    """The last change of each key; all records of a key are in one partition.

    `changes` has the columns of the table, `_deleted`, and the `_offset` of each record.
    """
    from pyspark.sql.functions import col, max_by, struct

    def quoted(names: "list[str]") -> "list[str]":
        return ["`{}`".format(name.replace("`", "``")) for name in names]

    kept = quoted([name for name in changes.columns if name != _OFFSET])
    key = quoted(list(node.key))
    others = [name for name in kept if name not in key]
    last = changes.groupBy(*key).agg(max_by(struct(*others), _OFFSET).alias("_last"))
    return last.select(*key, col("_last.*")).select(*kept)
