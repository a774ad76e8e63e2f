"""The columns that `include` adds to those of the format."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from headrace.streams.source.errors import InvalidOption

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


def included_fields(include: Iterable[str]) -> "list[StructField]":
    """The columns that `include` adds."""
    from headrace.streams.formats import schema_of

    columns = ", ".join(f"{PREFIX}{name} {_TYPES[name]}" for name in include)
    return schema_of(columns).fields if columns else []


def without_included(schema: "StructType", include: tuple[str, ...]) -> "StructType":
    """The format's part of a schema, whose last columns must be the included ones."""
    from pyspark.sql.types import StructType

    names = [PREFIX + name for name in include]
    own = schema.fields[: len(schema.fields) - len(names)]
    if schema.fieldNames()[len(own) :] != names:
        wanted = ", ".join(f"{PREFIX}{name} {_TYPES[name]}" for name in include)
        raise InvalidOption(
            f"With include = {','.join(include)} the schema has to end with these columns: "
            f"{wanted}. Give it as the option schema instead, and they are added to it."
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
