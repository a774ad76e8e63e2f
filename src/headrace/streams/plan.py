"""What a flow is made of, before anything runs: frozen nodes that point at their inputs.

A node is a description and holds no Spark. `headrace.streams.compile` turns nodes into DataFrames,
`headrace.streams.graph` draws them. Nodes are equal only if they are the same node, since two reads
of one topic are two reads.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, Union

from headrace.streams.errors import UnknownColumn
from headrace.streams.misspelling import aliases, misspelled
from headrace.streams.names import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from headrace.streams.time import Watermark

Expression: TypeAlias = Union[str, "Column"]
"""A Spark SQL expression as text, or a Spark Column."""

Columns: TypeAlias = tuple[str, ...] | None
"""The names of a node's columns; None if only Spark can tell."""

DELETED = "_deleted"
"""The column that tells, in the changes of a table, that the row of this key is gone."""

CONTROL = "_control"
"""The column of what a source tells of time: null in rows, and the only value of a row that tells
it and is none."""

PROCESSED = "_processed_at"
"""The column of the clock of the batch in which a row is read, where windows are cut by that."""

TIME_SOURCE = "_time_source"
"""The column that names the source of time of a row, where time is observed behind the source."""

CHANGE = "_change"
"""The column that tells what kind of change a row is: insert, update_before, update_after or
delete."""

WINDOW = ("window_start", "window_end")
"""The columns that say which window a result is of."""

WINDOW_TIME = "_window_time"
"""The column of a result's own time, for the windows behind: the last moment of its window."""

VALID_FROM = "_valid_from"
"""The column of the moment since which a row of a table holds, where its past is asked for."""

RECORDED = "_recorded_at"
"""The column of the time of a change's record, where it matters what was known when."""

HIDDEN = (CONTROL, PROCESSED, TIME_SOURCE, WINDOW_TIME, VALID_FROM, RECORDED)
"""Columns that verbs carry on without being asked to."""

_COLUMN = re.compile(r"[^\W\d]\w*")
_RENAMED = re.compile(r".*\sas\s+`?(\w+)`?\s*", re.IGNORECASE | re.DOTALL)


class Node(Protocol):
    """One step of a flow: here are those without state, in `stateful` those with."""

    @property
    def inputs(self) -> tuple["Node", ...]:
        """The steps whose rows it takes."""
        ...

    @property
    def columns(self) -> Columns:
        """The names of its columns."""
        ...

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        ...


@dataclass(frozen=True, slots=True)
class Telling:
    """What a source tells of time, in control rows between its rows."""

    time_from: str = "column"
    """`column` if it observes the column of event time itself; `clock` if time is when a batch is
    read; `rows` if time is observed behind it."""

    tick: int | None = None
    """Milliseconds of silence after which there is a batch that tells nothing but the time."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadTopics:
    """The records of topics as rows, or, with a key, the changes of a table."""

    topics: tuple[str, ...]
    pattern: str | None
    format: str
    schema: "StructType | None"
    """The columns that were asked for; formats with a registry know them without."""

    rows: "StructType | None"
    """The columns that the format makes of them, if that is known without asking a registry."""

    options: Mapping[str, str]
    start: str
    time: str | None = None
    key: tuple[str, ...] = ()
    dead_letters: str | None = None
    watermark: "Watermark | None" = None
    """What is known of its time, if more than what is usual."""

    telling: "Telling | None" = None
    """What is told of time between the rows; compiling says it where somebody wants to know."""

    valid_from: str | None = None
    """The column that says since when a row of a table holds, if not since it was recorded."""

    history: bool = False
    """Whether all changes of a table are wanted with the time of their records; compiling says it
    where its past is asked for."""

    held: bool = False
    """Whether the first batch reads nothing, since tables are loaded in it; compiling says it."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """None: this is where rows come from."""
        return ()

    @property
    def schema_names(self) -> tuple[str, ...]:
        """The columns that the format gives, as far as they are known."""
        return tuple(self.rows.names) if self.rows is not None else ()

    @property
    def columns(self) -> Columns:
        """Those of the schema, what else was asked for, and whether a table's row is gone."""
        if self.rows is None:
            return None
        marks = (DELETED,) if self.key else ()
        return (*self.rows.names, *(f"_{each}" for each in self.included), *marks)

    @property
    def included(self) -> tuple[str, ...]:
        """What rows tell of their records."""
        return tuple(each for each in self.options.get("include", "").split(",") if each)

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        names = ", ".join(self.topics) if self.topics else f"/{self.pattern}/"
        said = [f"key {', '.join(self.key)}"] if self.key else []
        said += [f"time {self.time}"] if self.time else []
        said += [f"from {self.start}"] if self.start != "earliest" else []
        said += [f"dead letters to {self.dead_letters}"] if self.dead_letters else []
        return f"{'table' if self.key else 'stream'} {names}", ", ".join(said)


