"""An operator on Spark: inputs packed, one stateful step by bucket, outputs told apart.

    counted = keyed({"events": Input(clicks, key=("user",))}, Counting(), flow="shop")
    query = counted.tagged.writeStream.foreachBatch(apply_batch) ...

All outputs of an operator are one DataFrame of tagged blobs and so one query: what a batch says is
computed once, and `Keyed.outputs` tells its outputs apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.streams.names import did_you_mean
from headrace.streams.state.blobs import from_blob, schema_to_text, to_polars
from headrace.streams.state.bounded import TimeIsOver, applying
from headrace.streams.state.bucket import Job
from headrace.streams.state.budget import Limits
from headrace.streams.state.errors import InvalidOperator
from headrace.streams.state.operator import Description, Operator
from headrace.streams.state.packing import PACKED, TAGGED, Packing, unpacking
from headrace.streams.state.watermarks import Watermark, without_control

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BUCKETS_PER_PARTITION = 4
"""By default: enough to share out unevenly filled buckets, few enough to be touched at once."""


@dataclass(frozen=True, slots=True)
class Input:
    """Events of one kind, and the columns whose values decide which bucket they belong to."""

    rows: "DataFrame"
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Keyed:
    """The outputs of an operator, all in one DataFrame."""

    tagged: "DataFrame"
    """Blobs with the name of their output; run this as one query in the mode `update`."""

    description: Description
    buckets: int
    """To be the same as long as the checkpoint is."""

    def output(self, name: str, tagged: "DataFrame | None" = None) -> "DataFrame":
        """The rows of an output, by default as a stream of their own.

        Two outputs taken that way are two queries with two states. To have them in one, run
        `tagged` and take the outputs of each of its batches, with `outputs` or `into`.
        """
        from pyspark.sql.pandas.types import from_arrow_schema

        blobs = self.tagged if tagged is None else tagged
        schema = self._schema(name)
        return blobs.mapInArrow(unpacking(name, schema), from_arrow_schema(schema))

    def collected(self, names: Sequence[str], batch: "DataFrame") -> Mapping[str, Any]:
        """The rows of outputs that have few, of one batch of `tagged`, as Arrow tables.

        They come to this process as the blobs they are, so that no task has to unpack them.
        """
        blobs = batch.where(batch["output"].isin(*names)).collect()
        return {
            name: pa.concat_tables(
                [
                    self._schema(name).empty_table(),
                    *(from_blob(bytes(each["rows"])) for each in blobs if each["output"] == name),
                ]
            )
            for name in names
        }

    @contextmanager
    def outputs(self, batch: "DataFrame") -> "Iterator[Mapping[str, DataFrame]]":
        """Every output's rows of one batch of `tagged`, which is computed once."""
        kept = batch.persist()
        try:
            yield {name: self.output(name, kept) for name in self.description.outputs}
        finally:
            kept.unpersist()

    def _schema(self, name: str) -> Any:
        from headrace.streams.state.processor import STATISTICS, STATISTICS_SCHEMA

        schemas = {**self.description.outputs, STATISTICS: STATISTICS_SCHEMA}
        if name not in schemas:
            known = did_you_mean(name, self.description.outputs)
            raise InvalidOperator(f"{self.description.name} has no output {name}; {known}")
        return schemas[name]


def keyed(
    inputs: Mapping[str, Input],
    operator: Operator,
    *,
    flow: str,
    watermark: Watermark | None = None,
    buckets: int | None = None,
    limits: Limits | None = None,
) -> Keyed:
    """Run an operator over streams, with state by key in `buckets` buckets.

    Over inputs that all have an end it is run once, when time is over (`bounded`).

    `buckets` must stay the same while a checkpoint does; by default it is four times Spark's
    shuffle partitions, and best a multiple of them. `limits` are those of the settings if none are
    given. Spark's session has to use its RocksDB store.

    Raises InvalidOperator if the description makes no sense, a key column is missing, or the inputs
    are keyed by values of different types, which would never meet.
    """
    description = operator.description
    description.check()
    spark = next(iter(inputs.values())).rows.sparkSession
    buckets = buckets or default_buckets(spark)
    _check_keys(description.name, inputs)
    streaming = all(each.rows.isStreaming for each in inputs.values())
    watermark = watermark if streaming else TimeIsOver()
    packed: DataFrame | None = None
    schemas: dict[str, str] = {}
    for name, each in sorted(inputs.items()):
        packing = Packing(name, each.key, buckets, operator, watermark)
        schemas[name] = _prepared(name, each, operator)
        blobs = each.rows.mapInArrow(packing.function(), PACKED)
        packed = blobs if packed is None else packed.unionByName(blobs)
    assert packed is not None
    job = Job(flow, operator, watermark, limits or limits_of(spark))
    grouped = packed.groupBy("bucket")
    if not streaming:
        return Keyed(
            grouped.applyInArrow(applying(job, schemas, buckets), TAGGED), description, buckets
        )
    from headrace.streams.state.processor import BucketProcessor

    tagged = grouped.transformWithState(
        BucketProcessor(job, schemas, buckets), TAGGED, "update", "None"
    )
    return Keyed(tagged, description, buckets)


def default_buckets(spark: "SparkSession") -> int:
    """How many buckets an operator has if nobody says."""
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    return _BUCKETS_PER_PARTITION * int(partitions or 1)


def limits_of(spark: "SparkSession") -> Limits:
    """What state may take in a session, by `[streams] state_limit` and `state_memory`."""
    from headrace.streams.session import STATE_LIMIT, STATE_MEMORY

    usual = Limits()
    bucket, memory = (spark.conf.get(each, None) for each in (STATE_LIMIT, STATE_MEMORY))
    return Limits(int(bucket or usual.bucket), int(memory or usual.memory))


def _check_keys(operator: str, inputs: Mapping[str, Input]) -> None:
    kinds: dict[str, list[str]] = {}
    for name, each in inputs.items():
        for column in each.key:
            if column not in each.rows.columns:
                hint = did_you_mean(column, each.rows.columns)
                raise InvalidOperator(
                    f"Operator {operator}: input {name} has no column {column}; {hint}"
                )
        kinds[name] = [each.rows.schema[column].dataType.simpleString() for column in each.key]
    if len({tuple(each) for each in kinds.values()}) > 1:
        said = ", ".join(f"{name} by {' and '.join(each)}" for name, each in kinds.items())
        raise InvalidOperator(
            f"Operator {operator}: the inputs are keyed by different types ({said}), so equal keys "
            "would not meet. Cast them to the same type."
        )


def _prepared(name: str, given: Input, operator: Operator) -> str:
    """The schema of an input's events as the operator's `update` sees them, as text."""
    import polars as pl
    from pyspark.sql.pandas.types import to_arrow_schema

    empty: Any = to_arrow_schema(given.rows.schema, timezone="UTC").empty_table()
    prepared = operator.prepare(name, without_control(to_polars(empty)))
    for column in given.key:
        if column not in prepared.columns:
            raise InvalidOperator(
                f"Operator {operator.description.name}: prepare() dropped {column}, by which "
                f"input {name} is keyed; keep it."
            )
    schema: pa.Schema = prepared.to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    return schema_to_text(schema)
