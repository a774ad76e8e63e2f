"""A PostgreSQL database as a source of changes."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from headrace.capture.changes import Begin, Column, Position, Table, TableName
from headrace.capture.errors import PositionLost
from headrace.capture.naming import object_name
from headrace.capture.postgres.catalog import Catalog, Relation
from headrace.capture.postgres.chunks import PostgresReader
from headrace.capture.postgres.connection import connect, explained, parameters_of
from headrace.capture.postgres.lookup import Lookup
from headrace.capture.postgres.pgoutput import Decoder, RelationMessage, RowReader
from headrace.capture.postgres.setup import GENERATED, Setup, unidentified
from headrace.capture.postgres.stream import PostgresStream
from headrace.capture.postgres.values import decoder_of, form_of
from headrace.capture.selection import MASK, Selection
from headrace.capture.source import Check, LogDistance
from headrace.capture.texts import Decode, Reading, TextRow
from headrace.settings.address import shown

_LONGEST_NAME: Final = 63

_DISTANCE_SQL: Final = """
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint,
       pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint, wal_status
FROM pg_replication_slots WHERE slot_name = %s
"""


class PostgresSource:
    """One database, and what a capture wants of it.

    Args:
        url: postgresql://user:password@host:port/database, with libpq's options as a query.
        name: The capture's; its slot and its publication are called headrace_ and that.
        selection: What is captured.
    """

    connector = "postgresql"
    schema = "public"

    def __init__(self, url: str, name: str, selection: Selection) -> None:
        self._url = url
        self._selection = selection
        self._database = parameters_of(url)["dbname"]
        self.slot = object_name(name, _LONGEST_NAME)
        self._lock = threading.Lock()
        self._shared: Any = None
        self._preparing: Any = None
        self._named: dict[TableName | None, str] = {}

    @property
    def database(self) -> str:
        """The database's name."""
        return self._database

    def check(self) -> Check:
        """Look at settings, privileges and tables, and change nothing."""
        with self._lock, explained(self._url):
            relations, conditions = self._chosen()
            return self._setup().check(relations, filtered=any(conditions))

    def prepare(self, resume: Position | None) -> Position | None:
        """Make the publication and the slot; the slot's position if it is new."""
        with self._lock, explained(self._url):
            setup = self._setup()
            self._preparing = self._shared
            try:
                return setup.make(*self._chosen(), resume)
            finally:
                self._preparing = None

    def give_up(self) -> None:
        """Have the server make no slot for which it waits for the transactions of others."""
        if (connection := self._preparing) is not None:
            connection.cancel()

    def extend(self) -> None:
        """Publish tables that match by now."""
        with self._lock, explained(self._url):
            self._setup().publish(*self._chosen())

    def tables(self) -> Sequence[Table]:
        """The tables that are captured, as they are now."""
        with self._lock, explained(self._url):
            relations, _ = self._chosen()
            return [self._row_reader(each.table).table for each in relations]

    def open(self, position: Position | None) -> PostgresStream:
        """The log behind a position."""
        with self._lock, explained(self._url):
            setup = self._setup()
            if position is None:
                found = setup.slot()
                if found is None or found[2] is None:
                    raise PositionLost(f"There is no replication slot {self.slot} to begin from.")
                position = found[2]
            else:
                setup.require_slot(position)
        stream = PostgresStream(
            connect(self._url, replication=True),
            url=self._url,
            slot=self.slot,
            publication=self.slot,
            start=position,
            decoder=Decoder(self._reader_of, self._fill, marks=self.slot),
        )
        # Until the first message has come, the driver confirms what it hears in passing.
        with self._lock, explained(self._url), self._connection().cursor() as cursor:
            cursor.execute("SELECT pg_logical_emit_message(true, %s, 'hello')", (self.slot,))
        return stream

    def reader(self) -> PostgresReader:
        """A connection of its own that reads tables."""
        connection = connect(self._url)
        return PostgresReader(
            connection,
            catalog=_catalog_of(connection),
            url=self._url,
            marks=self.slot,
            describe=self._describe,
            condition=lambda name: self._selection.condition(name, self.schema),
        )

    def distance(self) -> LogDistance:
        """How far the slot is behind the log's end."""
        with self._lock, explained(self._url), self._connection().cursor() as cursor:
            cursor.execute(_DISTANCE_SQL, (self.slot,))
            row = cursor.fetchone()
        if row is None or row[2] == "lost":
            became = "was dropped" if row is None else "fell too far behind"
            raise PositionLost(
                f"The replication slot {self.slot} of {shown(self._url)} {became}. Run the capture "
                "with --lost snapshot to read its tables anew."
            )
        return LogDistance(max(row[0] or 0, 0), max(row[1] or 0, 0))

    def drop(self) -> Sequence[str]:
        """Remove the slot and the publication."""
        with self._lock, explained(self._url):
            return self._setup().drop()

    def close(self) -> None:
        """End the connection that is not a stream's or a reader's."""
        with self._lock:
            if self._shared is not None:
                self._shared.close()
                self._shared = None

    def database_of(self, name: TableName | None) -> str:
        """The database: there is no other one in reach."""
        return self._database

    def sequence(self, begin: Begin | None, place: Any) -> str:
        """The end of the commit before, and the place of the event: JSON within a string."""
        if begin is None or begin.place.previous is None:
            return rf'"[null,\"{place}\"]"'
        return rf'"[\"{begin.place.previous}\",\"{place}\"]"'

    def origin(self, name: TableName | None, begin: Begin | None, place: Any) -> str:
        """What Debezium tells of an event in PostgreSQL."""
        if (named := self._named.get(name)) is None:
            schema, table = ("", "") if name is None else name
            named = orjson.dumps({"schema": schema, "table": table}).decode()[1:-1]
            self._named[name] = named
        xid = "null" if begin is None else begin.place.xid
        return f'{named},"txId":{xid},"lsn":{place},"xmin":null,"origin":null,"origin_lsn":null'

    def origin_schema(self) -> Sequence[Mapping[str, Any]]:
        """The Kafka Connect fields of that."""
        return [
            {"type": "string", "optional": False, "field": "schema"},
            {"type": "string", "optional": False, "field": "table"},
            {"type": "int64", "optional": True, "field": "txId"},
            {"type": "int64", "optional": True, "field": "lsn"},
            {"type": "int64", "optional": True, "field": "xmin"},
            {"type": "string", "optional": True, "field": "origin"},
            {"type": "int64", "optional": True, "field": "origin_lsn"},
        ]

    def transaction_id(self, begin: Begin) -> str:
        """The transaction's number and the place of its commit."""
        return f"{begin.place.xid}:{begin.place.lsn}"

    def _fill(self, reader: RowReader, row: TextRow, xid: int) -> TextRow:
        with self._lock, explained(self._url):
            return Lookup(self._connection).fill(reader, row, xid)

    def _connection(self) -> Any:
        if self._shared is None or self._shared.closed:
            self._shared = connect(self._url)
            self._catalog = _catalog_of(self._shared)
        return self._shared

    def _setup(self) -> Setup:
        return Setup(self._connection(), self.slot, f"{shown(self._url)}")

    def _chosen(self) -> tuple[list[Relation], list[str | None]]:
        """The tables that are meant, and the conditions on their rows.

        A table that only a pattern names and that cannot be captured is left out.
        """
        self._connection()
        catalog = self._catalog
        catalog.forget_types()
        wanted = [
            each for each in catalog.relations() if self._selection.has_table(each[1], self.schema)
        ]
        relations = [
            each
            for each in catalog.describe(wanted)
            if not unidentified(each) or self._selection.names_table(each.name, self.schema)
        ]
        return relations, [self._selection.condition(each.name, self.schema) for each in relations]

    def _describe(self, catalog: Catalog, name: TableName) -> tuple[Relation, RowReader] | None:
        wanted = [each for each in catalog.relations() if each[1] == name]
        if not wanted:
            return None
        (relation,) = catalog.describe(wanted)
        return relation, self._row_reader(relation.table)

    def _reader_of(self, message: RelationMessage) -> RowReader | None:
        """How to read rows that the log tells, with what the catalogs know about their columns."""
        if not self._selection.has_table(message.name, self.schema):
            return None
        with self._lock, explained(self._url):
            self._connection()
            catalog = self._catalog
            catalog.forget_types()
            known = catalog.describe([(message.oid, message.name, message.identity)])[0].table
            now = dict(zip(known.names, known.columns, strict=True))
            columns = []
            for told in message.columns:
                type_ = catalog.type(told.type, told.modifier)
                # The catalogs may be ahead of the log; then nothing more is known.
                same = now.get(told.name)
                if same is not None and same.type == type_:
                    columns.append(same)
                else:
                    columns.append(Column(told.name, type_, nullable=not told.key))
        names = [column.name for column in columns]
        if message.identity == "f":
            key = tuple(names.index(each) for each in known.key_names if each in names)
        else:
            marked = [column.name for column in message.columns if column.key]
            # In the key's own order, which a relation message does not tell.
            ordered = known.key_names if set(known.key_names) == set(marked) else marked
            key = tuple(names.index(each) for each in ordered)
        return self._row_reader(Table(message.name, tuple(columns), key, message.oid))

    def _row_reader(self, table: Table) -> RowReader:
        """The table without the columns that are left out, and how the others are read."""
        decoders: list[Decode] = []
        kept: list[int] = []
        for place, column in enumerate(table.columns):
            in_key = place in table.key
            if not self._selection.tells(table.name, column.name, in_key=in_key):
                continue
            kept.append(place)
            kind = column.type.kind
            if self._selection.masks(table.name, column.name, kind, in_key=in_key):
                decoders.append(_masked)
            else:
                decoders.append(decoder_of(column.type))
        columns = tuple(table.columns[place] for place in kept)
        key = tuple(kept.index(place) for place in table.key)
        reading = Reading(tuple(decoders), tuple(map(form_of, decoders)))
        told = tuple(place in kept for place in range(len(table.columns)))
        return RowReader(Table(table.name, columns, key, table.native), reading, told)


def _catalog_of(connection: Any) -> Catalog:
    return Catalog(connection, generated=connection.server_version >= GENERATED)


def _masked(text: bytes) -> str:
    return MASK
