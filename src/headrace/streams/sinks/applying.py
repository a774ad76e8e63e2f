"""A batch applied to a sink: one task per partition, and what they did added up.

query = written(rows, sink).writeStream.foreachBatch(foreach_batch(sink, "shop.receipts"))

Writing is a part of the query's own plan, which Spark makes once: a plan for every batch would
take longer than a small batch does. So a task learns only when it runs which batch it is of.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.streams.sinks.contract import (
    AnySink,
    Batch,
    BatchSink,
    Outcome,
    Overtaken,
    Sink,
    Written,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_WRITTEN: Final = "outcome string, rows long, bytes long, refused long"
_PLANNED: Final = "LogicalRDD"
"""The class of Spark's plans that only say: these rows, as this RDD has them."""

_BATCH: Final = "headrace.batch"
"""The local property in which a task finds its batch."""

_QUERY_ID: Final = "sql.streaming.queryId"
"""The local property in which Spark keeps the id that a checkpoint gave its query."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a batch."""

    batch: Batch
    rows: int
    """Rows that this run wrote; those of places that were written before do not count."""

    bytes: int
    repeated: int
    """Places that had been written before."""

    refused: int = 0
    """Rows that were not taken, and that went somewhere else."""


def written(rows: "DataFrame", sink: AnySink) -> "DataFrame":
    """Rows as what becomes of them when they are written: evaluating this writes them.

    Only `apply` and what `foreach_batch` returns can do that, for they say of which batch it is.
    Rows of a sink that takes whole batches stay what they are.
    """
    return rows if isinstance(sink, BatchSink) else rows.mapInArrow(_writing(sink), _WRITTEN)


def apply(sink: AnySink, batch: Batch, places: "DataFrame") -> Applied:
    """Write the rows of a batch, given as `written` has them, each place once.

    Raises what `Sink.begin` raises, Overtaken if a place turns out to have a newer batch, and what
    Spark raises when a task fails for good. Whatever was written by then stays, and is recognised
    when the batch comes again.
    """
    if isinstance(sink, BatchSink):
        done = sink.write_batch(batch, places)
        repeated = int(done.outcome is Outcome.REPEATED)
        return Applied(batch, done.rows, done.bytes, repeated, done.refused)
    sink.begin(batch)
    with _told_to_tasks(batch, places):
        # One small row for each place. `DataFrame.collect` would have them planned once more.
        found = _rdd_of(places).collect()
    outcomes = [
        Written(Outcome(str(row.getUTF8String(0))), *(row.getLong(each) for each in (1, 2, 3)))
        for row in found
    ]
    if any(each.outcome is Outcome.OVERTAKEN for each in outcomes):
        raise Overtaken(batch.query, batch.id)
    return Applied(
        batch,
        rows=sum(each.rows for each in outcomes),
        bytes=sum(each.bytes for each in outcomes),
        repeated=sum(each.outcome is Outcome.REPEATED for each in outcomes),
        refused=sum(each.refused for each in outcomes),
    )


def foreach_batch(
    sink: AnySink, name: str, tell: Callable[[Applied], None] = lambda applied: None
) -> Callable[["DataFrame", int], None]:
    """What `foreachBatch` of a `written` stream wants; `tell` hears of every batch applied."""

    def apply_batch(places: "DataFrame", batch_id: int) -> None:
        batch = Batch(identity(name, places), batch_id, partitions_of(places))
        tell(apply(sink, batch, places))

    return apply_batch


def identity(name: str, rows: "DataFrame") -> str:
    """The name of a query with the beginning of the id that its checkpoint has.

    With another checkpoint batches are counted from 0 again and have other rows, so what was
    remembered of the ones before must not count.
    """
    query_id = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    return f"{name}.{query_id.partition('-')[0]}" if query_id else name


def partitions_of(rows: "DataFrame") -> int:
    """How many partitions the rows of a batch have."""
    return int(_rdd_of(rows).getNumPartitions())


def _rdd_of(rows: "DataFrame") -> Any:
    """Java's RDD of rows; `foreachBatch` hands one over, other DataFrames are planned for it."""
    execution = rows._jdf.queryExecution()
    plan = execution.logical()
    return plan.rdd() if plan.getClass().getSimpleName() == _PLANNED else execution.toRdd()


@contextmanager
def _told_to_tasks(batch: Batch, rows: "DataFrame") -> Iterator[None]:
    context = rows.sparkSession.sparkContext
    context.setLocalProperty(_BATCH, json.dumps(asdict(batch)))
    try:
        yield
    finally:
        context.setLocalProperty(_BATCH, "")


def _writing(sink: Sink) -> "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    def write(rows: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        batch = Batch(**json.loads(task.getLocalProperty(_BATCH) or "{}"))
        done = sink.write(batch.place(task.partitionId()), iter(rows))
        yield pa.RecordBatch.from_pylist([{**asdict(done), "outcome": done.outcome.value}])

    return write
