"""The steps of a flow that keep state, what they have besides results, and how to find them.

Each is an operator of `headrace.streams.state` with one input or two. What it tells are rows of a
stream, or changes of a table with the column `_change`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.streams.plan import (
    CHANGE,
    DELETED,
    PROCESSED,
    WINDOW,
    WINDOW_TIME,
    Columns,
    Node,
    require_columns,
)

if TYPE_CHECKING:
    from headrace.streams.windows import Window
    from headrace.streams.windows.aggregates.protocol import Applied
    from headrace.streams.windows.durations import Duration


class Stateful(ABC):
    """What all steps with state have."""

    __slots__ = ()

    flow: str
    """The flow's name, for what it says when something is wrong."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[Node, ...]:
        """The steps whose rows it takes."""

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell results apart, if they are those of a table."""
        return ()

    @property
    @abstractmethod
    def columns(self) -> Columns:
        """The names of its columns."""

    @property
    @abstractmethod
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""

    @property
    def late_columns(self) -> Columns:
        """Those of the events that can come too late for it."""
        return self.inputs[0].columns


@dataclass(frozen=True, slots=True, eq=False)
class WindowAggregate(Stateful):
    """Aggregates of the windows of a stream: an operator with state, and the changes it tells."""

    input: Node
    spec: "Window"
    by: tuple[str, ...]
    aggregates: "Mapping[str, str | Applied]"
    time: str
    late: str
    lateness: "Duration | None"
    emit: str
    flow: str

    def __post_init__(self) -> None:
        time = () if self.time in (PROCESSED, WINDOW_TIME) else (self.time,)
        require_columns((*self.by, *time), self.input, "window")

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The events."""
        return (self.input,)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell results apart."""
        return (*WINDOW, *self.by)

    @property
    def columns(self) -> Columns:
        """The window, the group, the results and what kind of change it is."""
        return (*self.key, *self.aggregates, CHANGE)

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        said = [f"by {', '.join(self.by)}"] if self.by else []
        said += [
            f"{name} = {each if isinstance(each, str) else type(each.aggregate).__name__}"
            for name, each in self.aggregates.items()
        ]
        within = f" within {self.lateness}" if self.lateness is not None else ""
        cut = " of processing time" if self.time == PROCESSED else ""
        return f"window {self.spec}{cut}", ", ".join(
            (*said, f"late {self.late}{within}", self.emit)
        )


@dataclass(frozen=True, slots=True, eq=False)
class LateRows:
    """The events that came too late for an operator, and when that was."""

    input: Stateful

    @property
    def inputs(self) -> tuple[Node, ...]:
        """What they were too late for."""
        return (self.input,)

    @property
    def columns(self) -> Columns:
        """Those of the events, the reason, and how far time had come."""
        known = self.input.late_columns
        return None if known is None else (*known, "_reason", "_watermark")

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        return "late", ""


@dataclass(frozen=True, slots=True, eq=False)
class Upserts:
    """Changes of a table as the rows that they become, or as deletions."""

    input: Stateful

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The operator whose table it is."""
        return (self.input,)

    @property
    def columns(self) -> Columns:
        """Those of the table, and whether the row is gone."""
        known = self.input.columns
        return None if known is None else (*(each for each in known if each != CHANGE), DELETED)

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        return "table", f"by {', '.join(self.input.key)}"


def operator_of(node: Node) -> Stateful | None:
    """The operator with state that rows are made by, if there is one; of several the last."""
    if isinstance(node, Stateful):
        return node
    return next((found for each in node.inputs if (found := operator_of(each))), None)


def operators_of(node: Node) -> list[Stateful]:
    """All operators with state that rows are made by, those in front of others first.

    One that several others are made of is there as often: each of them has its own, with a state
    of its own.
    """
    return list(_operators_of(node))


def _operators_of(node: Node) -> Iterator[Stateful]:
    if (last := operator_of(node)) is not None:
        for each in last.inputs:
            yield from _operators_of(each)
        yield last
