"""What a query keeps between batches, told from Spark's plan before the query starts.

Spark compares stored state with a changed query late, and in words of its own: by the schema of
what is stored, when the first task opens it, and some changes it does not notice at all. So the
operators that keep something are described here by what their state depends on, and nothing else:
by what rows are grouped, with types and with how a grouping column is made (a window of another
length has the same schema), which functions of which types are kept, and what a join holds back.
"""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STREAMING: Final = "~"
"""What Spark writes in front of operators that work on streams."""

_NUMBERS: Final = re.compile(r"#\d+L?|-T\d+ms")
"""What differs from plan to plan: the numbers of columns, and the delay of a watermark, which may
change."""

_WATERMARK: Final = "EventTimeWatermark"


def state_shape(rows: "DataFrame") -> tuple[str, ...]:
    """The stateful operators of a streaming query, in words that are the same for equal state."""
    plan = rows._jdf.queryExecution().analyzed()
    nodes = list(nodes_of(plan))
    shape = [
        _DESCRIBED.get(each.nodeName(), _as_spark_does)(each) for each in nodes if _keeps(each)
    ]
    if any(each.nodeName() == "Join" and _keeps(each) for each in nodes):
        shape += _joined(rows)
    if shape:
        # Rows that are late, and state that is over, are found by this column.
        marks = (each for each in nodes if each.nodeName() == _WATERMARK)
        shape += [f"watermark on {_typed(each.eventTime())}" for each in marks]
    return tuple(shape)


def inputs_of(rows: "DataFrame") -> tuple[str, ...]:
    """What a streaming query reads, in the order in which Spark numbers its sources."""
    plan = rows._jdf.queryExecution().analyzed()
    leaves = (each for each in nodes_of(plan) if not each.children().size() and each.isStreaming())
    return tuple(map(_input, leaves))


def output_mode(shape: tuple[str, ...]) -> str:
    """How Spark is to hand over results: of an aggregate, each time it has changed."""
    aggregates = any(each.startswith("Aggregate") for each in shape)
    joins = any(each.startswith("Join") for each in shape)
    # Spark joins streams in append mode only, and aggregates behind that when they are final.
    return "update" if aggregates and not joins else "append"


def nodes_of(plan: Any) -> Iterator[Any]:
    """A plan's operators, each before what it is made of, from left to right."""
    yield plan
    for each in _each(plan.children()):
        yield from nodes_of(each)


def _keeps(node: Any) -> bool:
    if node.nodeName() not in _DESCRIBED:
        return False
    streaming = [each.isStreaming() for each in _each(node.children())]
    # A join with a table that stands still keeps nothing.
    return all(streaming) if node.nodeName() == "Join" else any(streaming)


def _aggregate(node: Any) -> str:
    made = (each for found in _each(node.aggregateExpressions()) for each in _functions(found))
    groups = ", ".join(_grouped(node, each) for each in _each(node.groupingExpressions()))
    return f"Aggregate by {groups or 'nothing'} of {', '.join(dict.fromkeys(made))}"


def _functions(expression: Any) -> Iterator[str]:
    """The aggregate functions inside of an expression, with the types that they work on."""
    if expression.getClass().getSimpleName() == "AggregateExpression":
        kept = expression.aggregateFunction()
        types = ", ".join(each.dataType().simpleString() for each in _each(kept.children()))
        yield f"{_plain(expression.sql())} of {types}"
        return
    for each in _each(expression.children()):
        yield from _functions(each)


def _deduplicate(node: Any) -> str:
    return f"{node.nodeName()} by {', '.join(_grouped(node, each) for each in _each(node.keys()))}"


def _join(node: Any) -> str:
    return _plain(node.simpleString(_EVERYTHING))


def _joined(rows: "DataFrame") -> list[str]:
    """The columns that joins hold back: those that are needed later, which the optimizer finds."""
    optimizer = rows.sparkSession._jsparkSession.sessionState().optimizer()
    plan = optimizer.execute(rows._jdf.queryExecution().analyzed())
    return [
        f"held back for a join: {each.schema().simpleString()}"
        for node in nodes_of(plan)
        if node.nodeName() == "Join" and _keeps(node)
        for each in _each(node.children())
    ]


def _transform(node: Any) -> str:
    grouping = list(_each(node.child().output()))[: node.groupingAttributesLen()]
    return f"{node.nodeName()} by {', '.join(map(_typed, grouping))}, {node.timeMode()}"


def _pandas_with_state(node: Any) -> str:
    groups = ", ".join(map(_typed, _each(node.groupingAttributes())))
    state = node.stateType().simpleString()
    return f"{node.nodeName()} by {groups} of {state}, {node.timeout()}"


def _as_spark_does(node: Any) -> str:
    return _plain(node.simpleString(_EVERYTHING))


_EVERYTHING: Final = 1 << 20
"""Columns up to which Spark spells out a plan."""

_DESCRIBED: Final[dict[str, Callable[[Any], str]]] = {
    "Aggregate": _aggregate,
    "Deduplicate": _deduplicate,
    "DeduplicateWithinWatermark": _deduplicate,
    "Distinct": _as_spark_does,
    "FlatMapGroupsInPandasWithState": _pandas_with_state,
    "FlatMapGroupsWithState": _as_spark_does,
    "GlobalLimit": _as_spark_does,
    "Join": _join,
    "TransformWithState": _as_spark_does,
    "TransformWithStateInPySpark": _transform,
}
"""The operators that keep state, and how each is described."""


def _grouped(node: Any, expression: Any) -> str:
    """A grouping column with its type and, where that can be seen, how it is made."""
    made = _definition(node, expression)
    return _typed(expression) + (f" = {made}" if made else "")


def _definition(node: Any, expression: Any) -> str | None:
    """The expression that a projection below gives the name of a column to."""
    if not expression.getClass().getSimpleName().startswith("AttributeReference"):
        return None
    wanted = expression.exprId()
    for each in nodes_of(node):
        if each.nodeName() == "Project":
            for column in _each(each.projectList()):
                is_alias = column.getClass().getSimpleName() == "Alias"
                if is_alias and column.exprId().equals(wanted):
                    return _plain(column.child().sql())
        if each.nodeName() == "Expand" and each.producedAttributes().contains(expression):
            return _plain(each.simpleString(_EVERYTHING))
    return None


def _typed(expression: Any) -> str:
    return f"{_plain(expression.sql())} {expression.dataType().simpleString()}"


def _input(leaf: Any) -> str:
    if leaf.getClass().getSimpleName() != "StreamingRelationV2":
        return str(leaf.nodeName())
    options = leaf.extraOptions()
    names = ("topics", "pattern", "subscribe", "subscribePattern", "path")
    found = (options.get(each) for each in names)
    return str(next((each for each in found if each is not None), leaf.sourceName()))


def _plain(text: str) -> str:
    return _NUMBERS.sub("", text.lstrip(_STREAMING)).replace("`", "")


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.size()))
