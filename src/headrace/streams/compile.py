"""Nodes become DataFrames: one function per kind of node, and a connector where rows come from."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.streams.errors import InvalidFlow, UnknownColumn
from headrace.streams.names import did_you_mean
from headrace.streams.plan import (
    CHANGE,
    CONTROL,
    DELETED,
    HIDDEN,
    RECORDED,
    VALID_FROM,
    CorrectedTime,
    Expression,
    Node,
    Pipe,
    ReadTopics,
    Select,
    Where,
    WithColumns,
)
from headrace.streams.stateful import LateRows, Stateful, Upserts
from headrace.streams.stateful_joins import Lookup
from headrace.streams.stateful_tables import Integrated

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException
    from pyspark.sql import Column, DataFrame

    from headrace.streams.connectors import Connector
    from headrace.streams.plan import Telling
    from headrace.streams.state.keyed import Keyed
    from headrace.streams.state.remembering import StoredOperator
    from headrace.streams.timing import EventTime


def compile_node(node: Node, connector: "Connector", told: "Keyed | None" = None) -> "DataFrame":
    """The DataFrame that a node describes, with the connector's rows.

    `told` is the operator with state and what it has told in one batch, for those who run several
    outputs of it as one query.

    Raises InvalidFlow with the verb and the expression that Spark does not understand, and
    UnknownColumn with a suggestion.
    """
    return _Compilation(connector, told).of(node)


def compile_operators(
    node: Stateful, connector: "Connector", stored: "Sequence[StoredOperator]" = ()
) -> "list[Keyed]":
    """An operator with state on the connector's rows, behind those that it is behind.

    All that the last one tells is one DataFrame. `stored` is what the checkpoint remembers of each,
    if they have run before.
    """
    compilation = _Compilation(connector)
    compilation.stored = stored
    compilation.operator(node)
    return compilation.operators


class _Compilation:
    """One run over a graph, in which a node that is used twice becomes one DataFrame."""

    def __init__(
        self,
        connector: "Connector",
        told: "Keyed | None" = None,
        telling: "Telling | None" = None,
        time: "EventTime | None" = None,
        *,
        history: bool = False,
        held: bool = False,
    ) -> None:
        """Take what topics have to tell of time, and which time that is, if somebody needs it.

        With `history` tables say since when their rows hold; with `held` streams wait with their
        first records until tables are loaded.
        """
        self._connector = connector
        self._told = told
        self._telling = telling
        self._time = time
        self._history = history
        self._held = held
        self._done: dict[Node, DataFrame] = {}
        self.operators: list[Keyed] = []
        """Those of the whole query so far, as `operators_of` has them."""
        self.stored: Sequence[StoredOperator] = ()

    def operator(self, node: Stateful) -> "Keyed":
        from headrace.streams.operators import keyed_of
        from headrace.streams.timing import times_of

        if self._told is not None:
            return self._told
        times = times_of(node, wanted=self._telling is not None)
        rows = [
            self._below(node, each, time).of(each)
            for each, time in zip(node.inputs, times, strict=True)
        ]
        # Those in front are there by now, so this is its number in `operators_of`.
        number = len(self.operators)
        stored = self.stored[number] if number < len(self.stored) else None
        found = keyed_of(node, rows, times, number, stored)
        self.operators.append(found)
        return found

    def _below(self, node: Stateful, given: Node, time: "EventTime | None") -> "_Compilation":
        """The compilation of an input of an operator."""
        from headrace.streams.timing import telling_of

        lookup = node if isinstance(node, Lookup) else None
        below = _Compilation(
            self._connector,
            telling=None if time is None else telling_of(node, time, self._telling),
            time=time,
            history=lookup is not None and lookup.at is not None and given is lookup.table,
            held=self._held or (lookup is not None and lookup.bootstrap and given is lookup.input),
        )
        below.operators, below.stored = self.operators, self.stored
        return below

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
                return self._read(node)
            case CorrectedTime():
                from headrace.streams.correcting import corrected

                return self._observed(node, corrected(self.of(node.input), node))
            case Where():
                return _where(self.of(node.input), node)
            case Select():
                return _select(self.of(node.input), node)
            case Stateful():
                from headrace.streams.operators import results_of

                return results_of(node, self.operator(node), timed=self._telling is not None)
            case LateRows():
                return self.operator(node.input).output("late").drop(*HIDDEN)
            case Upserts():
                return _upserts(self.of(node.input))
            case Integrated():
                return _integrated(self.of(node.input), node)
            case WithColumns():
                rows = self.of(node.input)
                return rows.withColumns({name: column(each) for name, each in node.named.items()})
            case Pipe():
                return _piped(self.of(node.input), node)
            case _:
                raise AssertionError(f"nobody compiles {type(node).__name__}")

    def _read(self, node: ReadTopics) -> "DataFrame":
        history = self._history and bool(node.key)
        held = self._held and not node.key
        read = replace(node, telling=self._telling, history=history, held=held)
        rows = self._observed(node, self._connector.read(read))
        return _since(rows, node) if history else rows

    def _observed(self, node: Node, rows: "DataFrame") -> "DataFrame":
        """The rows of a node, with what they tell of time if that is observed there."""
        from headrace.streams.time.observed import observed

        time, telling = self._time, self._telling
        if time is None or telling is None or telling.time_from != "rows":
            return rows
        if time.origin is not node or not rows.isStreaming:
            return rows
        return observed(rows, time.column, time.rules)


def _since(changes: "DataFrame", node: ReadTopics) -> "DataFrame":
    """The changes of a table, each with since when it holds, and when it was recorded."""
    from pyspark.sql.functions import coalesce, col, when

    recorded = col("_timestamp")
    since = recorded
    if node.valid_from is not None:
        # Who deletes a row does not say since when that holds, so it holds since it was recorded.
        said = _moment(changes, col(f"`{node.valid_from}`"))
        since = when(~col(DELETED), coalesce(said, recorded))
        since = coalesce(since, recorded)
    times = {VALID_FROM: since.cast("timestamp"), RECORDED: recorded.cast("timestamp")}
    found = changes.withColumns(times)
    return found if "timestamp" in node.included else found.drop("_timestamp")


def _moment(rows: "DataFrame", time: "Column") -> "Column":
    """A column of time as a timestamp; integers are microseconds, as they are in event times."""
    from pyspark.sql.functions import timestamp_micros
    from pyspark.sql.types import IntegralType

    is_number = isinstance(rows.select(time).schema.fields[0].dataType, IntegralType)
    return timestamp_micros(time) if is_number else time.cast("timestamp")


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
    wanted = col(CHANGE) != "update_before"
    if CONTROL in changes.columns:
        wanted = wanted | col(CONTROL).isNotNull()
    kept = changes.where(wanted)
    return kept.withColumn(DELETED, col(CHANGE) == "delete").drop(CHANGE)


def _integrated(rows: "DataFrame", node: Integrated) -> "DataFrame":
    from pyspark.sql.functions import coalesce, lit

    gone = lit(False) if node.deleted is None else coalesce(column(node.deleted), lit(False))
    found = rows.withColumn(DELETED, gone)
    if node.valid_from is None:
        return found
    return found.withColumn(VALID_FROM, _moment(found, column(node.valid_from)))


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
    kept = [DELETED] if node.table else []
    kept += [each for each in HIDDEN if each in rows.columns]
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
    for each in HIDDEN:
        if each in rows.columns and each not in made.columns:
            _, name = node.label
            raise InvalidFlow(
                f"pipe: {name} leaves out the column {each}, which the windows behind it are cut "
                "by; keep it."
            )
    return made
