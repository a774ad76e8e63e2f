"""Events with the columns of a table's rows: what all joins of a stream with a table share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pyarrow as pa

from headrace.streams.errors import InvalidFlow
from headrace.streams.joins.columns import Naming, naming, visible
from headrace.streams.joins.matching import without_nulls
from headrace.streams.joins.progress import NUMBER
from headrace.streams.joins.sides import Side
from headrace.streams.names import checked_choice
from headrace.streams.plan import CHANGE, DELETED, HIDDEN
from headrace.streams.state.operator import Kept

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s

HOW: Final = ("left", "inner")
EVENTS: Final = "events"
TABLE: Final = "table"
"""The names of the inputs."""


@dataclass(frozen=True)
class Enrichment:
    """Events, the table that they are looked up in, and what comes of it."""

    events: Side
    table: Any
    """The Arrow schema of the table."""

    key: tuple[str, ...]
    """The table's own key."""

    on: Mapping[str, str]
    """The columns of the events, and the column of the table's key that each equals."""

    how: str
    suffix: str = "_right"

    def __post_init__(self) -> None:
        checked_choice("how", self.how, HOW)
        wanted = {column: event for event, column in self.on.items()}
        if set(wanted) != set(self.key) or len(wanted) != len(self.on):
            raise InvalidFlow(
                f"lookup: a row is found by the whole key of its table, {', '.join(self.key)}; "
                f"on= names {', '.join(self.on.values()) or 'nothing'}."
            )
        if self.events.key != tuple(wanted[column] for column in self.key):
            raise InvalidFlow(
                f"lookup: events must be keyed by {', '.join(wanted[each] for each in self.key)}, "
                "in the order of the table's key."
            )
        _ = self.naming

    @cached_property
    def naming(self) -> Naming:
        """What the columns of the result are called."""
        return naming(self.events.columns, self.columns, self.on, self.suffix)

    @cached_property
    def columns(self) -> list[str]:
        """The columns of the table's rows."""
        return [each for each in visible(self.table.names) if each not in (DELETED, CHANGE)]

    @cached_property
    def result(self) -> Any:
        """The Arrow schema of the results: with the columns of the events that carry their time."""
        fields = self.naming.fields(self.events.schema, self.table)
        time = [each for each in self.events.schema.names if each in HIDDEN]
        return pa.schema([*fields, *self.events.nullable(time)])

    @property
    def rows(self) -> list[Any]:
        """The Arrow fields of rows as they are kept."""
        return [self.table.field(each).with_nullable(True) for each in self.columns]

    def waiting(self, time: str) -> Kept:
        """Events that wait for a row, by their number and until a time."""
        fields = [*self.events.nullable(self.events.schema.names), pa.field(NUMBER, pa.int64())]
        return Kept(pa.schema(fields), self.events.key, (NUMBER,), time)

    def keys(self, events: pl.DataFrame, positions: "Int64s") -> pl.DataFrame:
        """The keys of some events under the names that the table has for them."""
        pairs = zip(self.events.key, self.key, strict=True)
        return pl.DataFrame(
            [events.get_column(own).gather(positions).alias(name) for own, name in pairs]
        )

    def whole(self, rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
        """The rows that have no null in their key: others equal none."""
        known = without_nulls([rows.get_column(name) for name in key])
        return rows if known is None else rows.filter(known)

    def changes(self, rows: pl.DataFrame, *more: str) -> pl.DataFrame:
        """What is needed of a table's changes: of every key, and what else, the last one."""
        chosen = self.whole(rows.select(*self.columns, DELETED), self.key)
        return chosen.unique([*self.key, *more], keep="last", maintain_order=True)

    def joined(self, events: pl.DataFrame, rows: pl.DataFrame, found: "Int64s") -> pl.DataFrame:
        """Events with the rows that were found for them, at these positions or, with -1, none.

        An inner join leaves out those without.
        """
        if self.how == "inner":
            events, found = events.filter(found >= 0), found[found >= 0]
        places = pl.Series(found)
        if (found < 0).any():
            places = places.set(places < 0, None)
        columns = [
            rows.get_column(name).gather(places).alias(given)
            for name, given in self.naming.right.items()
        ]
        return events.drop(NUMBER, strict=False).hstack(columns)
