"""What a stream's author knows of its time, as a description."""

from dataclasses import dataclass

from headrace.streams.errors import InvalidFlow
from headrace.streams.plan import is_column
from headrace.streams.windows.durations import Duration, microseconds, signed_microseconds


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far event time has come, given the events that were read.

    Formally, every source s of time has a bound b(s) = max(t(s) - out_of_order, u(s)), with t(s)
    its largest event time and u(s) its largest promise. The watermark is the least bound of the
    sources that are not idle, and never goes back. Intuitively: nothing earlier is expected.
    """

    out_of_order: Duration = "10 seconds"
    """How much earlier than the latest one of its source an event may still be."""

    by: str | None = None
    """The column, or SQL expression, that tells producers apart, each with a clock of its own;
    without it the sources of time are the partitions of the topics."""

    until: str | None = None
    """A column, or SQL expression, with the promise that its source will send nothing earlier, null
    where there is no promise. A producer that leaves promises a time that is never reached."""

    idle_after: Duration | None = None
    """How long a source may be silent, by the clock, before the others stop waiting for it. If all
    are silent, event time goes on with the clock. Without it, everybody waits."""

    max_ahead: Duration | None = None
    """How far ahead of the clock an event time may be to count for the watermark."""

    def __post_init__(self) -> None:
        if self.delay < 0:
            raise InvalidFlow(f"out_of_order is {self.out_of_order!r}; it cannot be negative.")
        for name, each in (("idle_after", self.idle_after), ("max_ahead", self.max_ahead)):
            _optional(each, name)

    @property
    def delay(self) -> int:
        """`out_of_order` in microseconds."""
        return signed_microseconds(self.out_of_order, "out_of_order")

    @property
    def patience(self) -> int | None:
        """`idle_after` in microseconds."""
        return _optional(self.idle_after, "idle_after")

    @property
    def ahead(self) -> int | None:
        """`max_ahead` in microseconds."""
        return _optional(self.max_ahead, "max_ahead")

    @property
    def has_expressions(self) -> bool:
        """Whether something has to be computed that is looked at, which no source can."""
        return not all(each is None or is_column(each) for each in (self.by, self.until))


def _optional(duration: Duration | None, name: str) -> int | None:
    return None if duration is None else microseconds(duration, name)
