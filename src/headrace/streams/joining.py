"""`stream.join(...)` and `stream.lookup(...)`: from the words to nodes, and to keyed state."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.streams.errors import InvalidFlow
from headrace.streams.names import checked_choice
from headrace.streams.plan import CONTROL, HIDDEN, RECORDED, VALID_FROM, Node, ReadTopics, sources
from headrace.streams.rows import Rows, Stream, Table
from headrace.streams.stateful import LateRows, Upserts
from headrace.streams.stateful_joins import Lookup, StreamJoin, span_of
from headrace.streams.stateful_tables import Integrated
from headrace.streams.timing import event_time, time_of_table
from headrace.streams.windows.durations import microseconds, signed_microseconds, written

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
_CLAIMED = "_claimed"
"""The columns of the moment since which a row of a table counts, as the operator sees it, and since
which it says that it holds, if these can be different."""


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
    time = _waits_in(events.node, at, wait)
    if at is not None:
        _require_past(table.node, waits=time is not None, wait=wait)
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
        time,
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
    side = Side(arrow_schema(events), tuple(node.on), node.time)
    key = tuple(node.on.values())
    operator: Operator
    if node.at is None:
        table = table.drop(VALID_FROM, RECORDED)
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
        table = _counting(table, node.wait)
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
            node.wait or 0,
            None if node.wait is None else _CLAIMED,
        )
    inputs = {"events": Input(events, tuple(node.on)), "table": Input(table, key)}
    rules = {name: each.rules for name, each in zip(inputs, times, strict=True) if each is not None}
    # A table that does not change must not hold events back, whatever it says of when it changed.
    tracker = Tracker(rules, frozenset({"table"})) if rules else None
    buckets = None if stored is None else stored.buckets
    return keyed(inputs, operator, flow=node.flow, watermark=tracker, buckets=buckets)


def results(node: StreamJoin | Lookup, keyed: "Keyed", *, timed: bool) -> "DataFrame":
    """The rows that a join tells; with `timed`, with their time and control rows between them."""
    from headrace.streams.time.relaying import relayed

    if timed:
        return relayed(keyed, "main", _behind(node)).drop(_SINCE, _CLAIMED)
    return keyed.output("main").drop(_SINCE, _CLAIMED, *HIDDEN)


def meaning_and_bounds(node: StreamJoin | Lookup) -> tuple[str, dict[str, int]]:
    """What has to stay as it is while state is kept, and what may become shorter."""
    on = ", ".join(f"{left} = {right}" for left, right in node.on.items())
    if isinstance(node, StreamJoin):
        return f"{node.how} join of streams on {on} within {span_of(node)}", {}
    past = "" if node.at is None else f" at {node.at}"
    past += f" as known {written(node.wait)} later" if past and node.wait is not None else ""
    keep = {} if node.keep is None else {"keep": node.keep}
    return f"lookup on {on}{past}", keep


def arrow_schema(rows: "DataFrame") -> Any:
    """The columns of rows as operators see them."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(rows.drop(CONTROL).schema, timezone="UTC")


def _counting(table: "DataFrame", wait: int | None) -> "DataFrame":
    """The changes of a table with since when they count.

    That is since when they hold, or, if events wait for what is recorded later, at the earliest so
    long before they were recorded: for earlier events, they come too late in every run.
    """
    from pyspark.sql.functions import col, expr, greatest

    if wait is None:
        return table.withColumnRenamed(VALID_FROM, _SINCE).drop(RECORDED)
    known = col(RECORDED) - expr(f"make_dt_interval(0, 0, 0, {wait / 1_000_000:.6f})")
    counts = greatest(col(VALID_FROM), known)
    return table.withColumn(_SINCE, counts).withColumnRenamed(VALID_FROM, _CLAIMED).drop(RECORDED)


def _require_past(table: Node, *, waits: bool, wait: "Duration | None") -> None:
    """Refuse to look up the past of a table of which nobody knows how far it has been read."""
    if wait is not None and not waits:
        raise InvalidFlow(
            "With at=, events wait for rows that are recorded later than they hold, in event time: "
            "at= must name the column of the stream's event time, flow.stream(..., time=...)."
        )
    if wait is not None and not _is_read(table):
        raise InvalidFlow(
            "When the rows of a table were recorded, which wait= is about, is only known of one "
            "that is read with flow.table; leave wait= out."
        )
    limits = ("max_records_per_batch", "max_records_per_second")
    limited = [each for read in sources(table) for each in limits if each in read.options]
    if waits and limited and time_of_table(table) is None:
        raise InvalidFlow(
            f"A table that is made of a stream with {limited[0]} may not have been read as far as "
            "the events that look up its past; say what its event time is, flow.stream(..., "
            "time=...), so that they wait for it, or leave the limit out."
        )


def _is_read(table: Node) -> bool:
    """Whether the rows of a table are read from a topic, and not made of a stream or by others."""
    if isinstance(table, Integrated | Upserts):
        return False
    return isinstance(table, ReadTopics) or _is_read(table.inputs[0])


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
    if at is None:
        return None if wait is None else event_time(events).column
    try:
        column = event_time(events).column
    except InvalidFlow:
        return None
    return column if column == at else None
