"""Rows of a table as JSON objects, and as the Kafka Connect schema of such."""

from collections.abc import Iterator
from typing import Any

import orjson

from headrace.capture.changes import UNAVAILABLE, Row, Table
from headrace.capture.envelope.modes import Modes
from headrace.capture.envelope.shortcuts import Write, writer_of
from headrace.capture.envelope.types import encoding_of, field_schema
from headrace.capture.texts import Reading, Text, TextRow


class Columns:
    """How rows of one version of a table, or the key in them, are written.

    Args:
        table: The table.
        places: Which columns, in order; all if None.
        modes: How values are written.
    """

    __slots__ = (
        "_encodings",
        "_fallbacks",
        "_modes",
        "_names",
        "_places",
        "_reading",
        "_template",
        "_types",
        "_writers",
        "_written",
        "fields",
    )

    def __init__(self, table: Table, modes: Modes, places: tuple[int, ...] | None = None) -> None:
        self._modes = modes
        self._places = places
        chosen = range(len(table.columns)) if places is None else places
        columns = [table.columns[place] for place in chosen]
        self._types = [column.type for column in columns]
        self._encodings = [encoding_of(column.type, modes) for column in columns]
        self._names = tuple(column.name for column in columns)
        self._written = [
            (place, each.encode)
            for place, each in enumerate(self._encodings)
            if each.encode is not None
        ]
        self._fallbacks = {
            place: each.fallback
            for place, (column, each) in enumerate(zip(columns, self._encodings, strict=True))
            if not column.nullable
        }
        self.fields = [
            field_schema(column, each)
            for column, each in zip(columns, self._encodings, strict=True)
        ]
        """The Kafka Connect fields."""
        # A percent sign in a column's name is not ours.
        names = [orjson.dumps(name).replace(b"%", b"%%") for name in self._names]
        self._template = b"{" + b",".join(name + b":%b" for name in names) + b"}"
        self._reading: Reading | None = None
        self._writers: list[tuple[int, Write]] = []

    def written(self, row: Row, *, former: bool = False) -> bytes:
        """A row, or its key, as JSON; a `former` one is a row before its change.

        Of such a row the log may tell the key only. What is not told and may not be missing is what
        Debezium has for it: zero, or nothing.
        """
        if type(row) is not TextRow:
            return orjson.dumps(self.of_former(row) if former else self.of(row))
        if row.reading is not self._reading:
            self._learn(row.reading)
        texts: list[Any] = (
            [*row.texts] if self._places is None else [row.texts[place] for place in self._places]
        )
        if not row.whole:
            return self._template % tuple(self._partly(texts, former=former))
        for place, write in self._writers:
            texts[place] = write(texts[place])
        return self._template % tuple(texts)

    def of(self, row: Row) -> dict[str, Any]:
        """A row, or its key, as JSON has it."""
        values = list(row) if self._places is None else [row[place] for place in self._places]
        for place, encode in self._written:
            if (value := values[place]) is not None and value is not UNAVAILABLE:
                values[place] = encode(value)
        if UNAVAILABLE in values:
            for place, value in enumerate(values):
                if value is UNAVAILABLE:
                    values[place] = self._encodings[place].unavailable
        return dict(zip(self._names, values, strict=True))

    def of_former(self, row: Row) -> dict[str, Any]:
        """A row before its change."""
        found = self.of(row)
        if None in row:
            for place, fallback in self._fallbacks.items():
                if row[place] is None:
                    found[self._names[place]] = fallback
        return found

    def _partly(self, texts: list[Text], *, former: bool) -> Iterator[bytes]:
        """What stands in a row that does not have every value."""
        writers = dict(self._writers)
        for place, text in enumerate(texts):
            if isinstance(text, bytes):
                yield writers[place](text) if place in writers else text
            elif text is None:
                yield orjson.dumps(self._fallbacks.get(place) if former else None)
            else:
                yield orjson.dumps(self._encodings[place].unavailable)

    def _learn(self, reading: Reading) -> None:
        """Know how to write rows that are read so; there is one way per version of a table."""
        places = range(len(reading.decoders)) if self._places is None else self._places
        found = [
            writer_of(type_, encoding, self._modes, reading.decoders[place], reading.forms[place])
            for type_, encoding, place in zip(self._types, self._encodings, places, strict=True)
        ]
        self._writers = [(place, write) for place, write in enumerate(found) if write is not None]
        self._reading = reading
