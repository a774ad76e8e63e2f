"""The points of a batch at which a query can be killed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from headrace.streams.names import did_you_mean
from headrace.streams.sinks.contract import Batch, Outcome, Place, Sink, Written
from headrace.testing.harness.errors import HarnessError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext

_DYING: Final = "headrace.harness.dying"
"""The local property in which a task finds the point at which its process dies."""


class KillPoint(StrEnum):
    """What has just happened when a query dies, in the order in which it happens."""

    READ = "read"
    """Spark has noted what the batch reads; the sink has not heard of it."""

    WRITE = "write"
    """The sink has got all rows, and has committed none."""

    FIRST_COMMIT = "first commit"
    """The first partition of the batch is committed, and the others are not."""

    SINK_COMMIT = "sink commit"
    """The sink has committed everything; Spark has not noted that the batch is done."""

    COMMIT = "commit"
    """Spark has noted it; the next batch has not begun."""


def kill_point(name: str) -> KillPoint:
    """The point of that name; HarnessError suggests one."""
    try:
        return KillPoint(name)
    except ValueError:
        hint = did_you_mean(name, [str(each) for each in KillPoint])
        raise HarnessError(f"A query cannot be killed after {name!r}; {hint}") from None


class Killed(Exception):
    """The query dies here, because a test wants it to."""


@dataclass(frozen=True, slots=True)
class DyingSink:
    """A sink whose process dies before everything is committed, if `dying` says so."""

    sink: Sink

    def begin(self, batch: Batch) -> None:
        """As the sink does."""
        self.sink.begin(batch)

    def write(self, place: Place, rows: "Iterator[pa.RecordBatch]") -> Written:
        """Give the sink its rows, and the end of them only where it is to commit.

        The task ends as if nothing had happened, so that its neighbours get as far as they should;
        the driver dies then.
        """
        from pyspark import TaskContext

        task = TaskContext.get()
        point = None if task is None else task.getLocalProperty(_DYING)
        if not point or (point == KillPoint.FIRST_COMMIT and place.partition == 0):
            return self.sink.write(place, rows)
        try:
            return self.sink.write(place, _cut_off(rows))
        except Killed:
            return Written(Outcome.WRITTEN)


@contextmanager
def dying(context: "SparkContext", point: KillPoint | None) -> Iterator[None]:
    """Let the sinks of the batch that is applied here die before they have committed it all."""
    if point in (KillPoint.WRITE, KillPoint.FIRST_COMMIT):
        context.setLocalProperty(_DYING, str(point))
    try:
        yield
    finally:
        context.setLocalProperty(_DYING, "")


def _cut_off(rows: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    yield from rows
    raise Killed
