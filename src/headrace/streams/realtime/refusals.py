"""What the real-time lane cannot do, said when it is described and not when it runs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from headrace.streams.errors import InvalidFlow
from headrace.streams.names import did_you_mean
from headrace.streams.outputs import TopicOutput
from headrace.streams.plan import CorrectedTime, ReadTopics, sources, steps_of
from headrace.streams.stateful import operator_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REALTIME: Final = "realtime"
"""The trigger by which an output asks for the lane."""

FORMATS: Final = ("json", "text", "raw")
"""What Spark itself can read; the others are decoded in Python."""

_PYTHON: Final = ("InPandas", "InArrow", "InPySpark")


def require_trigger(trigger: str | None) -> None:
    """Refuse a trigger that there is not."""
    if trigger is not None and trigger != REALTIME:
        hint = did_you_mean(trigger, [REALTIME])
        raise InvalidFlow(f"There is no trigger={trigger!r}; {hint} Without one, batches are run.")


def require_possible(output: TopicOutput) -> None:
    """Refuse an output that the lane cannot have, with what to change."""
    if output.trigger is None:
        return
    wrong = [each for read in sources(output.node) for each in _wrong_with(read)]
    if (operator := operator_of(output.node)) is not None:
        wrong.append(f"{operator.label[0]} keeps state between batches")
    if any(isinstance(each, CorrectedTime) for each in steps_of(output.node)):
        wrong.append("corrected_time is in it, but nobody would count implausible clocks")
    if output.timestamp is not None:
        wrong.append("timestamp= is given, and Spark's connector writes none; leave it out")
    if wrong:
        raise InvalidFlow(
            f'topic {output.topic} cannot have trigger="{REALTIME}": {"; ".join(wrong)}. Or leave '
            "the trigger out: batches can do all of that, exactly once."
        )


def require_stateless(rows: "DataFrame", output: TopicOutput) -> None:
    """Refuse what a function of `pipe` has brought in, now that Spark knows it."""
    from headrace.streams.running.state import state_shape

    wrong = None
    if shape := state_shape(rows):
        wrong = f"it keeps state ({shape[0]})"
    elif python := next(_python_operators(rows._jdf.queryExecution().analyzed()), None):
        wrong = f"it runs Python ({python})"
    if wrong is not None:
        raise InvalidFlow(
            f'topic {output.topic} cannot have trigger="{REALTIME}": {wrong}, and Spark\'s '
            "real-time mode has built-in expressions of single rows only. Leave the trigger out, "
            "or do that in another output, which reads what this one writes."
        )


def _wrong_with(read: ReadTopics) -> Iterator[str]:
    name = read.label[0]
    if read.key:
        yield f"{name} is a table; read its topic with flow.stream"
    if read.format not in FORMATS:
        yield f"{name} has the format {read.format}; there are {', '.join(FORMATS)}"
    if read.dead_letters is not None:
        yield f"{name} has dead_letters; without them, a record that does not parse fails the query"
    elif read.options.get("on_error", "fail") != "fail":
        yield f'{name} has on_error="skip", but nobody would count; say on_error="fail"'
    if read.options.get("on_gap", "fail") != "fail":
        yield f'{name} has on_gap="skip", but nobody would count; say on_gap="fail"'
    known = {"on_error", "on_gap", "include", "tombstones"}
    for option in sorted(read.options.keys() - known):
        yield f"{name} has {option}, which is for batches; leave it out"
    if read.pattern is not None and read.start not in ("earliest", "latest"):
        yield f"{name} starts from {read.start}; a pattern starts from earliest or latest"


def _python_operators(plan: Any) -> Iterator[str]:
    from headrace.streams.running.state import nodes_of

    for node in nodes_of(plan):
        if node.nodeName().endswith(_PYTHON) or "Python" in node.nodeName():
            yield node.nodeName()
        expressions = node.expressions()
        for number in range(expressions.size()):
            yield from _python_functions(expressions.apply(number))


def _python_functions(expression: Any) -> Iterator[str]:
    if "PythonUDF" in expression.getClass().getSimpleName():
        yield f"the function {expression.name()}"
    children = expression.children()
    for number in range(children.size()):
        yield from _python_functions(children.apply(number))
