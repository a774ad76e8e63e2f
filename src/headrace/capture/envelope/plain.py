"""The plain row: a record's value is the row as it is now, and what happened is in its headers."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from headrace.capture.changes import Begin, Message, Op, Row, RowChange, Table, Truncate
from headrace.capture.envelope.columns import Columns
from headrace.capture.envelope.debezium import MESSAGES, NO_KEY, Counted
from headrace.capture.envelope.modes import Modes
from headrace.capture.envelope.records import Headers, Record, topic_of
from headrace.capture.source import Source

OP: Final = "op"
"""What happened: Debezium's letters."""

TIME: Final = "ts_ms"
"""When it was committed; of a row that a snapshot read, when that was."""

TRANSACTION: Final = "transaction"
"""The transaction's id; missing of a row that a snapshot read."""


class PlainEnvelope:
    """Makes records of changes: a delete is a record without value, as compacted topics want it.

    Args:
        source: Whose changes they are.
        prefix: How the names of topics begin.
        modes: How values are written.
        now_ns: The time, in nanoseconds since the epoch.
    """

    def __init__(
        self,
        source: Source,
        prefix: str,
        *,
        modes: Modes | None = None,
        now_ns: Callable[[], int],
    ) -> None:
        self.prefix = prefix
        self._source = source
        self._modes = modes or Modes()
        self._now_ns = now_ns
        self._encoders: dict[Table, tuple[str, Columns, Columns | None]] = {}

    def topic_of(self, table: Table) -> str:
        """Where the changes of a table go."""
        return topic_of(self.prefix, table.name)

    def change(
        self, change: RowChange, begin: Begin | None, counted: Counted | None = None
    ) -> list[Record]:
        """The records of a row's change; two if its key changed."""
        op, table, before, after, _ = change
        topic, columns, key = self._encoder(table)
        headers = self._headers(op, begin)
        if after is None:
            assert before is not None
            if key is None:
                value = columns.written(before, former=True)
                return [Record(topic, None, value, headers)]
            return [Record(topic, key.written(before), None, headers)]
        records = []
        if key is not None and before is not None and table.key_of(before) != table.key_of(after):
            gone = self._headers(Op.DELETE, begin)
            records.append(Record(topic, key.written(before), None, gone))
        row = columns.written(after)
        records.append(Record(topic, None if key is None else key.written(after), row, headers))
        return records

    def rows(self, table: Table, rows: Iterable[Row], place: Any) -> Iterator[Record]:
        """The records of rows that a snapshot read, all at this place."""
        topic, columns, key = self._encoder(table)
        headers = self._headers(Op.READ, None)
        for row in rows:
            written = None if key is None else key.written(row)
            yield Record(topic, written, columns.written(row), headers)

    def truncate(
        self, truncate: Truncate, begin: Begin | None, counted: Counted | None = None
    ) -> list[Record]:
        """The record of a truncated table, for every partition of its topic."""
        topic, _, key = self._encoder(truncate.table)
        headers = self._headers(Op.TRUNCATE, begin)
        # Not a record without value: compaction would take it away before all rows it is about.
        return [Record(topic, None if key is None else NO_KEY, b"null", headers, everywhere=True)]

    def message(
        self, message: Message, begin: Begin | None, counted: Counted | None = None
    ) -> list[Record]:
        """The record of a message that an application wrote into the log: its content as it is."""
        topic = f"{self.prefix}.{MESSAGES}"
        headers = self._headers(Op.MESSAGE, begin)
        return [Record(topic, message.prefix.encode(), message.content, headers)]

    def _encoder(self, table: Table) -> tuple[str, Columns, Columns | None]:
        if (found := self._encoders.get(table)) is None:
            for other in [each for each in self._encoders if each.name == table.name]:
                del self._encoders[other]
            key = Columns(table, self._modes, table.key) if table.key else None
            found = topic_of(self.prefix, table.name), Columns(table, self._modes), key
            self._encoders[table] = found
        return found

    def _headers(self, op: Op, begin: Begin | None) -> Headers:
        if begin is None:
            return [(OP, op.value.encode()), (TIME, b"%d" % (self._now_ns() // 1_000_000))]
        return [
            (OP, op.value.encode()),
            (TIME, b"%d" % (begin.time_us // 1000)),
            (TRANSACTION, self._source.transaction_id(begin).encode()),
        ]
