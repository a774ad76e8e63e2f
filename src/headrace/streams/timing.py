"""Which time the events of a stream have, what is known of it, and where it is observed."""

from dataclasses import dataclass

from headrace.streams.errors import InvalidFlow
from headrace.streams.plan import (
    PROCESSED,
    WINDOW_TIME,
    CorrectedTime,
    Node,
    Pipe,
    ReadTopics,
    Telling,
)
from headrace.streams.stateful import LateRows, Stateful, Upserts, WindowAggregate
from headrace.streams.stateful_joins import Lookup, StreamJoin
from headrace.streams.stateful_tables import Integrated
from headrace.streams.time import Watermark
from headrace.streams.windows.durations import SECOND
from headrace.streams.windows.kinds import Aligned, Session
from headrace.streams.windows.policies import policy

_EXACT = Watermark(out_of_order="0 s")
"""What is known of the time of results: an operator tells how far it has come."""

_LOOK = 10 * SECOND
"""How long after its end a window of processing time may speak, if nothing comes."""


@dataclass(frozen=True, slots=True)
class EventTime:
    """The time of a stream's rows."""

    column: str
    rules: Watermark
    origin: ReadTopics | CorrectedTime | Stateful
    """Where it comes from, and is observed."""

    @property
    def time_from(self) -> str:
        """Where topics have it from that they tell, as `Telling` says it."""
        if self.column == PROCESSED:
            return "clock"
        by_source = isinstance(self.origin, ReadTopics) and not self.rules.has_expressions
        return "column" if by_source else "rows"


def event_time(node: Node) -> EventTime:
    """The event time of some rows: of the last step before them that says what it is.

    Raises InvalidFlow if no step does.
    """
    match node:
        case CorrectedTime():
            return EventTime(node.into, node.watermark, node)
        case WindowAggregate() | StreamJoin():
            return EventTime(WINDOW_TIME, _EXACT, node)
        case Lookup():
            return EventTime(event_time(node.input).column, _EXACT, node)
        case ReadTopics() if node.time is not None:
            return EventTime(node.time, node.watermark or Watermark(), node)
        case ReadTopics():
            raise InvalidFlow(
                "It has to be known when things happened: name the column where the stream is "
                'read, as in flow.stream(..., time="at"). Windows can also be cut by when events '
                'are read, with window(..., time="processing").'
            )
        case LateRows():
            raise InvalidFlow(
                "Rows that came too late are in no order of time any more, so no window can follow "
                "them in one flow; let them be a topic, and read that with flow.stream."
            )
        case Stateful():
            raise InvalidFlow(
                f"The changes of {node.label[0]} have no time of their own; let them be a topic, "
                "and read that with flow.stream(..., time=...)."
            )
        case _:
            return event_time(node.inputs[0])


def times_of(node: Stateful, *, wanted: bool) -> tuple[EventTime | None, ...]:
    """The time of each input of an operator, None where it needs none.

    With `wanted`, somebody behind it wants to know how far time has come.
    """
    match node:
        case WindowAggregate():
            return (time_of(node),)
        case StreamJoin():
            return event_time(node.left), event_time(node.right)
        case Lookup():
            events = event_time(node.input) if wanted or node.time else None
            past = node.at is not None and node.time is not None
            return events, time_of_table(node.table) if past else None
        case _:
            return (None,) * len(node.inputs)


def time_of_table(node: Node) -> EventTime | None:
    """The time of the stream that a table is made of; None if it is made of none that has one.

    A table that is read from a topic is read to its end in every batch, so nobody has to ask how
    far it has come.
    """
    if isinstance(node, Integrated):
        try:
            return event_time(node.input)
        except InvalidFlow:
            return None
    if isinstance(node, ReadTopics | Upserts):
        return None
    return time_of_table(node.inputs[0])


def time_of(node: WindowAggregate) -> EventTime:
    """The time that windows are cut by."""
    if node.time != PROCESSED:
        return event_time(node.input)
    return EventTime(PROCESSED, _EXACT, require_read(node.input))


def telling_of(node: Stateful, time: EventTime, behind: Telling | None) -> Telling:
    """What the topics in front of an operator have to tell of this time.

    `behind` is what those behind the operator have to be told.
    """
    waits = [time.rules.patience]
    if isinstance(node, WindowAggregate):
        waits.append(policy(node.late, node.lateness, node.emit).interval or None)
        if node.time == PROCESSED:
            waits.append(min(_step(node), _LOOK))
    ticks = [max(each // 1000, 1) for each in waits if each is not None]
    if behind is not None and behind.tick is not None:
        ticks.append(behind.tick)
    return Telling(time.time_from, min(ticks, default=None))


def require_read(node: Node) -> ReadTopics:
    """The topics that rows are read from, if no operator with state is in between."""
    if isinstance(node, ReadTopics):
        return node
    if isinstance(node, Stateful | LateRows):
        raise InvalidFlow(
            f"Results of {node.label[0]} are not read but made, and have a time already; leave "
            "time= and corrected_time out."
        )
    return require_read(node.inputs[0])


def require_no_pipe(node: Node) -> None:
    """Refuse a function between the topics and the place where time is observed."""
    if isinstance(node, Pipe):
        raise InvalidFlow(
            f"corrected_time cannot follow pipe {node.label[1]}, which the sources of time do not "
            "pass; put it in front, directly behind flow.stream if possible."
        )
    for each in node.inputs:
        require_no_pipe(each)


def _step(node: WindowAggregate) -> int:
    """How far apart windows end, about."""
    if isinstance(node.spec, Aligned):
        return node.spec.every
    return node.spec.gap if isinstance(node.spec, Session) else node.spec.size
