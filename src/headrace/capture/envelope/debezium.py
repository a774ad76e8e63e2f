"""Debezium's envelope, field for field.

A change is `before`, `after`, `source`, `transaction`, `op` and three times; a delete is followed
by a tombstone; a changed key is a delete and an insert that name each other in headers. With
schemas, everything is `{"schema": ..., "payload": ...}` as Kafka Connect's JSON converter has it.
"""

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import orjson

from headrace import __version__
from headrace.capture.changes import (
    Begin,
    Message,
    Op,
    Row,
    RowChange,
    Table,
    TableName,
    Truncate,
)
from headrace.capture.envelope.columns import Columns
from headrace.capture.envelope.modes import Modes
from headrace.capture.envelope.records import Headers, Record, topic_of
from headrace.capture.envelope.schemas import (
    MESSAGE_KEY,
    envelope_schema,
    key_schema,
    message_schema,
    source_schema,
)
from headrace.capture.source import Source

NEW_KEY: Final = "__debezium.newkey"
OLD_KEY: Final = "__debezium.oldkey"
"""The headers by which the two halves of a changed key name each other."""

SNAPSHOT: Final = "incremental"
"""What `source.snapshot` says of rows that were read: in chunks, between changes."""

NO_KEY: Final = b"null"
"""The key of what is about a whole table: JSON for null, since a compacted topic needs a key."""

MESSAGES: Final = "message"
"""How the name of the topic of messages ends."""

_LETTERS: Final = {op: op.value for op in Op}
"""Looked up, which is faster than asking."""

Counted = Callable[[TableName], dict[str, Any]]
"""The `transaction` block of the next event of a table."""


class _TableEncoder:
    """Everything about one version of a table that is the same for all its rows."""

    __slots__ = ("key", "key_head", "name", "row", "tail", "topic", "value_head")

    def __init__(self, envelope: "DebeziumEnvelope", table: Table) -> None:
        self.name = table.name
        self.topic = topic_of(envelope.prefix, table.name)
        self.row = Columns(table, envelope.modes)
        self.key = Columns(table, envelope.modes, table.key) if table.key else None
        self.key_head = self.value_head = self.tail = b""
        if envelope.schemas:
            self.tail = b"}"
            value = envelope_schema(self.topic, self.row.fields, envelope.source_schema)
            self.value_head = _head(value)
            if self.key is not None:
                self.key_head = _head(key_schema(self.topic, self.key.fields))

    def key_of(self, row: Row) -> bytes | None:
        """The key of a row's records."""
        if self.key is None:
            return None
        written = self.key.written(row)
        return b"%b%b}" % (self.key_head, written) if self.key_head else written


def _head(schema: dict[str, Any]) -> bytes:
    return b'{"schema":' + orjson.dumps(schema) + b',"payload":'


