"""Where transactions begin and end, and where in them an event stands, as Debezium tells it."""

from typing import Any

import orjson

from headrace.capture.changes import Begin, TableName
from headrace.capture.envelope.records import Record
from headrace.capture.envelope.schemas import TRANSACTION_KEY, TRANSACTION_SCHEMA


class TransactionMetadata:
    """Counts the events of one transaction at a time.

    Args:
        prefix: Its topic is that and ".transaction".
        schemas: Whether records carry their Kafka Connect schema.
    """

    def __init__(self, prefix: str, *, schemas: bool) -> None:
        self.topic = f"{prefix}.transaction"
        self._schemas = schemas
        self._id = ""
        self._total = 0
        self._counts: dict[TableName, int] = {}

    def begin(self, transaction: str, begin: Begin) -> Record:
        """A transaction begins."""
        self._id, self._total, self._counts = transaction, 0, {}
        return self._record("BEGIN", begin.time_us, None, None)

    def count(self, name: TableName) -> dict[str, Any]:
        """The `transaction` block of the next event, which is of a table."""
        self._total += 1
        mine = self._counts[name] = self._counts.get(name, 0) + 1
        return {"id": self._id, "total_order": self._total, "data_collection_order": mine}

    def end(self, time_us: int) -> Record:
        """The transaction is complete."""
        collections = [
            {"data_collection": str(name), "event_count": count}
            for name, count in self._counts.items()
        ]
        return self._record("END", time_us, self._total, collections)

    def _record(
        self, status: str, time_us: int, count: int | None, collections: list[Any] | None
    ) -> Record:
        key: Any = {"id": self._id}
        value: Any = {
            "status": status,
            "id": self._id,
            "event_count": count,
            "data_collections": collections,
            "ts_ms": time_us // 1000,
        }
        if self._schemas:
            key = {"schema": TRANSACTION_KEY, "payload": key}
            value = {"schema": TRANSACTION_SCHEMA, "payload": value}
        return Record(self.topic, orjson.dumps(key), orjson.dumps(value))
