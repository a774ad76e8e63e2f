"""The verbs that streams and tables share."""

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Self

from headrace.streams.errors import InvalidFlow
from headrace.streams.graph import draw
from headrace.streams.picture import picture
from headrace.streams.plan import Columns, Expression, Node, Pipe, Select, Where, WithColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.streams.flow import Flow
    from headrace.streams.joining import JoinedStream, On, Within
    from headrace.streams.tabling import Groups
    from headrace.streams.time import Watermark
    from headrace.streams.windowing import Windowed
    from headrace.streams.windows import Window
    from headrace.streams.windows.durations import Duration


class Rows:
    """Rows of a flow, described and not yet read; every verb gives a new object.

    Expressions are Spark SQL as text, or Spark Columns, which need a running Spark.
    """

    __slots__ = ("_flow", "_node")

    def __init__(self, flow: "Flow", node: Node) -> None:
        self._flow = flow
        self._node = node

    @property
    def flow(self) -> "Flow":
        """The flow that these rows belong to."""
        return self._flow

    @property
    def node(self) -> Node:
        """What they are made by."""
        return self._node

    @property
    def columns(self) -> Columns:
        """The names of the columns; None where only Spark can tell, which `.df` does."""
        return self._node.columns

    @property
    def df(self) -> "DataFrame":
        """The streaming DataFrame underneath; starts Spark if it is not running."""
        from headrace.streams.compile import compile_node

        return compile_node(self._node, self._flow.connector())

    def select(self, *expressions: Expression, **named: Expression) -> Self:
        """Keep these columns; `name="expression"` makes new ones."""
        if not expressions and not named:
            raise InvalidFlow("select needs at least one column.")
        return self._next(Select(self._node, expressions, named))

    def with_columns(self, **named: Expression) -> Self:
        """Add columns, or replace those of the same name; each is made of the columns before."""
        if not named:
            raise InvalidFlow('with_columns needs columns, as in total="price * quantity".')
        return self._next(WithColumns(self._node, named))

    def pipe(self, function: "Callable[[DataFrame], DataFrame]") -> Self:
        """Apply any function from DataFrame to DataFrame, so that all of Spark is within reach."""
        if not callable(function):
            raise InvalidFlow(f"pipe takes a function of a DataFrame, not {function!r}.")
        return self._next(Pipe(self._node, function))

    def _next(self, node: Node) -> Self:
        following = copy(self)
        following._node = node
        return following

    def __str__(self) -> str:
        return draw(self._flow.name, [self._node], [])

    def __repr__(self) -> str:
        kind = type(self).__name__
        columns = ", ".join(self.columns) if self.columns is not None else "known to Spark"
        return f"<{kind} of flow {self._flow.name!r}: {columns}>"

    def _repr_html_(self) -> str:
        return picture([self._node], [])


class Stream(Rows):
    """What happened: rows that are only ever added."""

    __slots__ = ()

    def where(self, condition: Expression) -> Self:
        """Keep the rows for which the condition is true."""
        return self._next(Where(self._node, condition))

    def corrected_time(
        self,
        *,
        occurred: Expression,
        sent: Expression,
        received: Expression,
        into: str,
        max_offset: "Duration | None" = None,
        max_delay: "Duration | None" = None,
        implausible: str = "received",
        flag: str = "implausible_clock",
        watermark: "Watermark | None" = None,
    ) -> Self:
        """Estimate when things happened, where the clocks of those who tell it cannot be trusted.

        Args:
            occurred: When it happened, by the clock of the device.
            sent: When the device sent it, by the same clock.
            received: When it arrived, by a clock that is trusted. The difference to `sent` is how
                far the device's clock is off, but for the time that the way took.
            into: The column of the corrected time, which is the event time from here on.
            max_offset: How far off a clock may be to be believed.
            max_delay: How long after an event it may be sent to be believed.
            implausible: The time of events whose clocks cannot be believed: when they were
                `received`, or `none`. Either way they are kept, flagged and counted.
            flag: The column that says of which rows the clocks are not believed.
            watermark: What is known of the corrected time; by default what the stream says.

        Time is observed here: a `where` in front of this holds it back, one behind does not.
        """
        from headrace.streams.correcting import described

        return self._next(
            described(
                self._node,
                occurred=occurred,
                sent=sent,
                received=received,
                into=into,
                max_offset=max_offset,
                max_delay=max_delay,
                implausible=implausible,
                flag=flag,
                watermark=watermark,
            )
        )

    def window(
        self,
        spec: "Window",
        *,
        by: str | Sequence[str] = (),
        late: str = "drop",
        lateness: "Duration | None" = None,
        emit: str = "final",
        time: str = "event",
    ) -> "Windowed":
        """Cut time into windows, of which `agg` then computes something.

        Args:
            spec: `tumbling`, `hopping`, `sliding` or `session` of `headrace.streams.windows`.
            by: Columns; each combination of their values has windows of its own.
            late: What becomes of events whose windows are over: `drop` them, or have them as a
                stream of their own with `side`; `correct` what was said, and deliver only those
                that come more than `lateness` after the end of their window.
            lateness: How long a window can be corrected, for which its results are kept.
            emit: `final` says a result once, when the watermark has passed the window; `updates`
                with every batch that changes it, `every 10 seconds` so often by the clock.
            time: `event` for when things happened, or `processing` for when the batch that reads
                them is planned, which counts spikes that never were.

        Event time is the stream's `time`, and how far it has come its `watermark` says; of the
        changes of other windows it is the last moment of the window.
        """
        from headrace.streams.windowing import Windowed

        groups = (by,) if isinstance(by, str) else tuple(by)
        return Windowed(self._flow, self._node, spec, groups, late, lateness, emit, time)

    def join(
        self,
        other: "Stream",
        *,
        on: "On",
        within: "Within",
        how: str = "inner",
        condition: str | None = None,
        late: str = "drop",
        suffix: str = "_right",
    ) -> "JoinedStream":
        """Pair events of two streams that belong together and are not too far apart in time.

        Args:
            other: The right stream, perhaps this one itself.
            on: Columns that both have, or `{"column": "column of the other"}`.
            within: How far apart the two may be, either of them first; or how much earlier and how
                much later the right one, as in `("0 s", "1 hour")`.
            how: `left`, `right` and `full` also tell of events that found no partner, when none can
                come any more.
            condition: What pairs have to fulfil besides, as SQL over the columns of the result.
            late: What becomes of events that come after the watermark, and can find no partner:
                `drop` and count them, or have them as a stream of their own with `side`.
            suffix: What is added to the names of columns on the right that are there on the left.
        """
        from headrace.streams.joining import joined_streams

        return joined_streams(
            self,
            other,
            on=on,
            within=within,
            how=how,
            condition=condition,
            late=late,
            suffix=suffix,
        )

    def lookup(
        self,
        table: "Table",
        *,
        on: "On | None" = None,
        how: str = "left",
        at: str | None = None,
        wait: "Duration | None" = None,
        keep: "Duration | None" = None,
        bootstrap: bool = True,
        suffix: str = "_right",
    ) -> "Stream":
        """Add the columns that a table has for each event, now or at the event's own time.

        Args:
            table: The table; a copy of it is kept beside the events, and its changes follow.
            on: Columns that equal its key: their names, or `{"column": "column of the key"}`. By
                default those that are named like the key.
            how: `left` keeps events without a row, `inner` does not.
            at: The column of the moment whose row is meant, as it was valid then: since the table's
                `valid_from`, or since it was recorded.
            wait: How long, in event time, an event without a row waits for one. With `at`, every
                event waits so long, for rows that are recorded later than they hold; what is
                recorded later still does not count for it in any run.
            keep: How long rows are kept that hold no more; for ever if it is not said.
            bootstrap: Whether the table is loaded, as it is at the start, before the first event.
            suffix: What is added to the names of columns of the table that events have, too.
        """
        from headrace.streams.joining import looked_up

        return looked_up(
            self,
            table,
            on=on,
            how=how,
            at=at,
            wait=wait,
            keep=keep,
            bootstrap=bootstrap,
            suffix=suffix,
        )

    def table(
        self,
        *,
        key: str | Sequence[str],
        deleted: Expression | None = None,
        valid_from: Expression | None = None,
    ) -> "Table":
        """The last event of each key, as a table.

        Events of one key have to be in one partition of their topic, so that it is known which is
        the last.

        Args:
            key: The columns that tell rows apart.
            deleted: Tells of an event that it deletes the row of its key.
            valid_from: Since when its row holds, for those who look at the table's past.
        """
        from headrace.streams.tabling import integrated

        return integrated(self, (key,) if isinstance(key, str) else tuple(key), deleted, valid_from)


