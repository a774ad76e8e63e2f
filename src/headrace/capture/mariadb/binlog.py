"""From events of the binary log to events of a capture.

A transaction begins with its GTID and ends with its commit; between, every group of rows is
preceded by a description of its table, which is remembered by its bytes.
"""

import struct
import uuid
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple

from headrace.capture.changes import (
    UNAVAILABLE,
    Begin,
    Commit,
    Event,
    Op,
    Reached,
    Row,
    RowChange,
    SchemaChange,
    Table,
    TableDropped,
    TableName,
    Truncate,
    Watermark,
)
from headrace.capture.errors import BrokenStream, PositionLost
from headrace.capture.mariadb.cells import Cell
from headrace.capture.mariadb.conditions import Judge
from headrace.capture.mariadb.gtid import MariadbPosition, MysqlPosition
from headrace.capture.mariadb.statements import Deed, effects_of
from headrace.capture.mariadb.tablemap import TableMap, packed, parse_table_map

_HEAD: Final = struct.Struct("<IBIIIH")
_HEAD_SIZE: Final = 19
_PREPARED_XA: Final = 64


class Kind(IntEnum):
    """Events as the log numbers them."""

    QUERY = 2
    STOP = 3
    ROTATE = 4
    XID = 16
    TABLE_MAP = 19
    WRITE_V1 = 23
    UPDATE_V1 = 24
    DELETE_V1 = 25
    HEARTBEAT = 27
    WRITE = 30
    UPDATE = 31
    DELETE = 32
    GTID = 33
    ANONYMOUS = 34
    XA_PREPARE = 38
    PARTIAL_UPDATE = 39
    PAYLOAD = 40
    GTID_TAGGED = 42
    MARIADB_GTID = 162
    QUERY_COMPRESSED = 165
    WRITE_COMPRESSED_V1 = 166
    UPDATE_COMPRESSED_V1 = 167
    DELETE_COMPRESSED_V1 = 168
    WRITE_COMPRESSED = 169
    UPDATE_COMPRESSED = 170
    DELETE_COMPRESSED = 171


_WRITES: Final = {23, 30, 166, 169}
_UPDATES: Final = {24, 31, 167, 170}
_ROWS: Final = {23, 24, 25, 30, 31, 32, 166, 167, 168, 169, 170, 171}
_SECOND_FORM: Final = {30, 31, 32, 169, 170, 171}
_COMPRESSED: Final = {166, 167, 168, 169, 170, 171}
_UNKNOWN: Final = {
    Kind.PARTIAL_UPDATE: "set binlog_row_value_options to nothing",
    Kind.PAYLOAD: "set binlog_transaction_compression to OFF",
    Kind.GTID_TAGGED: "use GTIDs without tags",
    Kind.ANONYMOUS: "set gtid_mode to ON",
}


class Place(NamedTuple):
    """Where in the log an event is."""

    file: str
    position: int
    row: int = 0


class Transaction(NamedTuple):
    """Which transaction it is, and of whom."""

    gtid: str
    server_id: int
    thread: int | None = None


class RowReader(NamedTuple):
    """How to read rows of a table."""

    table: Table
    columns: tuple[tuple[Cell, bool], ...]
    """Of all columns: how to read them, and whether they are told."""

    zeros: tuple[int, ...] = ()
    """Which of the told columns have a zero where a date is impossible: those that must be."""

    keeps: Judge | None = None
    """Which rows are told; all if None."""


class Log(NamedTuple):
    """What a decoder asks of the source."""

    mariadb: bool
    reader_of: Callable[[TableMap], RowReader | None]
    current: Callable[[TableName], Table | None]
    """A captured table as the catalogs have it now."""

    replaced: Callable[[TableName], None]
    """Told that a captured name is another table's now."""

    chooses: Callable[[TableName], bool]
    marks: TableName


