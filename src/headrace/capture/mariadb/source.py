"""A MariaDB or MySQL database as a source of changes."""

import ipaddress
import threading
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from headrace.capture.changes import Begin, Position, Table, TableName, TypeKind
from headrace.capture.errors import BrokenStream, InvalidCapture, PositionLost
from headrace.capture.mariadb.binlog import Decoder, Log, RowReader
from headrace.capture.mariadb.catalog import (
    codec_of,
    collations_of,
    describe,
    fits,
    names_of,
    table_of,
)
from headrace.capture.mariadb.cells import Cell, cell_of
from headrace.capture.mariadb.chunks import MariadbReader, RowParser, zeros_of
from headrace.capture.mariadb.conditions import Condition, Judge
from headrace.capture.mariadb.connection import answers, connect, explained, parameters_of
from headrace.capture.mariadb.dump import Dump
from headrace.capture.mariadb.setup import Setup, generation_of
from headrace.capture.mariadb.stream import MariadbStream
from headrace.capture.mariadb.tablemap import TableMap
from headrace.capture.naming import PREFIX, object_name
from headrace.capture.selection import MASK, Selection
from headrace.capture.source import Check, LogDistance
from headrace.settings.address import shown

_LONGEST_NAME: Final = 64
_FIRST_ID: Final = 1_000_000_000
_IDS: Final = 3_000_000_000
"""Replicas have numbers; ours are high ones that follow from the capture's name."""


