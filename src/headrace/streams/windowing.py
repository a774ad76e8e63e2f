"""`stream.window(...).agg(...)`: from the words to a node, and from the node to keyed state."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.streams.errors import InvalidFlow
from headrace.streams.names import checked_choice, did_you_mean
from headrace.streams.plan import (
    CHANGE,
    CONTROL,
    PROCESSED,
    WINDOW,
    WINDOW_TIME,
    Node,
    require_columns,
)
from headrace.streams.rows import Stream, Table
from headrace.streams.stateful import LateRows, Upserts, WindowAggregate
from headrace.streams.timing import EventTime, event_time, require_read
from headrace.streams.windows.kinds import Session, Sliding
from headrace.streams.windows.policies import policy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.streams.flow import Flow
    from headrace.streams.state.keyed import Keyed
    from headrace.streams.state.remembering import StoredOperator
    from headrace.streams.windows import Window
    from headrace.streams.windows.aggregates.protocol import Applied
    from headrace.streams.windows.durations import Duration
    from headrace.streams.windows.expressions import Parts
    from headrace.streams.windows.measures import Call


@dataclass(frozen=True, slots=True)
class Windowed:
    """A stream cut into windows, of which nothing is computed yet."""

    flow: "Flow"
    node: Node
    spec: "Window"
    by: tuple[str, ...]
    late: str
    lateness: "Duration | None"
    emit: str
    time: str = "event"

    def __post_init__(self) -> None:
        policy(self.late, self.lateness, self.emit)
        require_columns(self.by, self.node, "window")
        checked_choice("time", self.time, ("event", "processing"))
        if self.time == "processing" and self.late != "drop":
            raise InvalidFlow(
                f'late={self.late!r} makes no sense with time="processing": nothing is read before '
                "its time. Leave it out, or cut the windows by event time."
            )

    def agg(self, **aggregates: "str | Applied") -> "WindowTable":
        """What is computed of each window and group: `total="sum(price)"`, by any names.

        Aggregates are SQL, or `Applied` for those of your own; expressions of several are fine, as
        in `share="sum(paid) / count(*)"`.
        """
        from headrace.streams.windows.expressions import taken_apart

        if not aggregates:
            raise InvalidFlow('agg needs something to compute, as in n="count(*)".')
        if self.time == "processing":
            require_read(self.node)
            time = PROCESSED
        else:
            time = event_time(self.node).column
        node = WindowAggregate(
            self.node,
            self.spec,
            self.by,
            aggregates,
            time,
            self.late,
            self.lateness,
            self.emit,
            self.flow.name,
        )
        for name in (*node.key, CHANGE):
            if name in aggregates:
                raise InvalidFlow(f"agg: the result has a column {name} already; rename yours.")
        taken_apart(aggregates)
        return WindowTable(self.flow, node)


class WindowTable(Table):
    """The results of windows: one row per window and group."""

    __slots__ = ("_operator",)

    def __init__(self, flow: "Flow", operator: WindowAggregate) -> None:
        super().__init__(flow, Upserts(operator), operator.key)
        self._operator = operator

    @property
    def main(self) -> "WindowTable":
        """The results, which is this table itself."""
        return self

    @property
    def late(self) -> Stream:
        """Events that came too late, with `_reason` and the `_watermark` that they were behind.

        All outputs of one `agg`, this one too, run as one query and commit together.
        """
        if self._operator.late == "drop":
            raise InvalidFlow(
                'With late="drop" events that come too late are only counted; say late="side" to '
                'have them, or late="correct" to correct what was said.'
            )
        return Stream(self._flow, LateRows(self._operator))

    def changes(self) -> Stream:
        """Every change in the order it was made, in `_change` what kind it is.

        `insert` and `delete`, and for a result that is corrected the old row as `update_before`
        and the new one as `update_after`.
        """
        return Stream(self._flow, self._operator)

    def _next(self, node: Node) -> Any:
        return Table(self._flow, node, self.key)


def keyed_windows(
    node: WindowAggregate,
    rows: "DataFrame",
    time: EventTime,
    name: str,
    stored: "StoredOperator | None" = None,
) -> "Keyed":
    """The operator of windows on its input, which has control rows among the others.

    `stored` is what the checkpoint remembers of it, if it has run before.
    """
    from pyspark.sql.functions import expr, lit
    from pyspark.sql.pandas.types import to_arrow_schema

    from headrace.streams.state.keyed import Input, keyed
    from headrace.streams.time.tracker import Tracker
    from headrace.streams.windows.expressions import taken_apart
    from headrace.streams.windows.layout import EVERYTHING, INPUT
    from headrace.streams.windows.operators import window_operator

    _require_time(node, rows)
    parts = taken_apart(node.aggregates)
    events = rows.withColumns({name: expr(each) for name, each in parts.arguments.items()})
    if node.late == "drop":
        told = [CONTROL] if CONTROL in events.columns else []
        chosen = dict.fromkeys((*node.by, node.time, *parts.arguments, *told))
        events = events.select(*(f"`{name}`" for name in chosen))
    if not node.by:
        events = events.withColumn(EVERYTHING, lit(0).cast("byte"))
    operator = window_operator(
        name,
        node.spec,
        by=node.by,
        aggregates=_calls(parts, stored),
        time=node.time,
        input_schema=to_arrow_schema(events.drop(CONTROL).schema, timezone="UTC"),
        late=node.late,
        lateness=node.lateness,
        emit=node.emit,
    )
    tracker = Tracker({INPUT: time.rules})
    inputs = {INPUT: Input(events, node.by or (EVERYTHING,))}
    buckets = None if stored is None else stored.buckets
    return keyed(inputs, operator, flow=node.flow, watermark=tracker, buckets=buckets)


def results(node: WindowAggregate, keyed: "Keyed", *, timed: bool = False) -> "DataFrame":
    """The changes of the table, with the expressions over what the window has computed.

    With `timed`, for windows behind these, with their own time and control rows between them.
    """
    from pyspark.sql.functions import expr

    from headrace.streams.time.relaying import relayed
    from headrace.streams.windows.expressions import taken_apart

    main = relayed(keyed, "main", _behind(node)) if timed else keyed.output("main")
    parts = taken_apart(node.aggregates)
    kept = [f"`{name}`" for name in node.key]
    made = [expr(each).alias(name) for name, each in parts.results.items()]
    if not timed:
        return main.select(*kept, *made, CHANGE)
    # The end of a window is the first moment of the next, unless it is an event's own time.
    _, end = WINDOW
    last = end if isinstance(node.spec, Sliding) else f"{end} - interval 1 microsecond"
    return main.select(*kept, *made, CHANGE, expr(last).alias(WINDOW_TIME), CONTROL)


def state_of(
    node: WindowAggregate, keyed: "Keyed", stored: "StoredOperator | None"
) -> "StoredOperator":
    """What the checkpoint of windows has to remember, if it remembered `stored` before."""
    from headrace.streams.state.evolution import shape_of
    from headrace.streams.state.remembering import StoredOperator
    from headrace.streams.windows.expressions import taken_apart

    said = policy(node.late, node.lateness, node.emit)
    by = ", ".join(node.by) or "nothing"
    cut = " of processing time" if node.time == PROCESSED else ""
    results = "can change" if said.remembers else "are final"
    calls = _calls(taken_apart(node.aggregates), stored)
    return StoredOperator(
        f"window {node.spec}{cut} by {by} with results that {results} once they are told",
        keyed.buckets,
        shape_of(keyed.description),
        {name: call.added for name, call in calls.items()},
        {"lateness": said.lateness},
    )


def _calls(parts: "Parts", stored: "StoredOperator | None") -> "dict[str, Call]":
    """The aggregates, each with whether there may be state that was kept without it."""
    if stored is None:
        return parts.calls
    return {
        name: replace(call, added=stored.parts.get(name, True))
        for name, call in parts.calls.items()
    }


def _behind(node: WindowAggregate) -> int:
    """How far behind the watermark the time of a result can be that is yet to be told."""
    lateness = policy(node.late, node.lateness, node.emit).lateness
    # A session ends only when the watermark is past its end.
    return lateness + isinstance(node.spec, Session)


def _require_time(node: WindowAggregate, rows: "DataFrame") -> None:
    kinds = {field.name: field.dataType.simpleString() for field in rows.schema}
    if node.time not in kinds:
        raise InvalidFlow(
            f"{node.label[0]}: the column of time, {node.time}, is not there any more; "
            f"{did_you_mean(node.time, [each for each in kinds if each != CONTROL])}"
        )
    if kinds[node.time] not in ("timestamp", "timestamp_ntz", "bigint"):
        raise InvalidFlow(
            f"{node.label[0]}: {node.time} is of type {kinds[node.time]}, which is no time; make "
            "it a timestamp."
        )
