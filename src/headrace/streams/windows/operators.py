"""From the description of a window and its aggregates to the operator that computes it."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.streams.state.operator import Operator
from headrace.streams.windows.aligned import AlignedWindows
from headrace.streams.windows.durations import Duration
from headrace.streams.windows.kinds import Aligned, Session, Window
from headrace.streams.windows.layout import Layout
from headrace.streams.windows.measures import Call, Measures
from headrace.streams.windows.policies import policy
from headrace.streams.windows.sessions import SessionWindows
from headrace.streams.windows.unaligned import SlidingWindows


def window_operator(
    name: str,
    spec: Window,
    *,
    by: Sequence[str],
    aggregates: Mapping[str, Call],
    time: str,
    input_schema: Any,
    late: str = "drop",
    lateness: Duration | None = None,
    emit: str = "final",
) -> Operator:
    """The operator of a window.

    Args:
        name: The operator's, within its flow.
        spec: What `tumbling`, `hopping`, `sliding` or `session` gave.
        by: The columns that make a group; null is a group like any other. Without any the input is
            keyed by `layout.EVERYTHING`.
        aggregates: What is computed, by the name of the result.
        time: The column of event time: a timestamp, or an integer of microseconds.
        input_schema: The Arrow schema of the input, with the columns that the aggregates are of.
        late: `drop`, `side` or `correct`.
        lateness: How long after its end a window is corrected.
        emit: `final`, `updates` or `every` with a duration.

    Its outputs are `main`, the changes of a table keyed by window and group; `late`, rows that are
    in no window, unless they are dropped; and `counts`, how many those were.
    """
    layout = Layout(
        name,
        tuple(by),
        time,
        Measures(aggregates, input_schema, time),
        policy(late, lateness, emit),
        input_schema,
    )
    if isinstance(spec, Aligned):
        return AlignedWindows(layout, spec)
    if isinstance(spec, Session):
        return SessionWindows(layout, spec)
    return SlidingWindows(layout, spec)
