"""What a query keeps between batches, told from Spark's plan before the query starts."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STATEFUL: Final = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState",
        "GlobalLimit",
        "Join",
        "TransformWithState",
        "TransformWithStateInPySpark",
    }
)
"""Operators whose state a changed plan could not read."""

_STREAMING: Final = "~"
"""What Spark writes in front of operators that work on streams."""

_EXPRESSION_ID: Final = re.compile(r"#\d+L?")


def state_shape(rows: "DataFrame") -> tuple[str, ...]:
    """The stateful operators of a streaming query, in words that are the same for equal plans."""
    plan = rows._jdf.queryExecution().analyzed()
    texts = (each.simpleString(100).lstrip(_STREAMING) for each in _stateful(plan))
    return tuple(_EXPRESSION_ID.sub("", each) for each in texts)


def output_mode(shape: tuple[str, ...]) -> str:
    """How Spark is to hand over results: of an aggregate, each time it has changed."""
    aggregates = any(each.startswith("Aggregate") for each in shape)
    joins = any(each.startswith("Join") for each in shape)
    # Spark joins streams in append mode only, and aggregates behind that when they are final.
    return "update" if aggregates and not joins else "append"


def _stateful(plan: Any) -> Iterator[Any]:
    children = [plan.children().apply(number) for number in range(plan.children().size())]
    streaming = [each.isStreaming() for each in children]
    # A join with a table that stands still keeps nothing.
    keeps = all(streaming) if plan.nodeName() == "Join" else any(streaming)
    if plan.nodeName() in _STATEFUL and keeps:
        yield plan
    for each in children:
        yield from _stateful(each)