class Decoder:
    """Makes events of the log.

    Args:
        log: What it asks of the source.
        start: The position at which the log begins.
    """

    def __init__(self, log: Log, start: str) -> None:
        self._log = log
        self._position = MariadbPosition(start) if log.mariadb else MysqlPosition(start)
        self._file = ""
        self._gtid: str | None = None
        self._transaction: Transaction | None = None
        self._standalone = False
        self._begun = False
        self._time_us = 0
        self._readers: dict[bytes, RowReader | None] = {}
        self._maps: dict[int, RowReader | None] = {}
        self._shapes: dict[TableName, Table] = {}
        self._reached: str | None = None
        self.read_up_to = Place("", 0)
        """The end of the last event."""

    def decode(self, events: list[bytes]) -> list[Event]:
        """What some events tell."""
        told: list[Event] = []
        for each in events:
            self._one(each, told)
        if self._reached is not None:
            if self._gtid is None:
                told.append(Reached(self._reached))
            self._reached = None
        return told

    def _one(self, data: bytes, told: list[Event]) -> None:
        seconds, kind, server_id, _, end, _ = _HEAD.unpack_from(data)
        if kind in _ROWS:
            self._rows(kind, data, end, told)
        elif kind == Kind.TABLE_MAP:
            self._table_map(data, end, told)
        elif kind == Kind.XID:
            self._commit(seconds, told)
        elif kind in (Kind.MARIADB_GTID, Kind.GTID):
            self._gtid_event(kind, data, seconds, server_id)
        elif kind in (Kind.QUERY, Kind.QUERY_COMPRESSED):
            self._query(data, kind, seconds, end, told)
        elif kind == Kind.ROTATE:
            self._file = data[_HEAD_SIZE + 8 :].decode()
            self._maps.clear()
            (position,) = struct.unpack_from("<Q", data, _HEAD_SIZE)
            self.read_up_to = Place(self._file, position)
            return
        elif kind == Kind.XA_PREPARE:
            raise self._undecided()
        elif kind in _UNKNOWN:
            raise BrokenStream(
                f"The log has an event of the kind {Kind(kind).name} at {self._file}:{end}, which "
                f"cannot be captured: {_UNKNOWN[Kind(kind)]}."
            )
        if end:
            self.read_up_to = Place(self._file, end)

    def _gtid_event(self, kind: int, data: bytes, seconds: int, server_id: int) -> None:
        if kind == Kind.MARIADB_GTID:
            number, domain, flags = struct.unpack_from("<QIB", data, _HEAD_SIZE)
            self._gtid = f"{domain}-{server_id}-{number}"
            self._standalone = bool(flags & 1)
            prepared = flags & _PREPARED_XA
        else:
            server = uuid.UUID(bytes=data[_HEAD_SIZE + 1 : _HEAD_SIZE + 17])
            (number,) = struct.unpack_from("<q", data, _HEAD_SIZE + 17)
            self._gtid = f"{server}:{number}"
            self._standalone = True
            prepared = 0
        if prepared:
            raise self._undecided()
        self._time_us = seconds * 1_000_000
        self._transaction = Transaction(self._gtid, server_id)
        self._begun = False

    def _undecided(self) -> PositionLost:
        return PositionLost(
            f"The transaction {self._gtid} is of the kind XA, which is in the log before it is "
            "known whether it commits. Such transactions cannot be captured; run the capture with "
            "--lost snapshot to go on behind it."
        )

    def _begin(self, told: list[Event]) -> None:
        if not self._begun:
            assert self._transaction is not None
            self._begun = True
            told.append(Begin(self._transaction.gtid, self._time_us, self._transaction))

    def _commit(self, seconds: int, told: list[Event]) -> None:
        if self._gtid is None:
            return
        self._position.add(self._gtid)
        self._gtid = None
        if self._begun:
            self._begun = False
            told.append(Commit(str(self._position), seconds * 1_000_000))
            self._reached = None
        else:
            self._reached = str(self._position)

    def _table_map(self, data: bytes, end: int, told: list[Event]) -> None:
        number = int.from_bytes(data[_HEAD_SIZE : _HEAD_SIZE + 6], "little")
        described = data[_HEAD_SIZE + 8 :]
        if described not in self._readers:
            table_map = parse_table_map(described, 0, mariadb=self._log.mariadb)
            self._readers[described] = self._log.reader_of(table_map)
        reader = self._maps[number] = self._readers[described]
        if reader is None or reader.table.name == self._log.marks:
            return
        if self._shapes.get(reader.table.name) is not reader.table:
            before = self._shapes.get(reader.table.name)
            self._shapes[reader.table.name] = reader.table
            if before is None or not before.says_the_same(reader.table):
                self._begin(told)
                told.append(SchemaChange(reader.table, before, Place(self._file, end)))

    def _query(self, data: bytes, kind: int, seconds: int, end: int, told: list[Event]) -> None:
        thread, _, length, _, variables = struct.unpack_from("<IIBHH", data, _HEAD_SIZE)
        place = _HEAD_SIZE + 13 + variables
        database = data[place : place + length].decode(errors="replace")
        written = data[place + length + 1 :]
        if kind == Kind.QUERY_COMPRESSED:
            written = inflated(written)
        sql = written.decode(errors="replace").strip()
        if self._transaction is not None:
            self._transaction = self._transaction._replace(thread=thread)
        word = sql[:8].upper()
        if word == "BEGIN":
            self._standalone = False
            return
        if word in ("COMMIT", "ROLLBACK"):
            self._commit(seconds, told)
            return
        if self._gtid is None:
            return
        self._statement(sql, database, Place(self._file, end), told)
        if self._standalone:
            self._commit(seconds, told)

    def _statement(self, sql: str, database: str, place: Place, told: list[Event]) -> None:
        for deed, name in effects_of(sql, database):
            if deed is Deed.DROPPED:
                gone = [each for each in self._shapes if name.table == "*" and each[0] == name[0]]
                for each in [name] if name.table != "*" else gone:
                    self._shapes.pop(each, None)
                    if self._log.chooses(each):
                        self._begin(told)
                        told.append(TableDropped(each, place))
                continue
            if not self._log.chooses(name):
                continue
            self._begin(told)
            if deed is Deed.WRITTEN:
                raise PositionLost(
                    f"{name} was changed by a statement that is in the log as such, at "
                    f"{place.file}:{place.position}, so that it is not known which rows it changed:"
                    " some session has binlog_format=STATEMENT. Run the capture with --lost "
                    "snapshot to read the tables anew."
                )
            if deed is Deed.EMPTIED:
                table = self._shapes.get(name) or self._log.current(name)
                if table is not None:
                    told.append(Truncate(table, place))
                continue
            if deed is Deed.REPLACED:
                self._log.replaced(name)
            table = self._log.current(name)
            before = self._shapes.get(name)
            if table is not None and (before is None or not before.says_the_same(table)):
                told.append(SchemaChange(table, before, place))
                self._shapes[name] = table
        # What tables look like is asked anew.
        self._readers.clear()

    def _rows(self, kind: int, data: bytes, end: int, told: list[Event]) -> None:
        number = int.from_bytes(data[_HEAD_SIZE : _HEAD_SIZE + 6], "little")
        if (reader := self._maps.get(number)) is None:
            return
        place = _HEAD_SIZE + 8
        if kind in _SECOND_FORM:
            (extra,) = struct.unpack_from("<H", data, place)
            place += extra
        count, place = packed(data, place)
        size = (count + 7) // 8
        present = data[place : place + size]
        place += size
        present_after = present
        if kind in _UPDATES:
            present_after = data[place : place + size]
            place += size
        if kind in _COMPRESSED:
            data, place = inflated(data[place:]), 0
        self._begin(told)
        where, row = self._file, 0
        while place < len(data):
            first, place = _row(data, place, present, reader)
            at = Place(where, end, row)
            row += 1
            if reader.table.name == self._log.marks:
                if kind in _UPDATES:
                    first, place = _row(data, place, present_after, reader)
                elif kind not in _WRITES:
                    continue
                told.append(Watermark(str(first[1]), at))
            elif kind in _WRITES:
                told += _judged(RowChange(Op.INSERT, reader.table, None, first, at), reader)
            elif kind in _UPDATES:
                second, place = _row(data, place, present_after, reader)
                told += _judged(RowChange(Op.UPDATE, reader.table, first, second, at), reader)
            else:
                told += _judged(RowChange(Op.DELETE, reader.table, first, None, at), reader)


