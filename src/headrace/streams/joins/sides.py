"""One side of a join, as it is described."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.streams.errors import InvalidFlow, UnknownColumn
from headrace.streams.joins.columns import visible
from headrace.streams.names import did_you_mean


@dataclass(frozen=True)
class Side:
    """Events that are joined: their columns, what they are keyed by, and when they happened."""

    schema: Any
    """The Arrow schema."""

    key: tuple[str, ...]
    time: str | None
    """The column of event time, a timestamp or an integer of microseconds; None without one."""

    def __post_init__(self) -> None:
        if self.time is not None:
            check_time(self.schema, self.time)

    @property
    def columns(self) -> list[str]:
        """The columns that a result can have."""
        return visible(self.schema.names)

    def nullable(self, names: Sequence[str]) -> list[Any]:
        """The Arrow fields of some columns, as they are kept and told."""
        return [self.schema.field(name).with_nullable(True) for name in names]


def check_time(schema: Any, name: str) -> None:
    """Refuse a column of time that is not there, or is no time."""
    if name not in schema.names:
        hint = did_you_mean(name, visible(schema.names))
        raise UnknownColumn(f"join: there is no column {name}, which is to tell the time; {hint}")
    kind = schema.field(name).type
    if kind != pa.int64() and not (pa.types.is_timestamp(kind) and kind.unit == "us"):
        raise InvalidFlow(
            f"join: {name} is of type {kind}, which is no time; make it a timestamp of microseconds"
            " in front of the join."
        )
