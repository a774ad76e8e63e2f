"""The messages of pgoutput, PostgreSQL's own format for what its log says (version 1).

Version 1 tells a transaction when it has committed, so that nothing has to be held back or taken
back here; the server keeps large ones on its own disk until then. `Decoder.decode` makes events of
one message. The layout is in PostgreSQL's manual, "Logical Replication Message Formats".
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from headrace.capture.changes import (
    UNAVAILABLE,
    Begin,
    Commit,
    Event,
    Message,
    Op,
    Reached,
    RowChange,
    SchemaChange,
    Table,
    TableDropped,
    TableName,
    Truncate,
    Watermark,
)
from headrace.capture.errors import BrokenStream
from headrace.capture.postgres.lsn import POSTGRES_EPOCH_US, lsn_text
from headrace.capture.texts import Reading, Text, TextRow

_U16: Final = Struct(">H").unpack_from
_U32: Final = Struct(">I").unpack_from
_BEGIN: Final = Struct(">QqI").unpack_from
_COMMIT: Final = Struct(">BQQq").unpack_from
_TYPE: Final = Struct(">Ii").unpack_from
_MESSAGE: Final = Struct(">BQ").unpack_from

_NULL, _UNCHANGED, _TEXT = b"nut"
_NEW, _OLD, _KEY = b"NOK"


class Place(NamedTuple):
    """Where a transaction is in PostgreSQL's log, and who wrote it."""

    xid: int
    lsn: int
    """Of its commit."""

    previous: int | None
    """Where the commit before it ended, if that was seen."""


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column as a relation message tells it."""

    name: str
    type: int
    modifier: int
    key: bool


@dataclass(frozen=True, slots=True)
class RelationMessage:
    """A table as the log tells it before its first row, and again when it has changed."""

    oid: int
    name: TableName
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class RowReader:
    """How to read the rows of one version of a table."""

    table: Table
    reading: Reading
    told: tuple[bool, ...]
    """Of every column of the message: whether the capture does not leave it out."""


class Decoder:
    """Makes events of messages.

    Args:
        reader_of: How to read a table's rows, asked when a relation message comes; None of a table
            that is none of ours.
        fill: What to do about values that the log leaves out, given the transaction that tells.
        marks: The prefix of the messages that snapshots of ours write.
    """

    def __init__(
        self,
        reader_of: Callable[[RelationMessage], RowReader | None],
        fill: Callable[[RowReader, TextRow, int], TextRow],
        *,
        marks: str,
    ) -> None:
        self._reader_of = reader_of
        self._fill = fill
        self._xid = 0
        self._marks = marks
        self._readers: dict[int, RowReader | None] = {}
        self._oids: dict[TableName, int] = {}
        self._previous: int | None = None
        self.in_transaction = False

    def decode(self, data: bytes, lsn: int, events: list[Event]) -> None:
        """Append what a message says, which stands at `lsn`."""
        kind = data[0]
        if kind == 0x49:  # Insert
            if (reader := self._readers[_U32(data, 1)[0]]) is not None:
                row, _ = _row(data, 6, reader)
                events.append(RowChange(Op.INSERT, reader.table, None, row, lsn))
        elif kind == 0x55:  # Update
            if (reader := self._readers[_U32(data, 1)[0]]) is not None:
                events.append(self._update(data, reader, lsn))
        elif kind == 0x44:  # Delete
            if (reader := self._readers[_U32(data, 1)[0]]) is not None:
                row, _ = _row(data, 6, reader)
                events.append(RowChange(Op.DELETE, reader.table, row, None, lsn))
        elif kind == 0x42:  # Begin
            final, when, xid = _BEGIN(data, 1)
            self.in_transaction = True
            self._xid = xid
            place = Place(xid, final, self._previous)
            events.append(Begin(str(xid), when + POSTGRES_EPOCH_US, place))
        elif kind == 0x43:  # Commit
            _, _, end, when = _COMMIT(data, 1)
            self.in_transaction = False
            self._previous = end
            events.append(Commit(lsn_text(end), when + POSTGRES_EPOCH_US))
        elif kind == 0x52:
            self._relation(data, lsn, events)
        elif kind == 0x54:
            self._truncate(data, lsn, events)
        elif kind == 0x4D:
            self._message(data, lsn, events)
        elif kind not in b"YO":  # Type and Origin say nothing that the catalogs do not.
            raise BrokenStream(
                f"PostgreSQL sent a message of the unknown kind {chr(kind)!r} at {lsn_text(lsn)}. "
                "Use a version of Headrace that knows this version of PostgreSQL."
            )

    def _update(self, data: bytes, reader: RowReader, lsn: int) -> RowChange:
        before: TextRow | None = None
        place = 5
        if (kind := data[place]) != _NEW:
            before, place = _row(data, place + 1, reader)
        after, _ = _row(data, place + 1, reader)
        if not after.whole and UNAVAILABLE in after.texts:
            if kind == _OLD:
                assert before is not None
                # A row that is told whole has the value that the new one leaves out.
                after = completed(after, iter(before.texts))
            else:
                after = self._fill(reader, after, self._xid)
        return RowChange(Op.UPDATE, reader.table, before, after, lsn)

    def _relation(self, data: bytes, lsn: int, events: list[Event]) -> None:
        message = parse_relation(data)
        before = self._readers.get(message.oid)
        known = self._oids.get(message.name)
        self._oids[message.name] = message.oid
        reader = self._readers[message.oid] = self._reader_of(message)
        if reader is None:
            return
        if known not in (None, message.oid):
            events.append(TableDropped(message.name, lsn))
            before = None
        if before is None or not before.table.says_the_same(reader.table):
            former = None if before is None else before.table
            events.append(SchemaChange(reader.table, former, lsn))

    def _truncate(self, data: bytes, lsn: int, events: list[Event]) -> None:
        (count,) = _U32(data, 1)
        oids = (_U32(data, place)[0] for place in range(6, 6 + 4 * count, 4))
        events += [
            Truncate(reader.table, lsn)
            for oid in oids
            if (reader := self._readers[oid]) is not None
        ]

    def _message(self, data: bytes, lsn: int, events: list[Event]) -> None:
        flags, _ = _MESSAGE(data, 1)
        prefix, place = _word(data, 10)
        (length,) = _U32(data, place)
        content = data[place + 4 : place + 4 + length]
        if prefix == self._marks:
            events.append(Watermark(content.decode(), lsn))
        else:
            events.append(Message(prefix, content, bool(flags & 1), lsn))
        if not flags & 1:
            # It belongs to no transaction whose commit would be a place to resume at.
            events.append(Reached(lsn_text(lsn)))


def parse_relation(data: bytes) -> RelationMessage:
    """A relation message."""
    (oid,) = _U32(data, 1)
    schema, place = _word(data, 5)
    name, place = _word(data, place)
    identity = chr(data[place])
    (count,) = _U16(data, place + 1)
    place += 3
    columns = []
    for _ in range(count):
        key = bool(data[place] & 1)
        column, place = _word(data, place + 1)
        type_, modifier = _TYPE(data, place)
        columns.append(RelationColumn(column, type_, modifier, key))
        place += 8
    # pg_catalog is sent as an empty name.
    return RelationMessage(oid, TableName(schema or "pg_catalog", name), identity, tuple(columns))


def _word(data: bytes, place: int) -> tuple[str, int]:
    end = data.index(0, place)
    return data[place:end].decode(), end + 1


def completed(row: TextRow, texts: Iterator[Text]) -> TextRow:
    """The row with what the same row of texts has where it has nothing."""
    found = [
        other if text is UNAVAILABLE else text for text, other in zip(row.texts, texts, strict=True)
    ]
    return TextRow(found, row.reading, whole=all(isinstance(text, bytes) for text in found))


def _row(data: bytes, place: int, reader: RowReader) -> tuple[TextRow, int]:
    """The row at a place, and the place behind it."""
    texts: list[Text] = []
    whole = True
    place += 2
    for told in reader.told:
        kind = data[place]
        if kind == _TEXT:
            end = place + 5 + _U32(data, place + 1)[0]
            if told:
                texts.append(data[place + 5 : end])
            place = end
        else:
            place += 1
            if told:
                texts.append(None if kind == _NULL else UNAVAILABLE)
                whole = False
    return TextRow(texts, reader.reading, whole=whole), place