def _judged(change: RowChange, reader: RowReader) -> tuple[RowChange, ...]:
    """A change as those see it who know nothing of rows that fail the condition.

    To them, a row that fails it from here on is deleted, and one that no longer fails it is new.
    """
    if (keeps := reader.keeps) is None:
        return (change,)
    _, table, before, after, place = change
    was = before is not None and keeps(before) is True
    becomes = after is not None and keeps(after) is True
    if was and becomes:
        return (change,)
    if was:
        return (RowChange(Op.DELETE, table, before, None, place),)
    return (RowChange(Op.INSERT, table, None, after, place),) if becomes else ()


def _row(data: bytes, place: int, present: bytes, reader: RowReader) -> tuple[Row, int]:
    columns = reader.columns
    bits = int.from_bytes(present, "little")
    count = (bits & ((1 << len(columns)) - 1)).bit_count()
    size = (count + 7) // 8
    nulls = int.from_bytes(data[place : place + size], "little")
    place += size
    row: list[Any] = []
    whole = count == len(columns)
    for number, (read, told) in enumerate(columns):
        if not whole and not bits >> number & 1:
            if told:
                row.append(UNAVAILABLE)
            continue
        if nulls & 1:
            value = None
        else:
            value, place = read(data, place)
        nulls >>= 1
        if told:
            row.append(value)
    for number in reader.zeros:
        if row[number] is None:
            row[number] = 0
    return tuple(row), place


def inflated(data: bytes) -> bytes:
    """What MariaDB compressed: a byte with the size of the length, the length, the rest."""
    return zlib.decompress(data[1 + (data[0] & 7) :])
