"""What an operator tells of time to the one behind it: the watermark of each of its buckets.

A bucket whose watermark is w has told all that it will tell of windows that closed by then. So in a
flow of several operators each bucket of the first is a source of time for the second. People want
to know which topic is slow, and not which bucket: what the first knows of its own sources goes
along.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.streams.plan import CONTROL
from headrace.streams.state.blobs import from_blob
from headrace.streams.time.control import Observation
from headrace.streams.time.standing import standing_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.streams.state.keyed import Keyed

_MOST_ORIGINS = 100
"""Of sources that are told of, those furthest behind: there may be as many as producers."""


def relayed(keyed: "Keyed", output: str, behind: int) -> "DataFrame":
    """The rows of an output, and control rows that tell of time.

    `behind` is how much earlier than the watermark of its bucket, in microseconds, a row of the
    output may be that is told after it.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = keyed.description.outputs[output].append(pa.field(CONTROL, pa.binary()))
    unpack = _unpacking(output, keyed.description.name, schema, behind)
    return keyed.tagged.mapInArrow(unpack, from_arrow_schema(schema))


def _unpacking(
    output: str, operator: str, schema: Any, behind: int
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def unpack(batches: Iterable[Any]) -> Iterator[Any]:
        from headrace.streams.state.processor import STATISTICS

        for batch in batches:
            for tag, blob in zip(batch.column("output"), batch.column("rows"), strict=True):
                if tag.as_py() == output:
                    rows = from_blob(blob.as_buffer())
                    told = pa.nulls(rows.num_rows, pa.binary())
                    yield from rows.append_column(CONTROL, told).cast(schema).to_batches()
                elif tag.as_py() == STATISTICS:
                    yield from _control_rows(from_blob(blob.as_buffer()), operator, schema, behind)

    return unpack


def _control_rows(statistics: Any, operator: str, schema: Any, behind: int) -> Iterator[Any]:
    for each in statistics.to_pylist():
        if each["clock"] is None:
            continue
        reached = each["watermark"]
        name = f"{operator}/{each['bucket']}"
        promises = {} if reached is None else {name: reached - behind}
        told = Observation(each["clock"], promises=promises, origins=_origins(each["memory"]))
        yield pa.RecordBatch.from_pylist([{CONTROL: told.to_bytes()}], schema=schema)


def _origins(memory: str | None) -> dict[str, tuple[int, int, bool]]:
    standing = standing_of(memory or "")
    if standing is None:
        return {}
    behind = standing.furthest_behind(_MOST_ORIGINS)
    return {each.name: (each.bound, each.active, each.idle) for each in behind}
