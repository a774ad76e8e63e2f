"""The columns that the source gives, and those that records must have to be rows."""

from typing import TYPE_CHECKING

from headrace.streams.formats import row_schema
from headrace.streams.formats.dead_letters import dead_letter_schema
from headrace.streams.formats.schemas import nullable
from headrace.streams.source.columns import PREFIX, added_fields, count_fields, without_added
from headrace.streams.source.errors import InvalidOption
from headrace.streams.source.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def source_schema(options: SourceOptions) -> "StructType":
    """The columns that Spark is told of."""
    from pyspark.sql.types import StructType

    if options.on_error == "only":
        return StructType([*dead_letter_schema(), *count_fields(options)])
    rows = row_schema(options.format, options.schema, options.format_options, options.topics)
    for name in options.key:
        if name not in rows.names:
            raise InvalidOption(f"key = {name} is no column; there are {', '.join(rows.names)}.")
    known = {*rows.names, *(f"{PREFIX}{each}" for each in options.include)}
    for column in (options.time, options.time_by, options.time_until):
        if column is not None and column not in known:
            raise InvalidOption(f"time = {column} is no column; there are {', '.join(rows.names)}.")
    if options.key or options.count_skipped or options.tells_time:
        # Of what is deleted or skipped, or tells of time, there is nothing to put into them.
        rows = nullable(rows)
    return StructType([*rows.fields, *added_fields(options)])


def judging_schema(options: SourceOptions, told: "StructType") -> "StructType":
    """The columns by which records are accepted or rejected; `told` are those that Spark has.

    Whoever reads only what is rejected judges as those who read the rest, or a record would be in
    both or in neither. And a value is judged as strictly as the schema says even if records
    without one become rows of nulls.
    """
    if options.on_error == "only" and told != source_schema(options):
        raise InvalidOption(
            'With on_error = "only" the columns are those of dead letters. Give the schema as the '
            "option schema, and none to Spark."
        )
    if options.schema is None and options.on_error != "only":
        return without_added(told, options)
    strict = {name: each for name, each in options.format_options.items() if name != "tombstones"}
    judged_by = options.format_options if options.schema is None else strict
    return row_schema(options.format, options.schema, judged_by, options.topics)