class DebeziumEnvelope:
    """Makes records of changes.

    Args:
        source: Whose changes they are.
        prefix: How the names of topics begin.
        schemas: Whether records carry their Kafka Connect schema.
        tombstones: Whether a delete is followed by a record without value.
        modes: How values are written.
        now_ns: The time, in nanoseconds since the epoch.
    """

    def __init__(
        self,
        source: Source,
        prefix: str,
        *,
        schemas: bool = False,
        tombstones: bool = True,
        modes: Modes | None = None,
        now_ns: Callable[[], int],
    ) -> None:
        self.prefix = prefix
        self.schemas = schemas
        self.modes = modes or Modes()
        self.source_schema = source_schema(source.connector, source.origin_schema())
        self._source = source
        self._tombstones = tombstones
        self._now_ns = now_ns
        self._encoders: dict[Table, _TableEncoder] = {}
        about = {"version": __version__, "connector": source.connector, "name": prefix}
        self._origin_head = f'{orjson.dumps(about).decode()[:-1]},"ts_ms":'
        self._databases: dict[TableName | None, str] = {}

    def topic_of(self, table: Table) -> str:
        """Where the changes of a table go."""
        return self._encoder(table).topic

    def change(
        self, change: RowChange, begin: Begin | None, counted: Counted | None = None
    ) -> list[Record]:
        """The records of a row's change; `begin` is None of a row that a snapshot read."""
        op, table, before, after, place = change
        encoder = self._encoder(table)
        if op is Op.UPDATE and before is not None and encoder.key is not None:
            assert after is not None
            if table.key_of(before) != table.key_of(after):
                return self._changed_key(encoder, before, after, begin, place, counted)
        told = before if after is None else after
        assert told is not None
        key = encoder.key_of(told)
        value = self._value(encoder, op, before, after, begin, place, counted)
        records = [Record(encoder.topic, key, value)]
        if op is Op.DELETE and self._tombstones and key is not None:
            records.append(Record(encoder.topic, key, None))
        return records

    def rows(self, table: Table, rows: Iterable[Row], place: Any) -> Iterator[Record]:
        """The records of rows that a snapshot read, all at this place."""
        encoder = self._encoder(table)
        head = encoder.value_head + b'{"before":null,"after":'
        tail = self._rest(encoder.name, Op.READ, None, place, None) + encoder.tail
        topic, key_of, written = encoder.topic, encoder.key_of, encoder.row.written
        for row in rows:
            yield Record(topic, key_of(row), b"%b%b%b" % (head, written(row), tail))

    def truncate(
        self, truncate: Truncate, begin: Begin | None, counted: Counted | None = None
    ) -> list[Record]:
        """The record of a truncated table, for every partition of its topic."""
        encoder = self._encoder(truncate.table)
        value = self._value(encoder, Op.TRUNCATE, None, None, begin, truncate.place, counted)
        key = None if encoder.key is None else NO_KEY
        return [Record(encoder.topic, key, value, everywhere=True)]

    def message(
        self, message: Message, begin: Begin | None, counted: Counted | None = None
    ) -> list[Record]:
        """The record of a message that an application wrote into the log."""
        now = self._now_ns()
        content = base64.b64encode(message.content).decode()
        payload = {
            "op": Op.MESSAGE,
            "ts_ms": now // 1_000_000,
            "source": orjson.Fragment(self._origin(None, begin, message.place, now, "false")),
            "transaction": counted and counted(TableName(MESSAGES, message.prefix)),
            "message": {"prefix": message.prefix, "content": content},
        }
        key: dict[str, Any] = {"prefix": message.prefix}
        topic = f"{self.prefix}.{MESSAGES}"
        if self.schemas:
            key = {"schema": MESSAGE_KEY, "payload": key}
            payload = {"schema": message_schema(self.source_schema), "payload": payload}
        return [Record(topic, orjson.dumps(key), orjson.dumps(payload))]

    def _encoder(self, table: Table) -> _TableEncoder:
        if (encoder := self._encoders.get(table)) is None:
            # Older versions of a table never come again.
            for other in [each for each in self._encoders if each.name == table.name]:
                del self._encoders[other]
            encoder = self._encoders[table] = _TableEncoder(self, table)
        return encoder

    def _changed_key(
        self,
        encoder: _TableEncoder,
        before: Row,
        after: Row,
        begin: Begin | None,
        place: Any,
        counted: Counted | None,
    ) -> list[Record]:
        assert encoder.key is not None
        old, new = encoder.key_of(before), encoder.key_of(after)
        gone = self._value(encoder, Op.DELETE, before, None, begin, place, counted)
        come = self._value(encoder, Op.INSERT, None, after, begin, place, counted)
        # Headers have no schemas.
        to_new: Headers = [(NEW_KEY, encoder.key.written(after))]
        to_old: Headers = [(OLD_KEY, encoder.key.written(before))]
        records = [Record(encoder.topic, old, gone, to_new)]
        if self._tombstones:
            records.append(Record(encoder.topic, old, None, to_new))
        return [*records, Record(encoder.topic, new, come, to_old)]

    def _value(
        self,
        encoder: _TableEncoder,
        op: Op,
        before: Row | None,
        after: Row | None,
        begin: Begin | None,
        place: Any,
        counted: Counted | None,
    ) -> bytes:
        transaction = None if counted is None else counted(encoder.name)
        return b'%b{"before":%b,"after":%b%b%b' % (
            encoder.value_head,
            b"null" if before is None else encoder.row.written(before, former=True),
            b"null" if after is None else encoder.row.written(after),
            self._rest(encoder.name, op, begin, place, transaction),
            encoder.tail,
        )

    def _rest(
        self,
        name: TableName,
        op: Op,
        begin: Begin | None,
        place: Any,
        transaction: dict[str, Any] | None,
    ) -> bytes:
        """What follows the rows."""
        now = self._now_ns()
        origin = self._origin(name, begin, place, now, SNAPSHOT if begin is None else "false")
        block = "null" if transaction is None else orjson.dumps(transaction).decode()
        return (
            f',"source":{origin},"transaction":{block},"op":"{_LETTERS[op]}",'
            f'"ts_ms":{now // 1_000_000},"ts_us":{now // 1000},"ts_ns":{now}}}'
        ).encode()

    def _origin(
        self, name: TableName | None, begin: Begin | None, place: Any, now: int, snapshot: str
    ) -> str:
        """The `source` block, as JSON."""
        source = self._source
        if (database := self._databases.get(name)) is None:
            database = orjson.dumps(source.database_of(name)).decode()
            self._databases[name] = database
        time_us = now // 1000 if begin is None else begin.time_us
        return (
            f'{self._origin_head}{time_us // 1000},"snapshot":"{snapshot}","db":{database},'
            f'"sequence":{source.sequence(begin, place)},"ts_us":{time_us},"ts_ns":{time_us}000,'
            f"{source.origin(name, begin, place)}}}"
        )
