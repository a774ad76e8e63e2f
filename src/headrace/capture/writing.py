"""From events to records: which envelope a table's changes get, and what goes with them."""

import time
from collections.abc import Callable, Iterable

from headrace.capture.changes import (
    Begin,
    Commit,
    Message,
    Row,
    RowChange,
    SchemaChange,
    Table,
    TableDropped,
    TableName,
    Truncate,
)
from headrace.capture.delivery import Delivery
from headrace.capture.envelope import (
    DebeziumEnvelope,
    Decimals,
    Intervals,
    Modes,
    Outbox,
    PlainEnvelope,
    Times,
    TransactionMetadata,
)
from headrace.capture.envelope.schema_events import SchemaEvents
from headrace.capture.selection import Selection
from headrace.capture.source import Chunk, Source
from headrace.capture.state import CaptureState, KnownTable, fingerprint
from headrace.settings import CaptureSettings


class Writer:
    """Writes what a log and snapshots tell, into whatever transaction is open.

    Args:
        settings: How.
        source: Whose.
        delivery: Where to.
        state: Whose tables' shapes are kept up to date.
    """

    def __init__(
        self,
        settings: CaptureSettings,
        source: Source,
        delivery: Delivery,
        state: CaptureState,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        modes = Modes(
            Decimals(settings.decimals), Times(settings.times), Intervals(settings.intervals)
        )
        prefix = settings.prefix
        self._source = source
        self._delivery = delivery
        self._state = state
        self._now_ns = now_ns
        self._envelope: DebeziumEnvelope | PlainEnvelope
        if settings.envelope == "plain":
            self._envelope = PlainEnvelope(source, prefix, modes=modes, now_ns=now_ns)
        else:
            self._envelope = DebeziumEnvelope(
                source,
                prefix,
                schemas=settings.schemas,
                tombstones=settings.tombstones,
                modes=modes,
                now_ns=now_ns,
            )
        self._metadata = (
            TransactionMetadata(prefix, schemas=settings.schemas) if settings.transactions else None
        )
        self._schemas = SchemaEvents(source, prefix, modes)
        self._outbox = Outbox()
        self._outboxes = Selection(settings.outbox) if settings.outbox else None
        self._begin: Begin | None = None
        self._told = False
        self._tables: dict[TableName, Table] = {}

    def is_outbox(self, name: TableName) -> bool:
        """Whether a table's rows are events, and none of its own."""
        return self._outboxes is not None and self._outboxes.has_table(name, self._source.schema)

    def begin(self, begin: Begin) -> None:
        """A transaction begins."""
        self._begin = begin
        self._told = False

    def commit(self, commit: Commit) -> None:
        """A transaction is complete."""
        if self._metadata is not None and self._told:
            self._delivery.send([self._metadata.end(commit.time_us)], compacted=False)
        self._begin = None

    def change(self, change: RowChange) -> None:
        """A row changed."""
        if self._outboxes is not None and self.is_outbox(change.table.name):
            self._delivery.send(self._outbox.change(change), compacted=False)
            return
        if self._metadata is None:
            records = self._envelope.change(change, self._begin)
        else:
            self._tell_transaction()
            records = self._envelope.change(change, self._begin, self._metadata.count)
        self._delivery.send(records, compacted=bool(change.table.key))

    def truncate(self, truncate: Truncate) -> None:
        """All rows of a table went."""
        if self.is_outbox(truncate.table.name):
            return
        if self._metadata is None or self._begin is None:
            records = self._envelope.truncate(truncate, self._begin)
        else:
            self._tell_transaction()
            records = self._envelope.truncate(truncate, self._begin, self._metadata.count)
        self._delivery.send(records, compacted=bool(truncate.table.key))

    def message(self, message: Message) -> None:
        """An application wrote a message."""
        if self._metadata is None or self._begin is None:
            records = self._envelope.message(message, self._begin)
        else:
            self._tell_transaction()
            records = self._envelope.message(message, self._begin, self._metadata.count)
        self._delivery.send(records, compacted=False)

    def chunk(self, chunk: Chunk, rows: Iterable[Row], place: object) -> None:
        """Rows that a snapshot read."""
        self.shape(chunk.table)
        self._delivery.send(self._envelope.rows(chunk.table, rows, place))

    def forget(self, table: Table, place: object) -> None:
        """What the topic has is no longer so; a snapshot will tell it anew."""
        self.shape(table)
        records = self._envelope.truncate(Truncate(table, place), None)
        self._delivery.send(records, compacted=bool(table.key))

    def schema_change(self, event: SchemaChange) -> None:
        """Rows of a table look different from here on."""
        self.shape(event.table)

    def dropped(self, event: TableDropped) -> None:
        """A table is gone, and its rows with it."""
        if (table := self._tables.get(event.name)) is not None:
            self.truncate(Truncate(table, event.place))

    def shape(self, table: Table) -> None:
        """Tell the shape of a table, if it is not the one that was told last."""
        if self._tables.get(table.name) is table:
            return
        self._tables[table.name] = table
        name, found = str(table.name), fingerprint(table)
        known = self._state.tables.get(name)
        if known is not None and known.fingerprint == found:
            return
        version = 1 if known is None else known.version + 1
        native = table.native if known is None else known.native
        self._state.tables[name] = KnownTable(native, found, version)
        record = self._schemas.changed(table, version=version, time_ms=self._now_ns() // 1_000_000)
        self._delivery.send([record])

    def gone(self, name: TableName) -> None:
        """A table is not there any more."""
        known = self._state.tables.pop(str(name), None)
        if known is not None:
            now = self._now_ns() // 1_000_000
            record = self._schemas.dropped(name, version=known.version + 1, time_ms=now)
            self._delivery.send([record])

    def _tell_transaction(self) -> None:
        if not self._told and self._metadata is not None and self._begin is not None:
            self._told = True
            started = self._metadata.begin(self._source.transaction_id(self._begin), self._begin)
            self._delivery.send([started], compacted=False)
