"""What was sent and not yet read: topics with partitions and offsets, cut into steps."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.kafka import Partition
from headrace.streams.source.splits import Range
from headrace.testing.harness.errors import InvalidEvent
from headrace.testing.harness.events import SentRecord

if TYPE_CHECKING:
    import pyarrow as pa

_NOBODY: Final = Partition("", 0)
"""The partition of a step without records; no stream reads a topic without a name."""


class Script:
    """The topics of a test, as far as their records wait for the next step."""

    def __init__(self) -> None:
        self._next: dict[Partition, int] = {}
        self._waiting: dict[Partition, list[SentRecord]] = {}

    @property
    def waiting(self) -> int:
        """Records that no step has taken yet."""
        return sum(map(len, self._waiting.values()))

    def next_offset(self, partition: Partition, given: int | None = None) -> int:
        """The offset of the next record; one that is given may leave a gap, but not go back."""
        following = self._next.get(partition, 0)
        if given is not None and given < following:
            raise InvalidEvent(
                f"{partition} is at offset {following} already, so that no record can have offset "
                f"{given}; offsets only grow."
            )
        return following if given is None else given

    def add(self, partition: Partition, record: SentRecord) -> None:
        """Append a record."""
        self._next[partition] = record.offset + 1
        self._waiting.setdefault(partition, []).append(record)

    def take(self, clock_ms: int) -> list[bytes]:
        """All that waits, as what one step of the source contains at this time.

        A step in which nothing was sent is a batch all the same, which tells what time it is.
        """
        waiting, self._waiting = self._waiting, {}
        sent = [_packed(partition, waiting[partition], clock_ms) for partition in sorted(waiting)]
        return sent or [_packed(_NOBODY, (), clock_ms)]


class Sent(NamedTuple):
    """What a step contains of one partition."""

    clock_ms: int
    range: Range
    records: "pa.RecordBatch"


def unpacked(packed: bytes) -> Sent:
    """The records of one partition, the range of offsets that they are, and the step's time."""
    import pyarrow as pa

    (records,) = pa.ipc.open_stream(packed)
    about = records.schema.metadata
    partition = Partition(about[b"topic"].decode(), int(about[b"partition"]))
    offsets = records.column("offset").to_pylist() or [0]
    end = offsets[-1] + 1 if records.num_rows else 0
    return Sent(int(about[b"clock"]), Range(partition, offsets[0], end), records)


def _packed(partition: Partition, records: Sequence[SentRecord], clock_ms: int) -> bytes:
    import pyarrow as pa

    from headrace.records.arrow import RECORD_SCHEMA

    rows = [
        {
            "offset": each.offset,
            "timestamp": each.timestamp_ms,
            "key": each.key,
            "value": each.value,
            "headers": [{"key": name, "value": value} for name, value in each.headers],
        }
        for each in records
    ]
    about = {
        "topic": partition.topic,
        "partition": str(partition.number),
        "clock": str(clock_ms),
    }
    batch = pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA.with_metadata(about))
    packed = io.BytesIO()
    with pa.ipc.new_stream(packed, batch.schema) as stream:
        stream.write_batch(batch)
    return packed.getvalue()
