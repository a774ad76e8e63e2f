"""What a snapshot has to read, and how far it has got: what is stored to resume it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from headrace.capture.changes import TableName
from headrace.capture.source import KeyRange


@dataclass(slots=True)
class SnapshotTask:
    """One table, or a range of its keys, that is read in chunks."""

    id: str
    table: TableName
    low: tuple[str, ...] | None = None
    """The key that was read last; rows up to it are done."""

    high: tuple[str, ...] | None = None
    rows: int = 0
    estimate: int = 0
    afresh: bool = False
    """Whether what the topic has is to be forgotten first."""

    done: bool = False

    @property
    def left(self) -> KeyRange:
        """What is still to be read."""
        return KeyRange(self.low, self.high)

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {
            "id": self.id,
            "schema": self.table.schema,
            "table": self.table.table,
            "low": self.low,
            "high": self.high,
            "rows": self.rows,
            "estimate": self.estimate,
            "afresh": self.afresh,
            "done": self.done,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """As it was stored."""
        return cls(
            stored["id"],
            TableName(stored["schema"], stored["table"]),
            None if stored["low"] is None else tuple(stored["low"]),
            None if stored["high"] is None else tuple(stored["high"]),
            stored["rows"],
            stored["estimate"],
            stored["afresh"],
            stored["done"],
        )
