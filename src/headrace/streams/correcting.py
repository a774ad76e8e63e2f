"""Whose clock? The time of events by a clock that is trusted, from the clocks of their senders.

Formally, an event occurred at o and was sent at s, both by the clock of the device, and arrived at
r by a clock that is trusted. The offset of the device's clock is r - s, if the way took no time,
and the corrected time is o + (r - s) = r - (s - o). Intuitively: how long ago it was when the
device sent it, counted back from when it arrived. It is never later than r, and too late by the
time that the way took.
"""

from typing import TYPE_CHECKING

from headrace.streams.errors import InvalidFlow
from headrace.streams.names import checked_choice
from headrace.streams.plan import (
    CONTROL,
    CorrectedTime,
    Expression,
    Node,
    require_columns,
    sources,
)
from headrace.streams.skipping import counted_implausible
from headrace.streams.time import Watermark
from headrace.streams.timing import require_no_pipe, require_read
from headrace.streams.windows.durations import Duration, microseconds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

IMPLAUSIBLE = ("received", "none")
"""What the time of an event is whose clocks cannot be believed: when it arrived, or none."""


def described(
    node: Node,
    *,
    occurred: Expression,
    sent: Expression,
    received: Expression,
    into: str,
    max_offset: Duration | None,
    max_delay: Duration | None,
    implausible: str,
    flag: str,
    watermark: Watermark | None,
) -> CorrectedTime:
    """The step that is meant; InvalidFlow says which argument is wrong."""
    require_no_pipe(node)
    require_read(node)
    checked_choice("implausible", implausible, IMPLAUSIBLE)
    if into == flag:
        raise InvalidFlow(f"The corrected time and its flag are both named {into}; rename one.")
    limits = {"max_offset": max_offset, "max_delay": max_delay}
    offset, delay = (
        None if each is None else microseconds(each, name) for name, each in limits.items()
    )
    (read,) = sources(node)
    rules = watermark or read.watermark or Watermark()
    named = [each for each in (rules.by, rules.until) if each is not None]
    step = CorrectedTime(
        node, occurred, sent, received, into, flag, offset, delay, implausible, rules
    )
    require_columns(tuple(named), step, "watermark")
    return step


def corrected(rows: "DataFrame", node: CorrectedTime) -> "DataFrame":
    """The rows with their corrected time, and with whether it can be believed.

    Of a clock it cannot be believed that something was sent before it occurred, that the clock is
    further off than `max_offset`, that something was sent more than `max_delay` after it occurred,
    or what one of the times does not say.
    """
    from pyspark.sql.functions import coalesce, col, lit, timestamp_micros, when

    occurred, sent, received = (_micros(each) for each in (node.occurred, node.sent, node.received))
    plausible = sent >= occurred
    if node.max_offset is not None:
        plausible &= (received - sent).between(-node.max_offset, node.max_offset)
    if node.max_delay is not None:
        plausible &= sent - occurred <= node.max_delay
    known = coalesce(plausible & received.isNotNull(), lit(False))
    otherwise = timestamp_micros(received) if node.implausible == "received" else lit(None)
    time = when(known, timestamp_micros(occurred + received - sent)).otherwise(otherwise)
    flag = ~known
    if CONTROL in rows.columns:
        flag = when(col(CONTROL).isNull(), flag)
    made = rows.withColumns({node.into: time.cast("timestamp"), node.flag: flag})
    return counted_implausible(made, when(made[node.flag], 1))


def _micros(expression: "str | Column") -> "Column":
    from pyspark.sql.functions import unix_micros

    from headrace.streams.compile import column

    return unix_micros(column(expression).cast("timestamp"))