class Table(Rows):
    """What is: one row per key, which later records replace or delete.

    A stream of it is its changes: rows as they become, and the column `_deleted` for those that are
    gone. A batch of it is the rows that are there at the end of the range.
    """

    __slots__ = ("_key",)

    def __init__(self, flow: "Flow", node: Node, key: tuple[str, ...]) -> None:
        super().__init__(flow, node)
        self._key = key

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell rows apart."""
        return self._key

    def where(self, condition: Expression) -> Self:
        """Keep the keys whose row fulfils the condition; one that no longer does is deleted."""
        return self._next(Where(self._node, condition, table=True))

    def select(self, *expressions: Expression, **named: Expression) -> Self:
        """Keep these columns, and the key."""
        chosen = {each for each in expressions if isinstance(each, str)} | named.keys()
        kept = () if "*" in chosen else tuple(each for each in self._key if each not in chosen)
        return self._next(Select(self._node, (*kept, *expressions), named, table=True))

    def upserts(self) -> Stream:
        """What is told of the table as a stream: rows as they become, and with `_deleted` keys."""
        return Stream(self._flow, self._node)

    def changes(self) -> Stream:
        """Every change in the order it was made, in `_change` what kind it is.

        `insert` and `delete`, and for a row that changes the old one as `update_before` and the new
        one as `update_after`. The table is remembered for that.
        """
        from headrace.streams.tabling import changes_of

        return Stream(self._flow, changes_of(self))

    def join(
        self, other: "Table", *, on: "On | None" = None, how: str = "inner", suffix: str = "_right"
    ) -> "Table":
        """The pairs of rows that have the same values, kept up to date when either side changes.

        The result is told apart by the keys of both sides, as far as they are needed: if `on` is
        the key of the other table, by this one's, and the other way round.

        Args:
            other: The right table.
            on: Columns that both have, or `{"column": "column of the other"}`; by default the key,
                if it is the same.
            how: `inner`, `left`, `right` or `full`.
            suffix: What is added to the names of columns on the right that are there on the left.
        """
        from headrace.streams.tabling import joined_tables

        return joined_tables(self, other, on=on, how=how, suffix=suffix)

    def group_by(self, *by: str) -> "Groups":
        """The groups of rows with the same values, of which `agg` then computes something."""
        from headrace.streams.tabling import Groups

        return Groups(self, by)

    def top(
        self, count: int, *, by: str | Sequence[str] = (), order: str | Sequence[str]
    ) -> "Table":
        """The first rows of each group in some order, as in `top(9, by="reader", order="at desc")`.

        When one of them goes, the next one moves up.
        """
        from headrace.streams.tabling import top_rows

        groups = (by,) if isinstance(by, str) else tuple(by)
        return top_rows(self, count, groups, (order,) if isinstance(order, str) else tuple(order))
