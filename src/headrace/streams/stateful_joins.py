"""Streams that are joined: with a stream within a time, and with a table, now or back then."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.streams.joins.columns import naming
from headrace.streams.plan import DELETED, Columns, Node, require_columns
from headrace.streams.stateful import Stateful
from headrace.streams.windows.durations import written


@dataclass(frozen=True, slots=True, eq=False)
class StreamJoin(Stateful):
    """Pairs of events of two streams that are not too far apart in time."""

    left: Node
    right: Node
    on: Mapping[str, str]
    """Columns of the left stream, and those of the right one that they equal."""

    how: str
    before: int
    after: int
    """How much earlier or later than the left event, in microseconds, the right one may be."""

    condition: str | None
    late: str
    suffix: str
    flow: str

    def __post_init__(self) -> None:
        require_columns(tuple(self.on), self.left, "join")
        require_columns(tuple(self.on.values()), self.right, "join")

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The left stream and the right one."""
        return self.left, self.right

    @property
    def columns(self) -> Columns:
        """Those of both sides."""
        return joined_columns(self.left.columns, self.right.columns, self.on, self.suffix)

    @property
    def late_columns(self) -> Columns:
        """Those of both sides, and which of them it is."""
        return None if self.columns is None else (*self.columns, "_side")

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        bounds = {written(each) for each in (self.before, self.after)}
        span = bounds.pop() if len(bounds) == 1 else f"{span_of(self)}"
        said = [shown_on(self.on)]
        said += [f"and {self.condition}"] if self.condition is not None else []
        return f"{self.how} join within {span}", " ".join(said)


@dataclass(frozen=True, slots=True, eq=False)
class Lookup(Stateful):
    """Events with the row that a table has for them, or had at their time."""

    input: Node
    table: Node
    on: Mapping[str, str]
    """Columns of the events, and the key of the table that they equal."""

    how: str
    wait: int | None
    """How long, in microseconds of event time, an event waits for its row."""

    at: str | None
    """The column of the moment whose row is meant; None for the row that is there now."""

    keep: int | None
    """How long, in microseconds, rows are kept that hold no more; None for ever."""

    time: str | None
    """The column of event time, if events have to wait for it; None if all are answered at once."""

    bootstrap: bool
    """Whether the table is loaded before the first event is read."""

    suffix: str
    flow: str

    def __post_init__(self) -> None:
        require_columns((*self.on, *((self.at,) if self.at else ())), self.input, "lookup")

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The events and the table."""
        return self.input, self.table

    @property
    def columns(self) -> Columns:
        """Those of the events and of the table."""
        table = self.table.columns
        rows = None if table is None else tuple(each for each in table if each != DELETED)
        return joined_columns(self.input.columns, rows, self.on, self.suffix)

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        said = [shown_on(self.on)]
        said += [f"at {self.at}"] if self.at is not None else []
        said += [f"waits {written(self.wait)}"] if self.wait is not None else []
        said += ["inner"] if self.how == "inner" else []
        return "lookup", ", ".join(said)


def joined_columns(left: Columns, right: Columns, on: Mapping[str, str], suffix: str) -> Columns:
    """The columns of a join, if those of both sides are known."""
    if left is None or right is None:
        return None
    names = naming(left, right, on, suffix)
    return (*names.left, *names.right.values())


def shown_on(on: Mapping[str, str]) -> str:
    """What has to be equal, as it is shown to people."""
    return "on " + ", ".join(
        left if left == right else f"{left} = {right}" for left, right in on.items()
    )


def span_of(node: StreamJoin) -> str:
    """How far apart events may be, as it is shown to people."""
    return f"{written(node.before)} before to {written(node.after)} after"
