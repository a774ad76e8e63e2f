"""The verbs of tables that need to remember them: from the words to nodes, and to keyed state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.streams.errors import InvalidFlow
from headrace.streams.joining import On, arrow_schema, checked_on, require_same_flow
from headrace.streams.names import checked_choice
from headrace.streams.plan import CHANGE, HIDDEN, Expression, Node, require_columns
from headrace.streams.rows import Rows, Stream, Table
from headrace.streams.stateful import Stateful, Upserts
from headrace.streams.stateful_tables import (
    Changes,
    Grouped,
    Integrated,
    Settled,
    TableJoin,
    TableSide,
    Top,
    rows_of,
)
from headrace.streams.windows.layout import EVERYTHING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.streams.state.keyed import Input, Keyed
    from headrace.streams.state.operator import Operator
    from headrace.streams.state.remembering import StoredOperator
    from headrace.streams.tables.keys import JoinedKey
    from headrace.streams.windows.aggregates.protocol import Applied


@dataclass(frozen=True, slots=True)
class Groups:
    """A table's rows in groups, of which nothing is computed yet."""

    table: Table
    by: tuple[str, ...]

    def __post_init__(self) -> None:
        require_columns(self.by, self.table.node, "group_by")

    def agg(self, **aggregates: "str | Applied") -> Table:
        """What is computed of each group: `total="sum(price)"`, by any names.

        When rows change or go, what they gave is taken back; a group without rows is deleted.
        """
        from headrace.streams.windows.expressions import taken_apart

        if not aggregates:
            raise InvalidFlow('agg needs something to compute, as in n="count(*)".')
        for name in (*self.by, CHANGE):
            if name in aggregates:
                raise InvalidFlow(f"agg: the result has a column {name} already; rename yours.")
        taken_apart(aggregates)
        flow = self.table.flow
        node = Grouped(changes_of(self.table), self.by, aggregates, flow.name)
        return Table(flow, Upserts(node), node.key)


def integrated(
    stream: Stream,
    key: tuple[str, ...],
    deleted: Expression | None,
    valid_from: Expression | None,
) -> Table:
    """A stream as a table of its last events."""
    if not key:
        raise InvalidFlow('A table needs a key, as in key="user_id".')
    return Table(stream.flow, Integrated(stream.node, key, deleted, valid_from), key)


def changes_of(table: Table) -> Node:
    """The changes of a table with what rows were before."""
    if isinstance(table.node, Upserts):
        return table.node.input
    return Changes(table.node, table.key, table.flow.name)


def joined_tables(left: Table, right: Rows, *, on: On | None, how: str, suffix: str) -> Table:
    """The join of two tables; InvalidFlow says which argument is wrong."""
    if not isinstance(right, Table):
        raise InvalidFlow(
            "A table is joined with a table; make one of the stream with stream.table(key=...), or "
            "look the table up: stream.lookup(table, on=...)."
        )
    require_same_flow(left, right)
    checked_choice("how", how, ("inner", "left", "right", "full"))
    if on is None and set(left.key) != set(right.key):
        raise InvalidFlow(
            f"join: the tables are by {', '.join(left.key)} and by {', '.join(right.key)}; say "
            "which columns have to be equal, on=..."
        )
    pairs = checked_on(left.key if on is None else on)
    require_columns(tuple(pairs), left.node, "join")
    require_columns(tuple(pairs.values()), right.node, "join")
    sides = _side(left, tuple(pairs)), _side(right, tuple(pairs.values()))
    key = _joined_key(*sides, how, suffix)
    flow = left.flow
    join = TableJoin(*sides, how, suffix, key.columns, flow.name)
    return Table(flow, Upserts(Settled(join, flow.name) if key.scattered else join), key.columns)


def top_rows(table: Table, count: int, by: tuple[str, ...], order: tuple[str, ...]) -> Table:
    """The first rows of each group; InvalidFlow says which argument is wrong."""
    if count < 1:
        raise InvalidFlow(f"top({count}) has no rows; it must be at least 1.")
    key = tuple(dict.fromkeys((*by, *table.key)))
    flow = table.flow
    node = Top(changes_of(table), key, by, tuple(map(_direction, order)), count, flow.name)
    return Table(flow, Upserts(node), key)


def keyed_table(
    node: Stateful,
    rows: "Sequence[DataFrame]",
    name: Callable[[str], str],
    stored: "StoredOperator | None" = None,
) -> "Keyed":
    """The operator of a table on its inputs; `stored` is what the checkpoint remembers of it.

    `name` makes of what kind of operator it is what its state is kept under.
    """
    from headrace.streams.state.keyed import keyed

    given = [each.drop(*HIDDEN) for each in rows]
    operator, inputs = _operator(node, given, name)
    buckets = None if stored is None else stored.buckets
    return keyed(inputs, operator, flow=node.flow, buckets=buckets)