@dataclass(frozen=True, slots=True, eq=False)
class Where:
    """The rows for which a condition is true; of a table, the keys for which it is."""

    input: Node
    condition: Expression
    table: bool = False

    def __post_init__(self) -> None:
        require_columns((self.condition,), self.input, "where")

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The rows it chooses from."""
        return (self.input,)

    @property
    def columns(self) -> Columns:
        """Those of its input."""
        return self.input.columns

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        return "where", written(self.condition)


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """Columns in the place of those that were there."""

    input: Node
    expressions: tuple[Expression, ...]
    named: Mapping[str, Expression] = field(default_factory=dict)
    table: bool = False
    """Whether they are the columns of a table, whose deletions are told on."""

    def __post_init__(self) -> None:
        expressions = (*self.expressions, *self.named.values())
        require_columns(expressions, self.input, "select", self.named)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The rows it takes columns from."""
        return (self.input,)

    @property
    def columns(self) -> Columns:
        """Those that are named; None if one has no name of its own."""
        names = [_name_of(each, self.input.columns) for each in self.expressions]
        if None in names:
            return None
        chosen = [name for found in names if found for name in found]
        return tuple(dict.fromkeys((*chosen, *self.named, *((DELETED,) if self.table else ()))))

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        return "select", ", ".join((*map(written, self.expressions), *_assigned(self.named)))


@dataclass(frozen=True, slots=True, eq=False)
class WithColumns:
    """Columns beside those that were there, or in the place of one of the same name."""

    input: Node
    named: Mapping[str, Expression]

    def __post_init__(self) -> None:
        require_columns(tuple(self.named.values()), self.input, "with_columns", self.named)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The rows it adds columns to."""
        return (self.input,)

    @property
    def columns(self) -> Columns:
        """Those of its input and the new ones."""
        if self.input.columns is None:
            return None
        return tuple(dict.fromkeys((*self.input.columns, *self.named)))

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        return "with_columns", ", ".join(_assigned(self.named))


@dataclass(frozen=True, slots=True, eq=False)
class CorrectedTime:
    """The time of events by a clock that is trusted, from the clocks of those who sent them."""

    input: Node
    occurred: Expression
    sent: Expression
    received: Expression
    into: str
    flag: str
    """The column that says of which rows the clocks cannot be believed."""

    max_offset: int | None
    max_delay: int | None
    """Both in microseconds."""

    implausible: str
    watermark: "Watermark"

    def __post_init__(self) -> None:
        require_columns((self.occurred, self.sent, self.received), self.input, "corrected_time")

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The rows whose time it is."""
        return (self.input,)

    @property
    def columns(self) -> Columns:
        """Those of its input, the time, and whether it can be believed."""
        if self.input.columns is None:
            return None
        return tuple(dict.fromkeys((*self.input.columns, self.into, self.flag)))

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        made = f"{written(self.occurred)} + {written(self.received)} - {written(self.sent)}"
        return "corrected_time", f"{self.into} = {made}"


@dataclass(frozen=True, slots=True, eq=False)
class Pipe:
    """Whatever a function makes of a DataFrame."""

    input: Node
    function: Callable[["DataFrame"], "DataFrame"]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """What the function is given."""
        return (self.input,)

    @property
    def columns(self) -> Columns:
        """Only Spark can tell."""
        return None

    @property
    def label(self) -> tuple[str, str]:
        """What it is called in a drawing, and the rest that is said about it."""
        return "pipe", getattr(self.function, "__name__", type(self.function).__name__)


def sources(node: Node) -> Iterator[ReadTopics]:
    """Where the rows of a node come from, each read once, in the order they are met."""
    return (each for each in steps_of(node) if isinstance(each, ReadTopics))


def steps_of(node: Node) -> Iterator[Node]:
    """A node and all that its rows are made by, each once, those nearest to it first."""
    seen: set[Node] = set()
    waiting = [node]
    while waiting:
        each = waiting.pop(0)
        if each in seen:
            continue
        seen.add(each)
        yield each
        waiting.extend(each.inputs)


def is_column(expression: Expression) -> bool:
    """Whether an expression is nothing but the name of a column."""
    return isinstance(expression, str) and _COLUMN.fullmatch(expression) is not None


def require_columns(
    expressions: tuple[Expression, ...], node: Node, verb: str, named: Iterable[str] = ()
) -> None:
    """Refuse plain names that are no columns, and in expressions what is nearly one.

    What only Spark understands is left to Spark. `named` are columns that the verb makes.
    """
    known = node.columns
    if known is None:
        return
    folded = {"true", "false", "null", *(name.lower() for name in known)}
    for each in expressions:
        if not isinstance(each, str):
            continue
        wrong = misspelled(each, known, (*named, *aliases(expressions)))
        if is_column(each):
            wrong = each if each.lower() not in folded else None
        if wrong is not None:
            hint = did_you_mean(wrong, known)
            raise UnknownColumn(f"{verb}: there is no column {wrong}; {hint}")


def written(expression: Expression) -> str:
    """An expression as it is shown to people."""
    if isinstance(expression, str):
        return " ".join(expression.split())
    return str(expression).removeprefix("Column<'").removesuffix("'>")


def _assigned(named: Mapping[str, Expression]) -> Iterator[str]:
    return (f"{name} = {written(each)}" for name, each in named.items())


def _name_of(expression: Expression, known: Columns) -> tuple[str, ...] | None:
    """The names of the columns that a selected expression makes, if they can be read off it."""
    if not isinstance(expression, str):
        return None
    if expression.strip() == "*":
        return known
    if _COLUMN.fullmatch(expression):
        return (expression,)
    renamed = _RENAMED.fullmatch(expression)
    return (renamed[1],) if renamed else None
