"""Nodes become DataFrames: one function per kind of node, and a connector where rows come from."""

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.streams.errors import InvalidFlow, UnknownColumn
from headrace.streams.names import did_you_mean
from headrace.streams.plan import (
    CHANGE,
    CONTROL,
    DELETED,
    Expression,
    LateRows,
    Node,
    Pipe,
    ReadTopics,
    Select,
    Upserts,
    Where,
    WindowAggregate,
    WithColumns,
)

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException
    from pyspark.sql import Column, DataFrame

    from headrace.streams.connectors import Connector
    from headrace.streams.state.keyed import Keyed
    from headrace.streams.state.remembering import StoredOperator


def compile_node(node: Node, connector: "Connector", told: "Keyed | None" = None) -> "DataFrame":
    """The DataFrame that a node describes, with the connector's rows.

    `told` is the operator with state and what it has told in one batch, for those who run several
    outputs of it as one query.

    Raises InvalidFlow with the verb and the expression that Spark does not understand, and
    UnknownColumn with a suggestion.
    """
    return _Compilation(connector, told).of(node)


def compile_operator(
    node: WindowAggregate, connector: "Connector", stored: "StoredOperator | None" = None
) -> "Keyed":
    """An operator with state on the connector's rows; all that it tells is one DataFrame.

    `stored` is what the checkpoint remembers of it, if it has run before.
    """
    return _Compilation(connector).operator(node, stored)


class _Compilation:
    """One run over a graph, in which a node that is used twice becomes one DataFrame."""

    def __init__(
        self, connector: "Connector", told: "Keyed | None" = None, tick: int | None = None
    ) -> None:
        self._connector = connector
        self._told = told
        self._tick = tick
        self._timed = False
        self._done: dict[Node, DataFrame] = {}
        self._operators: dict[Node, Keyed] = {}

    def operator(self, node: WindowAggregate, stored: "StoredOperator | None" = None) -> "Keyed":
        from headrace.streams.windowing import keyed_windows, tick_of

        if self._told is not None:
            return self._told
        if node not in self._operators:
            below = _Compilation(self._connector, tick=tick_of(node))
            below._timed = True
            self._operators[node] = keyed_windows(node, below.of(node.input), stored)
        return self._operators[node]

    def of(self, node: Node) -> "DataFrame":
        from pyspark.errors import AnalysisException

        if node not in self._done:
            try:
                self._done[node] = self._compiled(node)
            except AnalysisException as error:
                title, about = node.label
                raise explained(error, f"{title} {about}") from None
        return self._done[node]

    def _compiled(self, node: Node) -> "DataFrame":
        match node:
            case ReadTopics():
                if not self._timed:
                    return self._connector.read(node)
                return self._connector.read(replace(node, tells_time=True, tick=self._tick))
            case Where():
                return _where(self.of(node.input), node)
            case Select():
                return _select(self.of(node.input), node)
            case WindowAggregate():
                from headrace.streams.windowing import results

                return results(node, self.operator(node).output("main"))
            case LateRows():
                return self.operator(node.input).output("late")
            case Upserts():
                return _upserts(self.of(node.input))
            case WithColumns():
                rows = self.of(node.input)
                return rows.withColumns({name: column(each) for name, each in node.named.items()})
            case Pipe():
                return _piped(self.of(node.input), node)


def column(expression: Expression) -> "Column":
    """A Spark Column from either form of an expression."""
    from pyspark.sql.functions import expr

    return expr(expression) if isinstance(expression, str) else expression


def explained(error: "AnalysisException", place: str) -> InvalidFlow:
    """What Spark could not understand, in the terms of the flow that said it."""
    condition = error.getCondition() or ""
    parameters = error.getMessageParameters() or {}
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = parameters.get("objectName", "").replace("`", "")
        proposal = parameters.get("proposal", "").replace("`", "")
        known = [each.strip() for each in proposal.split(",") if each.strip()]
        return UnknownColumn(f"{place}: there is no column {name}; {did_you_mean(name, known)}")
    lines = str(error).strip().splitlines()
    said = lines[0].partition("] ")[2] or lines[0] if lines else condition
    return InvalidFlow(f"{place}: {said}")


def _upserts(changes: "DataFrame") -> "DataFrame":
    from pyspark.sql.functions import col

    # What a row was before does not matter to those who keep the last row of each key.
    kept = changes.where(col(CHANGE) != "update_before")
    return kept.withColumn(DELETED, col(CHANGE) == "delete").drop(CHANGE)


def _where(rows: "DataFrame", node: Where) -> "DataFrame":
    from pyspark.sql.functions import coalesce, col, lit

    if not node.table:
        condition = column(node.condition)
        if CONTROL in rows.columns:
            condition = condition | col(CONTROL).isNotNull()
        return rows.where(condition)

    # A row that no longer fulfils the condition may have been told of before, so it is deleted.
    fulfilled = coalesce(column(node.condition), lit(False))
    return rows.withColumn(DELETED, col(DELETED) | ~fulfilled)


def _select(rows: "DataFrame", node: Select) -> "DataFrame":
    named = [column(each).alias(name) for name, each in node.named.items()]
    kept = [DELETED] if node.table else [CONTROL] if CONTROL in rows.columns else []
    kept = [] if "*" in node.expressions else kept
    return rows.select(*map(column, node.expressions), *named, *kept)


def _piped(rows: "DataFrame", node: Pipe) -> "DataFrame":
    if CONTROL in rows.columns:
        # A function cannot be trusted with rows that are none. So they go around it, for which
        # Spark reads the source twice.
        around = rows.where(f"{CONTROL} is not null").select(CONTROL)
        made = _piped(rows.where(f"{CONTROL} is null").drop(CONTROL), node)
        return made.unionByName(around, allowMissingColumns=True)
    return _made(rows, node)


def _made(rows: "DataFrame", node: Pipe) -> "DataFrame":
    from pyspark.sql import DataFrame

    made: object = node.function(rows)
    if not isinstance(made, DataFrame):
        _, name = node.label
        raise InvalidFlow(f"pipe: {name} returned {made!r}; it must return a DataFrame.")
    return made
