"""An operator over rows that have an end: each bucket is updated once, and nothing is kept.

Time is over when everything is read. So no event is late, and all that waits for a time is told.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.streams.state.blobs import to_blobs
from headrace.streams.state.bucket import Bucket, Job
from headrace.streams.state.cache import Copies
from headrace.streams.state.packing import bucket_keys, empty_events, events_of
from headrace.streams.state.storage import MemoryStorage

if TYPE_CHECKING:
    import polars as pl

END_OF_TIME: Final = 1 << 61
"""A time in microseconds that nothing is later than, far enough from the end of numbers."""

_TAGGED: Final = pa.schema([("output", pa.string()), ("rows", pa.binary())])


class TimeIsOver:
    """The watermark of rows that have an end: it has passed everything."""

    def observe(self, source: str, events: "pl.DataFrame") -> Mapping[str, int]:
        """Nothing, since nobody waits for it."""
        return {}

    def advance(self, memory: str, bounds: Mapping[str, int]) -> tuple[str, int | None]:
        """The end of time."""
        return memory, END_OF_TIME


def applying(job: Job, schemas: Mapping[str, str], buckets: int) -> Callable[[Any], Any]:
    """What `applyInArrow` wants, to make tagged blobs of the packed rows of one bucket.

    `schemas` are those of the prepared inputs, as text.
    """
    numbers = {key: number for number, key in enumerate(bucket_keys(buckets))}

    def apply(packed: Any) -> Any:
        rows = sorted(packed.to_pylist(), key=lambda row: (row["source"], row["task"], row["part"]))
        number = numbers[rows[0]["bucket"]]
        copies = Copies(job.limits.memory, job.limits.memory)
        bucket = Bucket(job, number, MemoryStorage(), copies)
        blobs = [(row["source"], row["rows"]) for row in rows]
        events = events_of(blobs, empty_events(schemas))
        outputs = bucket.apply(number, events, {}).outputs
        tagged = [
            {"output": name, "rows": blob}
            for name, each in outputs.items()
            for blob in to_blobs(each)
        ]
        return pa.Table.from_pylist(tagged, schema=_TAGGED)

    return apply
