"""Looking into the state of a checkpoint, with Spark's own reader of state stores.

    for operator in operators(spark, checkpoint):
        print(operator.name, operator.tables)
    state_rows(spark, checkpoint, "counts").where("n > 10").show()

What is read is the state after the last batch that is done, whether the query runs or not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.streams.names import did_you_mean
from headrace.streams.state.blobs import schema_from_text, to_arrow
from headrace.streams.state.bucket import caught_up
from headrace.streams.state.errors import StateError
from headrace.streams.state.operator import Kept
from headrace.streams.state.record import Record, Shape
from headrace.streams.state.spilling import Room
from headrace.streams.state.storage import MemoryStorage
from headrace.streams.state.table import StateTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NO_CHUNK = -1
"""In the place of a chunk's number: the record."""


@dataclass(frozen=True, slots=True)
class TableState:
    """One table of an operator, over all buckets."""

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    rows: int
    bytes: int
    """As stored, with what no longer holds and has not been merged away yet."""


@dataclass(frozen=True, slots=True)
class OperatorState:
    """What an operator keeps."""

    number: int
    """By which Spark tells the stateful steps of a query apart."""

    name: str
    version: int
    buckets: int
    """Those that have been written."""

    watermark: int | None
    """Of the bucket that is the furthest behind."""

    tables: tuple[TableState, ...]
    memory: str = ""
    """What that bucket remembers of time; `headrace.streams.time.standing` reads it."""


def operators(spark: "SparkSession", checkpoint: str) -> list[OperatorState]:
    """The operators whose state a checkpoint of Spark holds; others are left out."""
    metadata = spark.read.format("state-metadata").load(checkpoint)
    steps = metadata.where("operatorName like 'transformWithState%'").select("operatorId")
    numbers = sorted(row.operatorId for row in steps.distinct().collect())
    found = [_described(number, _records(spark, checkpoint, number)) for number in numbers]
    return [each for each in found if each is not None]


def state_rows(
    spark: "SparkSession", checkpoint: str, table: str, *, operator: int = 0
) -> "DataFrame":
    """The rows of a table, decoded by Spark's tasks, one bucket at a time.

    Raises StateError if the operator has no such table.
    """
    from pyspark.sql.functions import col, lit
    from pyspark.sql.pandas.types import from_arrow_schema

    records = _records(spark, checkpoint, operator)
    tables = _latest(records).tables if records else {}
    if table not in tables:
        raise StateError(
            f"{checkpoint} has no table {table} in operator {operator}; "
            f"{did_you_mean(table, tables)}"
        )
    schema = schema_from_text(tables[table]["schema"])
    bucket = col("key.bucket").alias("bucket")
    stored = _variable(spark, checkpoint, operator, "record").select(
        bucket, lit(_NO_CHUNK).cast("long").alias("number"), col("value.record").alias("rows")
    )
    chunks = _variable(spark, checkpoint, operator, "chunks").select(
        bucket, col("user_map_key.number").alias("number"), col("user_map_value.rows").alias("rows")
    )
    grouped = stored.unionByName(chunks).groupBy("bucket")
    return grouped.applyInArrow(_decoding(table, tables[table]), from_arrow_schema(schema))


def _decoding(name: str, shape: Mapping[str, Any]) -> "Callable[[Any], Any]":
    def decode(blobs: Any) -> Any:
        stored = dict(
            zip(blobs.column("number").to_pylist(), blobs.column("rows").to_pylist(), strict=True)
        )
        record = Record.from_bytes(stored.pop(_NO_CHUNK))
        return _decoded(record, MemoryStorage(chunks=stored), name, shape)

    return decode


def _decoded(record: Record, storage: MemoryStorage, name: str, shape: Mapping[str, Any]) -> Any:
    """The rows of a bucket, with the columns that the table has in the latest one."""
    schema = schema_from_text(shape["schema"])
    kept = Kept(schema, tuple(shape["key"]), tuple(shape["row"]))
    everything = sum(map(len, storage.chunks.values())) * 4
    runs = caught_up(kept, record.runs.get(name, ()), {}, storage, Room(everything))
    return to_arrow(StateTable(kept, runs.values()).rows(), schema)


def _records(spark: "SparkSession", checkpoint: str, number: int) -> list[Record]:
    rows = _variable(spark, checkpoint, number, "record").select("value.record").collect()
    return [Record.from_bytes(bytes(row.record)) for row in rows]


def _variable(spark: "SparkSession", checkpoint: str, number: int, name: str) -> "DataFrame":
    reader = spark.read.format("statestore").option("operatorId", number)
    return reader.option("stateVarName", name).load(checkpoint)


def _latest(records: list[Record]) -> Shape:
    """What the operator keeps now: after an edit, a bucket is as it was until its next batch."""
    return max(records, key=lambda each: each.version).shape


def _described(number: int, records: list[Record]) -> OperatorState | None:
    if not records:
        return None
    shape = _latest(records)
    behind = min(records, key=lambda each: (each.watermark is not None, each.watermark or 0))
    tables = [
        TableState(
            name,
            tuple(each["key"]),
            tuple(each["columns"]),
            sum(record.rows.get(name, 0) for record in records),
            sum(run.bytes for record in records for run in record.runs.get(name, ())),
        )
        for name, each in shape.tables.items()
    ]
    return OperatorState(
        number,
        shape.operator,
        shape.version,
        len(records),
        behind.watermark,
        tuple(tables),
        behind.clock,
    )
