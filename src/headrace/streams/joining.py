"""`stream.join(...)` and `stream.lookup(...)`: from the words to nodes, and to keyed state."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.streams.errors import InvalidFlow
from headrace.streams.names import checked_choice
from headrace.streams.plan import CONTROL, HIDDEN, VALID_FROM, Node
from headrace.streams.rows import Rows, Stream, Table
from headrace.streams.stateful import LateRows
from headrace.streams.stateful_joins import Lookup, StreamJoin, span_of
from headrace.streams.timing import event_time
from headrace.streams.windows.durations import microseconds, signed_microseconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.streams.flow import Flow
    from headrace.streams.state.keyed import Keyed
    from headrace.streams.state.remembering import StoredOperator
    from headrace.streams.timing import EventTime
    from headrace.streams.windows.durations import Duration

On: TypeAlias = str | Sequence[str] | Mapping[str, str]
"""Columns that both sides have, or those of the left side and what they equal on the right."""

Within: TypeAlias = "Duration | tuple[Duration, Duration]"
"""How far apart two events may be, or how much earlier and how much later the right one."""


_SINCE = "_since"
"""The column of the moment since which a row of a table holds, as the operator sees it."""


class JoinedStream(Stream):
    """Pairs of events, and events without a partner."""

    __slots__ = ("_join",)

    def __init__(self, flow: "Flow", join: StreamJoin) -> None:
        super().__init__(flow, join)
        self._join = join

    @property
    def main(self) -> "JoinedStream":
        """The pairs, which is this stream itself."""
        return self

    @property
    def late(self) -> Stream:
        """Events that came too late to find a partner, with `_reason` and the `_watermark`.

        They run as one query with the pairs and commit together.
        """
        if self._join.late == "drop":
            raise InvalidFlow(
                'With late="drop" events that come too late are only counted; say late="side" to '
                "have them."
            )
        return Stream(self._flow, LateRows(self._join))


def joined_streams(
    left: Stream,
    right: Rows,
    *,
    on: On,
    within: Within,
    how: str,
    condition: str | None,
    late: str,
    suffix: str,
) -> JoinedStream:
    """The join of two streams; InvalidFlow says which argument is wrong."""
    if isinstance(right, Table):
        raise InvalidFlow(
            "A stream is joined with a stream; the rows of a table are looked up: "
            "stream.lookup(table, on=...)."
        )
    if not isinstance(right, Stream):
        raise InvalidFlow(f"A stream is joined with a stream, not with {right!r}.")
    require_same_flow(left, right)
    checked_choice("how", how, ("inner", "left", "right", "full"))
    checked_choice("late", late, ("drop", "side"))
    before, after = _bounds(within)
    for each in (left.node, right.node):
        event_time(each)
    node = StreamJoin(
        left.node,
        right.node,
        checked_on(on),
        how,
        before,
        after,
        condition,
        late,
        suffix,
        left.flow.name,
    )
    return JoinedStream(left.flow, node)


def looked_up(
    events: Stream,
    table: Rows,
    *,
    on: On | None,
    how: str,
    at: str | None,
    wait: "Duration | None",
    keep: "Duration | None",
    bootstrap: bool,
    suffix: str,
) -> Stream:
    """Events with what a table says of them; InvalidFlow says which argument is wrong."""
    if not isinstance(table, Table):
        raise InvalidFlow(f"Rows are looked up in a Table, not in {table!r}.")
    require_same_flow(events, table)
    checked_choice("how", how, ("left", "inner"))
    pairs = checked_on(table.key if on is None else on)
    if set(pairs.values()) != set(table.key):
        raise InvalidFlow(
            f"lookup: the table's rows are told apart by {', '.join(table.key)}, so all of that "
            f'has to be in on, as in on={{"column of the stream": "{table.key[0]}"}}.'
        )
    if keep is not None and at is None:
        raise InvalidFlow("keep= is how long the past of a table is kept: say which moment, at=.")
    if wait is not None and at is not None:
        raise InvalidFlow(
            "wait= is for rows that come later than the events; with at=, the watermark says how "
            "long events wait: flow.stream(..., watermark=Watermark(out_of_order=...))."
        )
    node = Lookup(
        events.node,
        table.node,
        {
            left: right
            for right_key in table.key
            for left, right in pairs.items()
            if right == right_key
        },
        how,
        None if wait is None else microseconds(wait, "wait"),
        at,
        None if keep is None else microseconds(keep, "keep"),
        _waits_in(events.node, at, wait),
        bootstrap,
        suffix,
        events.flow.name,
    )
    return Stream(events.flow, node)


def checked_on(on: On) -> dict[str, str]:
    """The columns of the left side, and of the right side what they equal."""
    if isinstance(on, str):
        return {on: on}
    pairs = dict(on) if isinstance(on, Mapping) else {each: each for each in on}
    if not pairs:
        raise InvalidFlow('on= needs at least one column, as in on="user_id".')
    return pairs


def require_same_flow(left: Rows, right: Rows) -> None:
    """Refuse to join rows of different flows."""
    if left.flow is not right.flow:
        raise InvalidFlow(
            f"These rows belong to flow {right.flow.name}, and flow {left.flow.name} cannot join "
            "them; read the topics in this flow."
        )


def keyed_join(
    node: StreamJoin,
    rows: "Sequence[DataFrame]",
    times: "Sequence[EventTime | None]",
    name: str,
    stored: "StoredOperator | None" = None,
) -> "Keyed":
    """The operator of a join on its two streams, which have control rows among the others."""
    from headrace.streams.joins.sides import Side
    from headrace.streams.joins.within import WithinJoin
    from headrace.streams.state.keyed import Input, keyed
    from headrace.streams.time.tracker import Tracker

    known = [each for each in times if each is not None]
    sides = {
        side: Side(arrow_schema(given), key, time.column)
        for side, given, key, time in zip(
            ("left", "right"), rows, (tuple(node.on), tuple(node.on.values())), known, strict=True
        )
    }
    operator = WithinJoin(
        name,
        sides["left"],
        sides["right"],
        how=node.how,
        before=node.before,
        after=node.after,
        condition=node.condition,
        late=node.late,
        suffix=node.suffix,
    )
    inputs = {
        side: Input(given, sides[side].key)
        for side, given in zip(("left", "right"), rows, strict=True)
    }
    tracker = Tracker(dict(zip(("left", "right"), (each.rules for each in known), strict=True)))
    buckets = None if stored is None else stored.buckets
    return keyed(inputs, operator, flow=node.flow, watermark=tracker, buckets=buckets)


def keyed_lookup(
    node: Lookup,
    rows: "Sequence[DataFrame]",
    times: "Sequence[EventTime | None]",
    name: str,
    stored: "StoredOperator | None" = None,
) -> "Keyed":
    """The operator of a lookup on its events and its table."""
    from headrace.streams.joins.lookup import Lookup as CurrentLookup
    from headrace.streams.joins.sides import Side
    from headrace.streams.joins.versions import VersionedLookup
    from headrace.streams.state.keyed import Input, keyed
    from headrace.streams.state.operator import Operator
    from headrace.streams.time.tracker import Tracker

    events, table = rows
    time, _ = times
    side = Side(arrow_schema(events), tuple(node.on), node.time)
    key = tuple(node.on.values())
    operator: Operator
    if node.at is None:
        table = table.drop(VALID_FROM)
        operator = CurrentLookup(
            name, side, arrow_schema(table), key, node.on, node.how, node.wait, node.suffix
        )
    else:
        if VALID_FROM not in table.columns:
            raise InvalidFlow(
                f"{node.label[0]}: since when the rows of the table hold is not known, since it is "
                "made by an operator; read it from a topic, or say it with "
                "table.upserts().table(key=..., valid_from=...)."
            )
        table = table.withColumnRenamed(VALID_FROM, _SINCE)
        operator = VersionedLookup(
            name,
            side,
            arrow_schema(table),
            key,
            _SINCE,
            node.on,
            node.at,
            node.how,
            node.keep,
            node.suffix,
        )
    inputs = {"events": Input(events, tuple(node.on)), "table": Input(table, key)}
    tracker = None if time is None else Tracker({"events": time.rules})
    buckets = None if stored is None else stored.buckets
    return keyed(inputs, operator, flow=node.flow, watermark=tracker, buckets=buckets)


def results(node: StreamJoin | Lookup, keyed: "Keyed", *, timed: bool) -> "DataFrame":
    """The rows that a join tells; with `timed`, with their time and control rows between them."""
    from headrace.streams.time.relaying import relayed

    if timed:
        return relayed(keyed, "main", _behind(node)).drop(_SINCE)
    return keyed.output("main").drop(_SINCE, *HIDDEN)


def meaning_and_bounds(node: StreamJoin | Lookup) -> tuple[str, dict[str, int]]:
    """What has to stay as it is while state is kept, and what may become shorter."""
    on = ", ".join(f"{left} = {right}" for left, right in node.on.items())
    if isinstance(node, StreamJoin):
        return f"{node.how} join of streams on {on} within {span_of(node)}", {}
    past = "" if node.at is None else f" at {node.at}"
    keep = {} if node.keep is None else {"keep": node.keep}
    return f"lookup on {on}{past}", keep


def arrow_schema(rows: "DataFrame") -> Any:
    """The columns of rows as operators see them."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(rows.drop(CONTROL).schema, timezone="UTC")


def _behind(node: StreamJoin | Lookup) -> int:
    """How far behind the watermark the time of a row can be that is yet to be told."""
    if isinstance(node, Lookup):
        return (node.wait or 0) + 1
    unmatched = {"inner": 0, "left": node.after, "right": node.before}
    return max(unmatched.get(node.how, max(node.before, node.after)), 0) + 1


def _bounds(within: Within) -> tuple[int, int]:
    if not isinstance(within, tuple):
        length = microseconds(within, "within")
        return length, length
    before, after = (signed_microseconds(each, "within") for each in within)
    if before + after < 0:
        raise InvalidFlow(
            f"within={within!r} leaves no time: the first is how much earlier than the left event "
            "the right one may be, the second how much later."
        )
    return before, after


def _waits_in(events: Node, at: str | None, wait: "Duration | None") -> str | None:
    """The column of time that events wait in, if they have to."""
    if wait is not None:
        return event_time(events).column
    if at is None:
        return None
    try:
        column = event_time(events).column
    except InvalidFlow:
        return None
    return column if column == at else None