class MariadbSource:
    """One database, and what a capture wants of it.

    Args:
        url: mariadb://user:password@host:port/database, or mysql:// and so on.
        name: The capture's; its table of marks is called headrace_ and that.
        selection: What is captured.
    """

    def __init__(self, url: str, name: str, selection: Selection) -> None:
        self._url = url
        self.connector = url.partition(":")[0]
        self._selection = selection
        self._conditions = {sql: Condition(sql) for sql in selection.where.values()}
        self._database: str = parameters_of(url)["database"]
        self.marks = TableName(self._database, object_name(name, _LONGEST_NAME))
        self._server_id = _FIRST_ID + zlib.crc32(f"{name} {url}".encode()) % _IDS
        self._lock = threading.RLock()
        self._shared: Any = None
        self._collations: dict[int, str] = {}
        self._tables: dict[TableName, Table] = {}
        self._named: dict[TableName | None, str] = {}
        self._stream: MariadbStream | None = None

    @property
    def database(self) -> str:
        """The database's name."""
        return self._database

    @property
    def schema(self) -> str:
        """The database of the URL: databases are schemas here."""
        return self._database

    def check(self) -> Check:
        """Look at settings, privileges and tables, and change nothing."""
        with self._lock, explained(self._url):
            return self._setup().check(self._judged())

    def prepare(self, resume: Position | None) -> Position | None:
        """Make the table of marks; the end of the log if it was not there."""
        with self._lock, explained(self._url):
            setup = self._setup()
            if resume is not None and not setup.exists():
                raise PositionLost(
                    f"The table {self.marks} of this capture is not there any more: the capture "
                    "was dropped, or this server is not the one that was captured. Run it with "
                    "--lost snapshot to read its tables anew."
                )
            return setup.make(self._judged())

    def give_up(self) -> None:
        """Nothing: what is made here waits for nobody."""

    def extend(self) -> None:
        """Nothing: the log has all tables anyway."""

    def tables(self) -> Sequence[Table]:
        """The tables that are captured, as they are now."""
        with self._lock, explained(self._url):
            return self._chosen()

    def open(self, position: Position | None) -> MariadbStream:
        """The log behind a position; behind its end, if nothing was captured yet."""
        with self._lock, explained(self._url):
            setup = self._setup()
            start = setup.end() if position is None else position
            self._collations = collations_of(self._connection())
        log = Log(
            setup.mariadb,
            self._reader_of,
            self._current,
            self._replaced,
            self._chooses,
            self.marks,
        )
        decoder = Decoder(log, start)
        dump = Dump(
            connect(self._url),
            url=self._url,
            server_id=self._server_id,
            start=start,
            mariadb=setup.mariadb,
        )
        self._stream = MariadbStream(dump, start, decoder)
        return self._stream

    def reader(self) -> MariadbReader:
        """A connection of its own that reads tables."""
        return MariadbReader(
            connect(self._url),
            url=self._url,
            marks=self.marks,
            describe=self._parser_of,
        )

    def distance(self) -> LogDistance:
        """How far the last stream is from the log's end; nothing is kept for us."""
        with self._lock, explained(self._url):
            if self._stream is None:
                return LogDistance(0, 0)
            file, position, _ = self._stream.place
            return LogDistance(self._setup().behind(file, position), 0)

    def drop(self) -> Sequence[str]:
        """Remove the table of marks."""
        with self._lock, explained(self._url):
            return self._setup().drop()

    def close(self) -> None:
        """End the connection that is not a stream's or a reader's."""
        with self._lock:
            if self._shared is not None:
                self._shared.close()
                self._shared = None

    def database_of(self, name: TableName | None) -> str:
        """The database of the table, which need not be the one of the URL."""
        return self._database if name is None else name.schema

    def sequence(self, begin: Begin | None, place: Any) -> str:
        """Null, as Debezium has it."""
        return "null"

    def origin(self, name: TableName | None, begin: Begin | None, place: Any) -> str:
        """What Debezium tells of an event in MariaDB and MySQL."""
        if (named := self._named.get(name)) is None:
            table = None if name is None else name.table
            named = self._named[name] = orjson.dumps({"table": table}).decode()[1:-1]
        file, position, row = place or ("", 0, 0)
        if begin is None:
            of = '"server_id":0,"gtid":null'
            thread = "null"
        else:
            of = f'"server_id":{begin.place.server_id},"gtid":"{begin.place.gtid}"'
            thread = "null" if begin.place.thread is None else begin.place.thread
        where = f'"file":"{file}","pos":{position},"row":{row}'
        return f'{named},{of},{where},"thread":{thread},"query":null'

    def origin_schema(self) -> Sequence[Mapping[str, Any]]:
        """The Kafka Connect fields of that."""
        return [
            {"type": "string", "optional": True, "field": "table"},
            {"type": "int64", "optional": False, "field": "server_id"},
            {"type": "string", "optional": True, "field": "gtid"},
            {"type": "string", "optional": False, "field": "file"},
            {"type": "int64", "optional": False, "field": "pos"},
            {"type": "int32", "optional": False, "field": "row"},
            {"type": "int64", "optional": True, "field": "thread"},
            {"type": "string", "optional": True, "field": "query"},
        ]

    def transaction_id(self, begin: Begin) -> str:
        """Its GTID."""
        return begin.id

    def _connection(self) -> Any:
        if self._shared is None or not answers(self._shared):
            # A server that was restarted is not one that is gone.
            self._shared = connect(self._url)
        return self._shared

    def _setup(self) -> Setup:
        return Setup(self._connection(), self.marks, shown(self._url))

    def _chooses(self, name: TableName) -> bool:
        return self._selection.has_table(name, self._database) and not name.table.startswith(PREFIX)

    def _chosen(self) -> list[Table]:
        setup = self._setup()
        names = [name for name in names_of(self._connection()) if self._chooses(name)]
        generations = setup.generations()
        described = [
            self._describe(self._connection(), name, generation_of(generations, name))
            for name in names
        ]
        return [each for each in described if each is not None]

    def _judged(self) -> list[Table]:
        """The tables that are captured; InvalidCapture if a condition does not fit its table."""
        tables = self._chosen()
        for table in tables:
            self._judge_of(table)
        return tables

    def _describe(self, connection: Any, name: TableName, generation: int | None) -> Table | None:
        """A table without the columns that are left out; the same object while it is the same."""
        whole = describe(connection, name)
        return None if whole is None else self._same(self._told(whole), generation)

    def _same(self, table: Table, generation: int | None) -> Table:
        known = self._tables.get(table.name)
        if generation is None:
            generation = 1 if known is None else known.native
        if known is not None and known.says_the_same(table) and known.native == generation:
            return known
        found = Table(table.name, table.columns, table.key, generation)
        self._tables[table.name] = found
        return found

    def _told(self, whole: Table) -> Table:
        kept = [
            place
            for place, column in enumerate(whole.columns)
            if self._selection.tells(whole.name, column.name, in_key=place in whole.key)
        ]
        columns = tuple(whole.columns[place] for place in kept)
        return Table(whole.name, columns, tuple(kept.index(place) for place in whole.key))

    def _is_masked(self, table: Table, place: int) -> bool:
        column, in_key = table.columns[place], place in table.key
        return self._selection.masks(table.name, column.name, column.type.kind, in_key=in_key)

    def _parser_of(self, connection: Any, name: TableName) -> tuple[Table, RowParser] | None:
        with self._lock:
            if (table := self._describe(connection, name, None)) is None:
                return None
        masked = [self._is_masked(table, place) for place in range(len(table.columns))]
        return table, RowParser(table, masked, MASK, self._judge_of(table))

    def _judge_of(self, table: Table) -> Judge | None:
        """Which rows of a table are told; all if None."""
        if (sql := self._selection.condition(table.name, self._database)) is None:
            return None
        if hidden := [
            column.name
            for place, column in enumerate(table.columns)
            if self._is_masked(table, place) and self._conditions[sql].names(column.name)
        ]:
            raise InvalidCapture(
                f"The condition on {table.name} names {hidden[0]}, which is masked: who sees which "
                "rows there are would know its values."
            )
        return self._conditions[sql].judge_of(table)

    def _current(self, name: TableName) -> Table | None:
        with self._lock, explained(self._url):
            return self._describe(self._connection(), name, None)

    def _replaced(self, name: TableName) -> None:
        with self._lock, explained(self._url):
            self._setup().replaced(name)

    def _codec(self, collation: int) -> str | None:
        return codec_of(self._collations.get(collation, "utf8mb4"))

    def _reader_of(self, told: TableMap) -> RowReader | None:
        """How to read rows that the log tells, with what the catalogs know about their columns."""
        if told.name == self.marks:
            cells = [cell_of(column, self._codec(column.collation)) for column in told.columns]
            table = Table(told.name, table_of(told, self._codec).columns)
            return RowReader(table, tuple((cell, True) for cell in cells))
        if not self._chooses(told.name):
            return None
        if not told.named:
            raise BrokenStream(
                f"The log does not name the columns of {told.name}: it was written before "
                "binlog_row_metadata was FULL. Run the capture with --lost snapshot to begin "
                "behind it."
            )
        with self._lock, explained(self._url):
            whole = describe(self._connection(), told.name)
            # The catalogs may be ahead of the log; then the log alone says what there is.
            if whole is None or not fits(whole, told, self._codec):
                whole = table_of(told, self._codec)
            table = self._same(self._told(whole), None)
        names = set(table.names)
        columns: list[tuple[Cell, bool]] = []
        for place, column in enumerate(told.columns):
            cell = cell_of(column, self._codec(column.collation))
            type_ = whole.columns[place].type
            if self._is_masked(whole, place):
                cell = _then(cell, lambda value: MASK)
            elif type_.kind is TypeKind.UUID:
                cell = _then(cell, uuid_text)
            elif type_.name in ("inet6", "inet4"):
                cell = _then(cell, address_text)
            columns.append((cell, column.name in names))
        return RowReader(table, tuple(columns), zeros_of(table), self._judge_of(table))


def _then(cell: Cell, change: Callable[[Any], Any]) -> Cell:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        value, end = cell(data, at)
        return change(value), end

    return read


def uuid_text(value: bytes) -> str:
    """A UUID of MariaDB."""
    return str(uuid.UUID(bytes=value))


def address_text(value: bytes) -> str:
    """An address of MariaDB."""
    return str(ipaddress.ip_address(value))
