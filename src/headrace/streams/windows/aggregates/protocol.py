"""What an aggregate is: a few columns of state per group that are made, merged and read.

A window is never computed from its events twice. Events become *partial* aggregates, one row of
columns per group; partial aggregates of the same group are *merged*, those of a task with those of
another, of a batch with those that are kept, of panes with each other; and at last a *result* is
read off. So an aggregate must not care in what portions events come:

    result(merge(partial(a), partial(b)))  ==  result(partial(a + b))

Every method sees whole columns. A column is a Polars series whose rows are sorted by group, and
`groups` says where each group begins (`groups.starts`), how many rows it has (`groups.sizes`), and
computes any Polars aggregation over them (`groups.combined`). An aggregate of one's own:

    @dataclass(frozen=True)
    class Product(Aggregate):
        def columns(self, arguments):
            return (pa.float64(),)

        def result_type(self, arguments):
            return pa.float64()

        def partial(self, arguments, groups):
            return groups.combined(arguments, pl.col("0").cast(pl.Float64).product())

        def merge(self, columns, groups):
            return groups.combined(columns, pl.col("0").product())

        def result(self, columns, windows):
            return columns[0]

    stream.window(tumbling("1 day")).agg(growth=Product().of("1 + rate"))

It is pickled to the workers and must be a value: frozen, holding no resources. The same columns
must give the same answer, since a batch may come again.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import polars as pl

    from headrace.records.kernels.compiled import Int64s
    from headrace.streams.windows.groups import Groups


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows that results are read for, in microseconds, one per row."""

    starts: "Int64s"
    ends: "Int64s"


class Aggregate(ABC):
    """How events of a group become one value. Types are Arrow's."""

    needs_time: ClassVar[bool] = False
    """Whether the event time, a 64-bit integer of microseconds, is given as the last argument."""

    def of(self, *expressions: str) -> "Applied":
        """This aggregate of SQL expressions over the events, as `agg` takes it."""
        return Applied(self, expressions)

    @abstractmethod
    def columns(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The types of the columns that are kept, for arguments of these types.

        Raises InvalidAggregate for types that it cannot work on.
        """

    @abstractmethod
    def result_type(self, arguments: Sequence[Any]) -> Any:
        """The type of the result."""

    @abstractmethod
    def partial(self, arguments: "Sequence[pl.Series]", groups: "Groups") -> "Sequence[pl.Series]":
        """The columns to keep for each group, from its events."""

    @abstractmethod
    def merge(self, columns: "Sequence[pl.Series]", groups: "Groups") -> "Sequence[pl.Series]":
        """The columns to keep for each group, from those of its parts."""

    @abstractmethod
    def result(self, columns: "Sequence[pl.Series]", windows: Windows) -> "pl.Series":
        """What is told of each group; `windows` says how long, for what is told per second."""


@dataclass(frozen=True, slots=True)
class Applied:
    """An aggregate of one's own, applied to SQL expressions over the events."""

    aggregate: Aggregate
    expressions: tuple[str, ...] = ()
