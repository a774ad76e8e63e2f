"""Rows of a table as JSON objects, and as the Kafka Connect schema of such."""

from typing import Any

from headrace.capture.changes import UNAVAILABLE, Row, Table
from headrace.capture.envelope.modes import Modes
from headrace.capture.envelope.types import encoding_of, field_schema


class Columns:
    """How rows of one version of a table, or the key in them, are written.

    Args:
        table: The table.
        places: Which columns, in order; all if None.
        modes: How values are written.
    """

    __slots__ = ("_encodings", "_fallbacks", "_names", "_places", "_written", "fields")

    def __init__(self, table: Table, modes: Modes, places: tuple[int, ...] | None = None) -> None:
        self._places = places
        chosen = range(len(table.columns)) if places is None else places
        columns = [table.columns[place] for place in chosen]
        self._encodings = [encoding_of(column.type, modes) for column in columns]
        self._names = tuple(column.name for column in columns)
        self._written = [
            (place, each.encode)
            for place, each in enumerate(self._encodings)
            if each.encode is not None
        ]
        self._fallbacks = [
            (place, each.fallback)
            for place, (column, each) in enumerate(zip(columns, self._encodings, strict=True))
            if not column.nullable
        ]
        self.fields = [
            field_schema(column, each)
            for column, each in zip(columns, self._encodings, strict=True)
        ]
        """The Kafka Connect fields."""

    def of(self, row: Row) -> dict[str, Any]:
        """A row, or its key, as JSON has it."""
        if self._places is not None:
            row = tuple([row[place] for place in self._places])
        values = list(row)
        for place, encode in self._written:
            if (value := values[place]) is not None and value is not UNAVAILABLE:
                values[place] = encode(value)
        if UNAVAILABLE in row:
            for place, value in enumerate(row):
                if value is UNAVAILABLE:
                    values[place] = self._encodings[place].unavailable
        return dict(zip(self._names, values, strict=True))

    def of_former(self, row: Row) -> dict[str, Any]:
        """A row before its change, of which the log may tell the key only.

        What is not told and may not be missing is what Debezium has for it: zero, or nothing.
        """
        found = self.of(row)
        if None in row:
            for place, fallback in self._fallbacks:
                if row[place] is None:
                    found[self._names[place]] = fallback
        return found
