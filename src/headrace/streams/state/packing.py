"""Rows into blobs and back: what crosses Spark's shuffle is a few rows of bytes.

Every task makes, for each bucket that its rows belong to, one blob of them. It is told apart by the
task and by its number within the task, so that a bucket can put them in the same order however
Spark delivers them. With a watermark, every bucket hears from every task, with or without rows.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headrace.streams.state.blobs import (
    from_blob,
    rows_at_a_time,
    schema_from_text,
    to_blob,
    to_polars,
)
from headrace.streams.state.hashing import KEYS, hashes
from headrace.streams.state.operator import Operator
from headrace.streams.state.watermarks import Watermark, merged, without_control

if TYPE_CHECKING:
    import polars as pl

PACKED: Final = "bucket int, task int, part int, source string, bounds string, rows binary"
TAGGED: Final = "output string, rows binary"

_PACKED: Final = pa.schema(
    [
        ("bucket", pa.int32()),
        ("task", pa.int32()),
        ("part", pa.int32()),
        ("source", pa.string()),
        ("bounds", pa.string()),
        ("rows", pa.binary()),
    ]
)
_BYTES_AT_A_TIME: Final = 32 << 20
"""How much of a task's rows is gathered before it is packed."""


@dataclass(frozen=True, slots=True)
class Packing:
    """How the rows of one input are packed."""

    source: str
    """The name of the input."""

    key: tuple[str, ...]
    buckets: int
    operator: Operator
    watermark: Watermark | None = None

    def function(self) -> Callable[[Iterable[Any]], Iterator[Any]]:
        """What `mapInArrow` wants."""

        def pack(batches: Iterable[Any]) -> Iterator[Any]:
            from pyspark import TaskContext

            task = TaskContext.get()
            assert task is not None
            yield from self.pack(task.partitionId(), batches)

        return pack

    def pack(self, task: int, batches: Iterable[Any]) -> Iterator[Any]:
        """The rows of a task, as record batches of packed rows."""
        bounds: dict[str, int] = {}
        part = 0
        for rows in _gathered(batches):
            events = to_polars(rows)
            if self.watermark is not None:
                bounds = merged([bounds, self.watermark.observe(self.source, events)])
            for blobs in self._blobs(self.operator.prepare(self.source, without_control(events))):
                yield self._packed(task, part, blobs, {})
                part += 1
        if bounds:
            yield self._packed(task, part, dict.fromkeys(bucket_keys(self.buckets)), bounds)

    def _packed(
        self, task: int, part: int, blobs: Mapping[int, bytes | None], bounds: Mapping[str, int]
    ) -> Any:
        told = json.dumps(bounds) if bounds else None
        rows = len(blobs)
        columns = [
            list(blobs),
            [task] * rows,
            [part] * rows,
            [self.source] * rows,
            [told] * rows,
            list(blobs.values()),
        ]
        arrays = [pa.array(each, kind.type) for each, kind in zip(columns, _PACKED, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_PACKED)

    def _blobs(self, events: "pl.DataFrame") -> Iterator[dict[int, bytes]]:
        """One blob for each bucket that has rows, under the key of the bucket.

        Where a bucket has more rows than a blob should, they follow with the next.
        """
        import polars as pl

        rows = events.to_arrow(compat_level=pl.CompatLevel.oldest())
        if not rows.num_rows:
            return
        key = [rows.column(name) for name in self.key]
        numbers = bucket_numbers(hashes(key, KEYS, rows.num_rows), self.buckets)
        order = np.argsort(numbers, kind="stable")
        starts = np.searchsorted(numbers[order], np.arange(self.buckets + 1))
        ordered = rows.combine_chunks().take(pa.array(order)).combine_chunks()
        begins, ends = starts[:-1], starts[1:]
        at_a_time = rows_at_a_time(ordered)
        while (begins < ends).any():
            cuts = np.minimum(begins + at_a_time, ends)
            yield {
                key: to_blob(ordered.slice(begin, cut - begin))
                for key, begin, cut in zip(bucket_keys(self.buckets), begins, cuts, strict=True)
                if begin < cut
            }
            begins = cuts


def bucket_numbers(found: Any, buckets: int) -> Any:
    """The bucket of each hash, by bits that do not decide the order within a bucket."""
    return (found % np.uint64(buckets)).astype(np.uint16)


@cache
def bucket_keys(buckets: int) -> tuple[int, ...]:
    """What Spark is to group by for each bucket, so that its partitions get equally many.

    Spark gives a key to the partition that its own hash names. These keys have the hashes 0, 1, 2
    and so on, modulo the number of buckets; so any number of partitions that divides the number of
    buckets has the same share of them.

    >>> [spark_hash(key) % 4 for key in bucket_keys(4)]
    [0, 1, 2, 3]
    """
    keys: dict[int, int] = {}
    candidate = 0
    while len(keys) < buckets:
        keys.setdefault(spark_hash(candidate) % buckets, candidate)
        candidate += 1
    return tuple(keys[number] for number in range(buckets))


def spark_hash(number: int) -> int:
    """Spark's own hash of an integer column, which decides a row's partition: Murmur3, seed 42."""
    mixed = _rotated(number * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
    found = (_rotated(42 ^ mixed, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    found ^= 4
    found = (found ^ found >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    found = (found ^ found >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found


def unpacking(output: str, schema: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """What `mapInArrow` wants, to make an output's rows of tagged blobs."""

    def unpack(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            tags, blobs = batch.column("output"), batch.column("rows")
            for tag, blob in zip(tags, blobs, strict=True):
                if tag.as_py() == output:
                    yield from from_blob(blob.as_buffer()).cast(schema).to_batches()

    return unpack


def empty_events(schemas: Mapping[str, str]) -> "dict[str, pl.DataFrame]":
    """A frame without rows for every input, whose schema is given as text."""
    return {name: to_polars(schema_from_text(each).empty_table()) for name, each in schemas.items()}


def events_of(
    packed: "Iterable[tuple[str, bytes | None]]", empty: "Mapping[str, pl.DataFrame]"
) -> "dict[str, pl.DataFrame]":
    """The events of one bucket by their input, from the blobs that were packed for it."""
    tables: dict[str, list[Any]] = {name: [] for name in empty}
    for source, rows in packed:
        if rows is not None:
            tables[source].append(from_blob(rows))
    return {
        name: to_polars(pa.concat_tables(each)) if each else empty[name]
        for name, each in tables.items()
    }


def _gathered(batches: Iterable[Any]) -> Iterator[Any]:
    """Tables of many batches each, since Spark's own are small."""
    waiting: list[Any] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _BYTES_AT_A_TIME:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & 0xFFFFFFFF
