"""The columns that options add to those of the format."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from headrace.streams.plan import CONTROL, DELETED, PROCESSED, TIME_SOURCE
from headrace.streams.source.errors import InvalidOption
from headrace.streams.source.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructField, StructType

    from headrace.kafka import Partition

PREFIX: Final = "_"
"""In front of the name of an included column, so that it is not one of the record's own."""

_TYPES: Final = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "key": "binary",
    "headers": "array<struct<key: string, value: binary>>",
}


COUNTS: Final = ("_rejected", "_lost", "_implausible")
"""How many records were skipped, or had a time that is too far ahead to count: null in rows, and
a number in a row that counts and is none."""


def added_fields(options: SourceOptions) -> "list[StructField]":
    """The columns behind those of the format: whether a key is gone, what is included, counts."""
    from headrace.streams.formats import schema_of

    columns = [f"{DELETED} boolean"] if options.key else []
    columns += [f"{PREFIX}{name} {_TYPES[name]}" for name in options.include]
    fields = schema_of(", ".join(columns)).fields if columns else []
    return [*fields, *count_fields(options), *control_fields(options)]


def count_fields(options: SourceOptions) -> "list[StructField]":
    """The columns of counts, if they are asked for."""
    from pyspark.sql.types import LongType, StructField

    return [StructField(name, LongType()) for name in COUNTS] if options.count_skipped else []


def control_fields(options: SourceOptions) -> "list[StructField]":
    """What rows have to have for those who look at time, and the column of control rows."""
    from pyspark.sql.types import BinaryType, StringType, StructField, TimestampType

    if not options.tells_time:
        return []
    beside = {
        "clock": [StructField(PROCESSED, TimestampType())],
        "rows": [StructField(TIME_SOURCE, StringType())],
    }
    return [*beside.get(options.time_from, ()), StructField(CONTROL, BinaryType())]


def without_added(schema: "StructType", options: SourceOptions) -> "StructType":
    """The format's part of a schema, whose last columns must be the added ones."""
    from pyspark.sql.types import StructType

    added = added_fields(options)
    own = schema.fields[: len(schema.fields) - len(added)]
    if schema.fieldNames()[len(own) :] != [each.name for each in added]:
        wanted = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in added)
        raise InvalidOption(
            f"With these options the schema has to end with these columns: {wanted}. Give it as "
            "the option schema instead, and they are added to it."
        )
    return StructType(own)


def included_arrays(
    records: "pa.RecordBatch", partition: "Partition", include: Iterable[str]
) -> "list[pa.Array]":
    """The included columns of some records of one partition."""
    import pyarrow as pa

    def array(name: str) -> pa.Array:
        if name == "topic":
            return pa.repeat(pa.scalar(partition.topic), records.num_rows)
        if name == "partition":
            return pa.repeat(pa.scalar(partition.number, pa.int32()), records.num_rows)
        return records.column(name)

    return [array(name) for name in include]
