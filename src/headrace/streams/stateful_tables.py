"""Tables that are made of others: integrated, joined, grouped, and cut to the best rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.streams.plan import CHANGE, DELETED, Columns, Expression, Node, require_columns
from headrace.streams.stateful import Stateful
from headrace.streams.stateful_joins import joined_columns, shown_on

if TYPE_CHECKING:
    from headrace.streams.windows.aggregates.protocol import Applied


@dataclass(frozen=True, slots=True, eq=False)
class Integrated:
    """The events of a stream as the rows of a table, of which the last of each key holds."""

    input: Node
    key: tuple[str, ...]
    deleted: Expression | None = None
    """Tells of an event that it deletes the row of its key."""

    valid_from: Expression | None = None

    def __post_init__(self) -> None:
        named = [each for each in (self.deleted, self.valid_from) if each is not None]
        require_columns((*self.key, *named), self.input, "table")

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The events."""
        return (self.input,)

    @property
    def columns(self) -> Columns:
        """Those of the events, and whether the row is gone."""
        return None if self.input.columns is None else (*self.input.columns, DELETED)

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        return "table", f"by {', '.join(self.key)}"


@dataclass(frozen=True, slots=True, eq=False)
class Changes(Stateful):
    """What becomes of the rows of a table, with what they were before."""

    input: Node
    table_key: tuple[str, ...]
    flow: str

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The table."""
        return (self.input,)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell rows apart."""
        return self.table_key

    @property
    def columns(self) -> Columns:
        """Those of the table, and what kind of change it is."""
        known = rows_of(self.input)
        return None if known is None else (*known, CHANGE)

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        return "changes", f"by {', '.join(self.key)}"


@dataclass(frozen=True, slots=True, eq=False)
class Settled(Stateful):
    """The changes of rows that move between buckets, in an order in which they can be applied."""

    input: "TableJoin"
    flow: str

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The join whose rows move."""
        return (self.input,)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell rows apart."""
        return self.input.key

    @property
    def columns(self) -> Columns:
        """Those of the join."""
        return self.input.columns

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        return "settled", f"by {', '.join(self.key)}"


@dataclass(frozen=True, slots=True, eq=False)
class TableSide:
    """One side of a join of tables."""

    node: Node
    key: tuple[str, ...]
    on: tuple[str, ...]
    changes: bool
    """Whether it tells what rows were before, because they can move from one value to another."""


@dataclass(frozen=True, slots=True, eq=False)
class TableJoin(Stateful):
    """The pairs of rows of two tables that have the same values."""

    left: TableSide
    right: TableSide
    how: str
    suffix: str
    table_key: tuple[str, ...]
    flow: str

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell rows apart."""
        return self.table_key

    @property
    def on(self) -> Mapping[str, str]:
        """Columns of the left table, and those of the right one that they equal."""
        return dict(zip(self.left.on, self.right.on, strict=True))

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The left table and the right one."""
        return self.left.node, self.right.node

    @property
    def columns(self) -> Columns:
        """Those of both sides, and what kind of change it is."""
        joined = joined_columns(
            rows_of(self.left.node), rows_of(self.right.node), self.on, self.suffix
        )
        return None if joined is None else (*joined, CHANGE)

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        return f"{self.how} join of tables", shown_on(self.on)


@dataclass(frozen=True, slots=True, eq=False)
class Grouped(Stateful):
    """Aggregates of groups of a table's rows, which follow what becomes of them."""

    input: Node
    by: tuple[str, ...]
    aggregates: "Mapping[str, str | Applied]"
    flow: str

    def __post_init__(self) -> None:
        require_columns(self.by, self.input, "group_by")

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The changes of the table."""
        return (self.input,)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell groups apart."""
        return self.by

    @property
    def columns(self) -> Columns:
        """The group, the results, and what kind of change it is."""
        return (*self.by, *self.aggregates, CHANGE)

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        said = [
            f"{name} = {each if isinstance(each, str) else type(each.aggregate).__name__}"
            for name, each in self.aggregates.items()
        ]
        return f"group by {', '.join(self.by)}", ", ".join(said)


@dataclass(frozen=True, slots=True, eq=False)
class Top(Stateful):
    """The best rows of each group of a table."""

    input: Node
    table_key: tuple[str, ...]
    by: tuple[str, ...]
    order: tuple[tuple[str, bool], ...]
    """Columns, and whether their largest values come first."""

    count: int
    flow: str

    def __post_init__(self) -> None:
        require_columns((*self.by, *(name for name, _ in self.order)), self.input, "top")

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell rows apart."""
        return self.table_key

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The changes of the table."""
        return (self.input,)

    @property
    def columns(self) -> Columns:
        """Those of the table, and what kind of change it is."""
        return self.input.columns

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        order = ", ".join(f"{name}{' desc' if largest else ''}" for name, largest in self.order)
        return f"top {self.count}", f"by {', '.join(self.by)}, order {order}"


def rows_of(node: Node) -> Columns:
    """The columns of a table's rows, without those that tell what becomes of them."""
    known = node.columns
    return None if known is None else tuple(each for each in known if each not in (DELETED, CHANGE))
