"""Records that are not where they were to be read.

Apart from `raw_fetch`, which raises them, because whoever only plans what is to be read need not
load what decodes records.
"""

from headrace.kafka.errors import ClusterError
from headrace.kafka.positions import Partition


class OffsetsGone(ClusterError):
    """Records that were to be read are not there any more."""

    def __init__(self, partition: Partition, first: int, last: int, earliest: int) -> None:
        lost = f"offset {first}" if first == last else f"offsets {first} to {last}"
        super().__init__(
            f"{partition} no longer has {lost}: it begins at {earliest}. Retention or a deletion "
            'of records came first. Set on_gap to "skip" to go on from there and count the loss, '
            "or keep records for longer (retention.ms, retention.bytes)."
        )
        self.partition = partition
        self.first = first
        self.last = last
        self.earliest = earliest

    def __reduce__(self) -> tuple[type["OffsetsGone"], tuple[Partition, int, int, int]]:
        return type(self), (self.partition, self.first, self.last, self.earliest)


class OffsetsBeyondEnd(ClusterError):
    """The partition ends before the records that were to be read."""

    def __init__(self, partition: Partition, offset: int, latest: int) -> None:
        super().__init__(
            f"{partition} ends at {latest}, and offset {offset} was to be read: the partition lost "
            "records that were there before, or it is another one of the same name."
        )


class RecordsMissing(ClusterError):
    """A broker holds back records that it said it has."""

    def __init__(self, partition: Partition, offset: int, end: int) -> None:
        super().__init__(
            f"The broker returns no records of {partition} from offset {offset} on, though the "
            f"partition reaches to {end}. Look into the broker's log for the reason."
        )
