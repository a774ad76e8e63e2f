"""Nodes become DataFrames: one function per kind of node, and a connector where rows come from."""

from typing import TYPE_CHECKING

from headrace.streams.errors import InvalidFlow, UnknownColumn
from headrace.streams.names import did_you_mean
from headrace.streams.plan import (
    DELETED,
    Expression,
    Node,
    Pipe,
    ReadTopics,
    Select,
    Where,
    WithColumns,
)

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException
    from pyspark.sql import Column, DataFrame

    from headrace.streams.connectors import Connector


def compile_node(node: Node, connector: "Connector") -> "DataFrame":
    """The DataFrame that a node describes, with the connector's rows.

    Raises InvalidFlow with the verb and the expression that Spark does not understand, and
    UnknownColumn with a suggestion.
    """
    return _Compilation(connector).of(node)


class _Compilation:
    """One run over a graph, in which a node that is used twice becomes one DataFrame."""

    def __init__(self, connector: "Connector") -> None:
        self._connector = connector
        self._done: dict[Node, DataFrame] = {}

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
                return self._connector.read(node)
            case Where():
                return _where(self.of(node.input), node)
            case Select():
                return _select(self.of(node.input), node)
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


def _where(rows: "DataFrame", node: Where) -> "DataFrame":
    if not node.table:
        return rows.where(column(node.condition))
    from pyspark.sql.functions import coalesce, col, lit

    # A row that no longer fulfils the condition may have been told of before, so it is deleted.
    fulfilled = coalesce(column(node.condition), lit(False))
    return rows.withColumn(DELETED, col(DELETED) | ~fulfilled)


def _select(rows: "DataFrame", node: Select) -> "DataFrame":
    named = [column(each).alias(name) for name, each in node.named.items()]
    kept = [DELETED] if node.table and "*" not in node.expressions else []
    return rows.select(*map(column, node.expressions), *named, *kept)


def _piped(rows: "DataFrame", node: Pipe) -> "DataFrame":
    from pyspark.sql import DataFrame

    made: object = node.function(rows)
    if not isinstance(made, DataFrame):
        _, name = node.label
        raise InvalidFlow(f"pipe: {name} returned {made!r}; it must return a DataFrame.")
    return made