def results(node: Stateful, keyed: "Keyed") -> "DataFrame":
    """The changes of a table, with the expressions over what its groups have computed."""
    from pyspark.sql.functions import expr

    from headrace.streams.windows.expressions import taken_apart

    changes = keyed.output("main")
    if not isinstance(node, Grouped):
        return changes
    made = taken_apart(node.aggregates).results
    kept = [f"`{name}`" for name in node.by]
    return changes.select(*kept, *(expr(each).alias(name) for name, each in made.items()), CHANGE)


def _operator(
    node: Stateful, rows: "Sequence[DataFrame]", name: Callable[[str], str]
) -> "tuple[Operator, dict[str, Input]]":
    """The operator, and what each of its inputs is keyed by."""
    from pyspark.sql.functions import expr

    from headrace.streams.state.keyed import Input
    from headrace.streams.tables.changelog import Changelog
    from headrace.streams.tables.changes import CHANGES
    from headrace.streams.tables.grouped import GroupedTable
    from headrace.streams.tables.joined import LEFT, RIGHT
    from headrace.streams.tables.joined import TableJoin as Join
    from headrace.streams.tables.settled import Settled as Settling
    from headrace.streams.tables.top_n import TopN
    from headrace.streams.windows.expressions import taken_apart

    match node:
        case Changes() | Settled():
            (changes,) = rows
            made = Settling if isinstance(node, Settled) else Changelog
            kind = "settled" if isinstance(node, Settled) else "changes"
            operator = made(name(kind), arrow_schema(changes), node.key)
            return operator, {CHANGES: Input(changes, node.key)}
        case TableJoin():
            left, right = map(_described, (node.left, node.right), rows)
            join = Join(name("join"), left, right, how=node.how, suffix=node.suffix)
            ours, theirs = rows
            return join, {LEFT: Input(ours, left.on), RIGHT: Input(theirs, right.on)}
        case Grouped():
            parts = taken_apart(node.aggregates)
            arguments = {each: expr(text) for each, text in parts.arguments.items()}
            changes = _together(rows[0].withColumns(arguments), node.by)
            grouped = GroupedTable(name("group"), arrow_schema(changes), node.by, parts.calls)
            return grouped, {CHANGES: Input(changes, node.by or (EVERYTHING,))}
        case Top():
            changes = _together(rows[0], node.by)
            order, descending = zip(*node.order, strict=True)
            schema = arrow_schema(changes.drop(EVERYTHING))
            top = TopN(name("top"), schema, node.key, node.by, order, node.count, descending)
            return top, {CHANGES: Input(changes, node.by or (EVERYTHING,))}
        case _:
            raise AssertionError(f"nobody makes an operator of {type(node).__name__}")


def _described(side: TableSide, rows: "DataFrame") -> Any:
    from headrace.streams.tables.sides import TableSide as Side

    return Side(arrow_schema(rows), side.key, side.on, side.changes)


def _together(rows: "DataFrame", by: tuple[str, ...]) -> "DataFrame":
    """Rows that are in groups by some columns; without any, in one group by a column of 0."""
    from pyspark.sql.functions import lit

    return rows if by else rows.withColumn(EVERYTHING, lit(0).cast("byte"))


def _side(table: Table, on: tuple[str, ...]) -> TableSide:
    if set(on) <= set(table.key):
        return TableSide(table.node, table.key, on, changes=False)
    return TableSide(changes_of(table), table.key, on, changes=True)


def _joined_key(left: TableSide, right: TableSide, how: str, suffix: str) -> "JoinedKey":
    from headrace.streams.joins.columns import naming
    from headrace.streams.tables.keys import joined_key

    # Of columns that only Spark knows, those count that have to be there.
    ours, theirs = (
        rows_of(each.node) or tuple(dict.fromkeys((*each.key, *each.on))) for each in (left, right)
    )
    named = naming(ours, theirs, dict(zip(left.on, right.on, strict=True)), suffix)
    return joined_key(left.key, left.on, right.key, right.on, how, named)


def _direction(order: str) -> tuple[str, bool]:
    words = order.split()
    if len(words) == 1 or (len(words) == 2 and words[1].lower() in ("asc", "desc")):
        return words[0], words[-1].lower() == "desc" and len(words) == 2
    raise InvalidFlow(f'order={order!r} is no column with a direction, as in "at desc".')
