"""What a sink promises, so that a flow's output happens once whatever fails.

A streaming query cuts its input into numbered batches and a batch into partitions; one partition of
one batch is a *place*. After a failure the same batch comes again, with the same rows in the same
places. A sink remembers for every place the number of the last batch that it wrote there, and
changes that together with what it writes, in one transaction of whatever it writes to.

Formally, for one query and one place, let `last` be the number remembered:

    write(batch n):   n <= last     writes nothing
                      n >  last     rows become visible and last = n, both or neither

Intuitively: the batch's number is the position in the output, as an offset is in the input.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class SinkError(HeadraceError):
    """A sink could not write, or must not."""


class PartitionsChanged(SinkError):
    """A batch comes again, but cut into another number of partitions than the first time."""

    def __init__(self, query: str, batch_id: int, stored: int, given: int) -> None:
        super().__init__(
            f"Batch {batch_id} of {query} was begun with {stored} partitions and comes again with "
            f"{given}, so its rows are in other places, and writing them could write some twice. "
            "Run the query once more with what it ran with before (cores, shuffle partitions, the "
            "source's options), let that batch finish, then change it."
        )


class Overtaken(SinkError):
    """A newer batch than this one is already in the output."""

    def __init__(self, query: str, batch_id: int) -> None:
        super().__init__(
            f"{query} is at batch {batch_id}, but its output already has a newer one. Another run "
            "of it is alive (stop one of the two), or its checkpoint was replaced by an older copy "
            "(start with a new checkpoint)."
        )


class Fenced(SinkError):
    """Another attempt at the same place has taken over; this one has written nothing."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of a query, as the driver sees it."""

    query: str
    """Names the query *and its checkpoint*: batches of another checkpoint have other rows."""

    id: int
    partitions: int

    def place(self, partition: int) -> "Place":
        """One partition of the batch."""
        return Place(self.query, self.id, partition, self.partitions)


@dataclass(frozen=True, slots=True)
class Place:
    """One partition of one batch."""

    query: str
    batch_id: int
    partition: int
    partitions: int


class Outcome(StrEnum):
    """What became of the rows of a place."""

    WRITTEN = "written"
    REPEATED = "repeated"
    """The batch had been written here before, so nothing was done."""

    OVERTAKEN = "overtaken"
    """A newer batch had been written here before, so nothing was done."""


@dataclass(frozen=True, slots=True)
class Written:
    """What writing a place did; without rows there is nothing to remember either."""

    outcome: Outcome
    rows: int = 0
    bytes: int = 0
    refused: int = 0
    """Rows that what is written to did not take, and that went somewhere else."""


class Sink(Protocol):
    """Where a query's rows go, exactly once. A description: frozen, and pickled to the executors.

    The tests of this contract are `headrace.testing.sink_contract.SinkContract`.
    """

    def begin(self, batch: Batch) -> None:
        """Prepare for a batch: called in the driver before any of its places is written.

        Makes what is to be written to if it is missing, and remembers, before anything is written,
        into how many partitions the batch is cut. Calling it again changes nothing.

        Raises:
            PartitionsChanged: The batch was begun before with another number of partitions.
            Overtaken: A newer batch was begun before.
        """
        ...

    def write(self, place: Place, rows: "Iterator[pa.RecordBatch]") -> Written:
        """Write the rows of a place once: called in an executor's task, perhaps more than once.

        Readers see all of the place's rows or none. If the place was written before, nothing is
        written, and `rows` need not be read. Two attempts at one place may run at the same time,
        since Spark retries tasks and starts slow ones twice: the later one fences the earlier,
        which from then on cannot write.

        Raises:
            Fenced: A later attempt at this place has taken over.
            PartitionsChanged: This place was written with another number of partitions.
        """
        ...


@runtime_checkable
class BatchSink(Protocol):
    """Where whole batches go, exactly once, by something of Spark's that writes them.

    A place is then the whole batch: for one query, let `last` be the batch that is remembered.
    """

    def write_batch(self, batch: Batch, rows: "DataFrame") -> Written:
        """Write the rows of a batch, and remember its number, both or neither.

        Called in the driver. If the batch was written before, nothing is written.
        """
        ...


AnySink: TypeAlias = Sink | BatchSink
"""Where the rows of a query can go."""
