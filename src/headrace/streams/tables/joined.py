"""The operator that joins two tables and keeps the result right.

Formally, with L, R the tables before a batch and L', R' after it: it tells the net changes from
L join R to L' join R', where rows are joined that have equal values in their join columns. Null
equals nothing. In `left`, `right` and `full` joins, rows of the left, of the right or of both
tables that have no partner are rows of the result by themselves.

Intuitively: a row that changes meets its partners of the other side twice, as it was and as it is.
What that gives twice is not told.

The batch of a bucket costs what its changed rows and the rows of the result do that they affect,
however many others have the same join value. Of rows that stand alone it must be known when the
first partner comes and the last one goes, so the partners of a join value are counted. All changes
of a batch, of both sides, count at once; which came first does not matter, nor how they are
distributed over batches: after the same changes the table is the same.
"""

from collections.abc import Mapping
from functools import cached_property

import polars as pl
import pyarrow as pa

from headrace.streams.errors import InvalidFlow
from headrace.streams.joins.columns import naming
from headrace.streams.state.blobs import to_polars
from headrace.streams.state.operator import Description, State
from headrace.streams.tables.changes import difference, outputs, said
from headrace.streams.tables.keys import joined_key
from headrace.streams.tables.sides import Side, TableSide, join_columns

LEFT = "left"
RIGHT = "right"
"""The names of the inputs."""


class TableJoin:
    """The rows of two tables that have equal values in their join columns, as a table.

    It keeps the rows of both tables, and where rows may stand alone how many partners a join value
    has. A table's own key is never null in a full join: null in the key of the result says that
    there is no row.
    """

    def __init__(
        self,
        name: str,
        left: TableSide,
        right: TableSide,
        how: str = "inner",
        suffix: str = "_right",
    ) -> None:
        """Take the operator's name, the sides, `inner`, `left`, `right` or `full`, and the suffix.

        The inputs `left` and `right` are keyed by the `on` columns of their sides.
        """
        left.check(name)
        right.check(name)
        self._name = name
        self._naming = naming(
            left.rows.names, right.rows.names, dict(zip(left.on, right.on, strict=True)), suffix
        )
        self._key = joined_key(left.key, left.on, right.key, right.on, how, self._naming)
        for ours, theirs in zip(left.on, right.on, strict=True):
            kinds = left.rows.field(ours).type, right.rows.field(theirs).type
            if kinds[0] != kinds[1]:
                raise InvalidFlow(
                    f"{name}: {ours} is {kinds[0]} and {theirs} is {kinds[1]}; cast one of them, "
                    "so that equal values meet."
                )
        self._left_alone = how in ("left", "full")
        self._right_alone = how in ("right", "full")
        self._left = Side(
            LEFT,
            left,
            {each: each for each in self._naming.left},
            alone=self._left_alone,
            counted=self._right_alone,
        )
        self._right = Side(
            RIGHT,
            right,
            self._naming.right,
            alone=self._right_alone,
            counted=self._left_alone,
        )
        self._on = dict(zip(left.on, join_columns(len(left.on)), strict=True))
        self._rows = pa.schema(self._naming.fields(left.rows, right.rows))

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell the rows of the result apart."""
        return self._key.columns

    @property
    def scattered(self) -> bool:
        """Whether a row can move between buckets, so that its changes have to be settled."""
        return self._key.scattered

    @cached_property
    def description(self) -> Description:
        """The rows of both sides, and how many partners there are."""
        tables = {**self._left.tables, **self._right.tables}
        return Description(self._name, tables, outputs(self._rows))

    def prepare(self, source: str, events: pl.DataFrame) -> pl.DataFrame:
        """The changes that can mean something to the result."""
        return (self._left if source == LEFT else self._right).prepared(events)

    def update(
        self, state: State, events: Mapping[str, pl.DataFrame], watermark: int | None
    ) -> Mapping[str, pl.DataFrame]:
        """Apply the changes of both sides, and tell what they change in the result."""
        left = self._left.changed(state, events[LEFT])
        right = self._right.changed(state, events[RIGHT])
        if not any(each.height for each in (left.was, left.now, right.was, right.now)):
            return {}
        lefts = self._left.named(self._left.others(state, self._right.values(right), left))
        rights = self._right.named(self._right.others(state, self._left.values(left), right))
        was = self._joined(self._left.named(left.was), self._right.named(right.was), lefts, rights)
        now = self._joined(self._left.named(left.now), self._right.named(right.now), lefts, rights)
        if self._left_alone:
            filled, emptied = self._right.turned(state, right)
            was.append(self._completed(self._with(lefts, filled)))
            now.append(self._completed(self._with(lefts, emptied)))
        if self._right_alone:
            filled, emptied = self._left.turned(state, left)
            was.append(self._alone_right(self._with(rights, filled)))
            now.append(self._alone_right(self._with(rights, emptied)))
        self._left.write(state, left)
        self._right.write(state, right)
        return said(difference(pl.concat(was), pl.concat(now), self.key).told())

    def _joined(
        self,
        left: pl.DataFrame,
        right: pl.DataFrame,
        lefts: pl.DataFrame,
        rights: pl.DataFrame,
    ) -> list[pl.DataFrame]:
        """What changed rows give with each other, with rows that do not change, and alone."""
        found = [self._pairs(left, rights), self._pairs(pl.concat([left, lefts]), right)]
        if self._left_alone:
            found.append(self._completed(self._without(left, pl.concat([right, rights]))))
        if self._right_alone:
            found.append(self._alone_right(self._without(right, pl.concat([left, lefts]))))
        return found

    def _pairs(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
        pairs = left.join(right, on=[*self._on.values()], maintain_order="left_right")
        return pairs.select(self._rows.names)

    def _with(self, rows: pl.DataFrame, partners: pl.DataFrame) -> pl.DataFrame:
        return rows.join(partners, on=[*self._on.values()], how="semi", maintain_order="left")

    def _without(self, rows: pl.DataFrame, partners: pl.DataFrame) -> pl.DataFrame:
        return rows.join(partners, on=[*self._on.values()], how="anti", maintain_order="left")

    def _alone_right(self, rows: pl.DataFrame) -> pl.DataFrame:
        shared = [pl.col(self._on[each]).alias(each) for each in self._naming.shared]
        return self._completed(rows.with_columns(shared))

    def _completed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of one side with nulls in the columns of the other."""
        missing = [
            pl.lit(None, kind).alias(name)
            for name, kind in self._kinds.items()
            if name not in rows.columns
        ]
        return rows.with_columns(missing).select(self._rows.names)

    @cached_property
    def _kinds(self) -> pl.Schema:
        return to_polars(self._rows.empty_table()).schema
