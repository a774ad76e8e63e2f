"""Rejected records as records again: what they were, and why and where they were rejected."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.streams.formats.decoding import Rejected
from headrace.streams.formats.schemas import arrow_schema, schema_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

DEAD_LETTERS: Final = "key binary, value binary, headers array<struct<key string, value binary>>"
"""The columns of dead letters, which are those of the topic sink."""

HEADERS: Final = (
    "headrace.reason",
    "headrace.topic",
    "headrace.partition",
    "headrace.offset",
    "headrace.timestamp",
)
"""The headers that a dead letter has besides its own; the last is in milliseconds since 1970."""


def dead_letter_schema() -> "StructType":
    """The columns of dead letters as Spark has them."""
    return schema_of(DEAD_LETTERS)


def dead_letters(
    records: pa.RecordBatch, rejected: Sequence[Rejected], topic: str, partition: int
) -> pa.RecordBatch:
    """One row for each rejected record of a partition: its own key, value and headers, and ours.

    `records` must have all columns of a record. Its headers come first, so that those of a record
    that is rejected a second time tell its history in order.
    """
    lost = records.take(pa.array([index for index, _ in rejected], pa.int64()))
    count = len(lost)
    times = lost.column("timestamp").cast(pa.int64()).cast(pa.string())
    ours = [
        pa.array([reason.encode() for _, reason in rejected], pa.binary()),
        pa.repeat(pa.scalar(topic.encode(), pa.binary()), count),
        pa.repeat(pa.scalar(str(partition).encode(), pa.binary()), count),
        lost.column("offset").cast(pa.string()).cast(pa.binary()),
        times.cast(pa.binary()),
    ]
    schema = arrow_schema(dead_letter_schema())
    headers = _append(lost.column("headers"), ours, schema.field("headers").type)
    return pa.RecordBatch.from_arrays(
        [lost.column("key"), lost.column("value"), headers], schema=schema
    )


def _append(headers: pa.ListArray, ours: Sequence[pa.Array], kind: pa.ListType) -> pa.ListArray:
    """To the headers of each row one more of each name."""
    count, added = len(headers), len(HEADERS)
    theirs = headers.flatten()
    names = pa.concat_arrays([theirs.field("key"), *(pa.repeat(name, count) for name in HEADERS)])
    values = pa.concat_arrays([theirs.field("value"), *ours])
    lengths = headers.value_lengths().fill_null(0).to_numpy()
    bounds = np.concatenate([[0], np.cumsum(lengths + added)])
    places = np.empty(bounds[-1], np.int64)
    mine = (bounds[1:, None] - added + np.arange(added)).ravel()
    is_theirs = np.ones(len(places), np.bool_)
    is_theirs[mine] = False
    places[is_theirs] = np.arange(len(theirs))
    places[mine] = (len(theirs) + np.arange(count)[:, None] + np.arange(added) * count).ravel()
    order = pa.array(places)
    pairs = pa.StructArray.from_arrays(
        [names.take(order), values.take(order)], fields=list(kind.value_type)
    )
    buffers = [None, pa.py_buffer(bounds.astype(np.int32))]
    return pa.Array.from_buffers(kind, count, buffers, children=[pairs])
