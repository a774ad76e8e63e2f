"""Which time the events of a stream have, what is known of it, and where it is observed."""

from dataclasses import dataclass

from headrace.streams.errors import InvalidFlow
from headrace.streams.plan import (
    PROCESSED,
    WINDOW_TIME,
    CorrectedTime,
    LateRows,
    Node,
    Pipe,
    ReadTopics,
    Telling,
    WindowAggregate,
)
from headrace.streams.time import Watermark
from headrace.streams.windows.durations import SECOND
from headrace.streams.windows.kinds import Aligned, Session
from headrace.streams.windows.policies import policy

_LOOK = 10 * SECOND
"""How long after its end a window of processing time may speak, if nothing comes."""


@dataclass(frozen=True, slots=True)
class EventTime:
    """The time of a stream's rows."""

    column: str
    rules: Watermark
    origin: ReadTopics | CorrectedTime | WindowAggregate
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
        case WindowAggregate():
            return EventTime(WINDOW_TIME, Watermark(out_of_order="0 s"), node)
        case ReadTopics() if node.time is not None:
            return EventTime(node.time, node.watermark or Watermark(), node)
        case ReadTopics():
            raise InvalidFlow(
                "A window needs to know when things happened: name the column where the stream is "
                'read, as in flow.stream(..., time="at"). Or count by when they are read, with '
                'window(..., time="processing").'
            )
        case LateRows():
            raise InvalidFlow(
                "Rows that came too late are in no order of time any more, so no window can follow "
                "them in one flow; let them be a topic, and read that with flow.stream."
            )
        case _:
            return event_time(node.inputs[0])


def time_of(node: WindowAggregate) -> EventTime:
    """The time that windows are cut by."""
    if node.time != PROCESSED:
        return event_time(node.input)
    return EventTime(PROCESSED, Watermark(out_of_order="0 s"), require_read(node.input))


def telling_of(node: WindowAggregate) -> Telling:
    """What the topics in front of windows have to tell of time."""
    time = time_of(node)
    said = policy(node.late, node.lateness, node.emit)
    waits = [time.rules.patience, said.interval or None]
    if node.time == PROCESSED:
        waits.append(min(_step(node), _LOOK))
    tick = min((max(each // 1000, 1) for each in waits if each is not None), default=None)
    if isinstance(time.origin, WindowAggregate):
        before = telling_of(time.origin)
        ticks = [each for each in (tick, before.tick) if each is not None]
        return Telling(before.time_from, min(ticks, default=None))
    return Telling(time.time_from, tick)


def require_read(node: Node) -> ReadTopics:
    """The topics that rows are read from, if no operator with state is in between."""
    if isinstance(node, ReadTopics):
        return node
    if isinstance(node, WindowAggregate | LateRows):
        raise InvalidFlow(
            "Results of windows are not read but made, and their time is that of their windows; "
            "leave time= and corrected_time out."
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
