"""What an operator is: a description of what it keeps, and one function over whole columns.

Formally, an operator is a function

    update(state, events, watermark)  ->  state', outputs

applied to the events of one batch in one bucket, which holds some of the keys. Intuitively: it
looks up the state of the keys that the events have, changes it, asks which rows have become due,
and says what is to be told. It never sees Spark, sockets or a clock, and the same arguments must
give the same answer, row for row: after a failure a batch comes again.

Two Polars habits break that promise: `group_by` and `unique` without `maintain_order=True`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from headrace.streams.state.errors import InvalidOperator

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from headrace.streams.state.table import StateTable


@dataclass(frozen=True, slots=True)
class Kept:
    """One table of an operator's state, as it is described.

    A row is identified by the columns `key` and `row` together; writing a row that is there already
    replaces it. `key` alone is what rows are looked up by, and must be the columns, or be made of
    the columns, that the operator's input is keyed by. A running count has a key only; windows have
    the window's start as `row`, the sides of a join something that tells the events of a key apart.
    """

    schema: "pa.Schema"
    key: tuple[str, ...]
    row: tuple[str, ...] = ()
    time: str | None = None
    """A column of microseconds or timestamps by which rows become due, in the order of time."""

    keep_for: int | None = None
    """Microseconds of event time after `time` in which a row is kept; then the runtime removes it,
    without telling the operator. None keeps rows until the operator deletes them."""

    def check(self, operator: str, name: str) -> None:
        """Refuse a description that makes no sense, with InvalidOperator."""
        import pyarrow as pa

        where = f"Operator {operator}, table {name}"
        if not self.key:
            raise InvalidOperator(f"{where}: a table needs at least one key column.")
        for column in (*self.identity, *((self.time,) if self.time else ())):
            if column not in self.schema.names:
                raise InvalidOperator(f"{where}: there is no column {column} in its schema.")
        if self.time is not None:
            kind = self.schema.field(self.time).type
            if kind != pa.int64() and not (pa.types.is_timestamp(kind) and kind.unit == "us"):
                raise InvalidOperator(
                    f"{where}: {self.time} is {kind}; times are timestamps of microseconds or "
                    "64-bit integers."
                )
        elif self.keep_for is not None:
            raise InvalidOperator(f"{where}: keep_for needs a time column to count from.")

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that together identify a row."""
        return (*self.key, *self.row)


@dataclass(frozen=True, slots=True)
class Description:
    """What the runtime must know of an operator before it runs."""

    name: str
    """Within a flow; stored with the state."""

    tables: Mapping[str, Kept]
    outputs: "Mapping[str, pa.Schema]"
    """What it says, by name; every output goes to a sink of its own, all of them together."""

    version: int = 1
    """To be raised when stored values change their meaning: older state is then refused."""

    def check(self) -> None:
        """Refuse a description that makes no sense, with InvalidOperator."""
        if not self.outputs:
            raise InvalidOperator(f"Operator {self.name} has no outputs; what is it for?")
        for name, kept in self.tables.items():
            kept.check(self.name, name)


@dataclass(frozen=True, slots=True)
class State:
    """What an operator may read and change: its tables, for the keys of one bucket."""

    tables: "Mapping[str, StateTable]" = field(default_factory=dict)

    def __getitem__(self, name: str) -> "StateTable":
        """A table by its name."""
        return self.tables[name]


class Operator(Protocol):
    """A stateful computation on whole columns. Pickled to the workers, so it holds no resources."""

    @property
    def description(self) -> Description:
        """What it keeps and says; the same every time it is asked."""
        ...

    def prepare(self, source: str, events: "pl.DataFrame") -> "pl.DataFrame":
        """Make the events of an input smaller before they are shuffled; or return them as they are.

        Sees a part of the events of one task, with any keys. Called with no rows too, since that
        tells the columns that `update` is given. The columns that the input is keyed by must stay.
        Sums and counts per key are best begun here: a key that half of all events have then
        arrives in its bucket as a few rows.
        """
        ...

    def update(
        self, state: State, events: "Mapping[str, pl.DataFrame]", watermark: int | None
    ) -> "Mapping[str, pl.DataFrame]":
        """Apply the events of a batch, and return rows for the outputs.

        `events` has a frame for every input, perhaps without rows, each in the order of its
        partitions. `watermark`, in microseconds since 1970, is the event time that this bucket has
        reached with this batch; None if it has none yet or the operator runs without. Outputs that
        are missing from the answer have no rows.
        """
        ...
