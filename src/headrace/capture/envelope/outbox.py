"""The outbox: events that services write into a table, in the transaction of their other rows.

A row that is inserted there becomes a record of the topic that it names; the table itself gets no
topic, and its rows may be deleted at once. Columns and topics are those of Debezium's outbox
router.
"""

from collections.abc import Sequence
from typing import Final

import orjson

from headrace.capture.changes import Op, RowChange, Table, TypeKind
from headrace.capture.envelope.records import Record
from headrace.capture.errors import InvalidCapture

COLUMNS: Final = ("id", "aggregatetype", "aggregateid", "type", "payload")
"""What an outbox has; other columns are left where they are."""

_PAYLOADS: Final = (TypeKind.JSON, TypeKind.TEXT, TypeKind.BYTES, TypeKind.DYNAMIC)


class Outbox:
    """Makes records of the rows of an outbox.

    Args:
        prefix: How the names of its topics begin, before the `aggregatetype`.
    """

    def __init__(self, prefix: str = "outbox.event") -> None:
        self._prefix = prefix
        self._places: dict[Table, tuple[int, ...]] = {}

    def change(self, change: RowChange) -> Sequence[Record]:
        """The record of an event that was inserted; none of anything else."""
        if change.op is not Op.INSERT or change.after is None:
            return ()
        table, row = change.table, change.after
        number, kind, aggregate, type_, payload = (row[place] for place in self._columns(table))
        if kind is None:
            raise InvalidCapture(f"A row of {table.name} has no aggregatetype to name its topic.")
        headers = [("id", str(number).encode())]
        if type_ is not None:
            headers.append(("eventType", str(type_).encode()))
        key = None if aggregate is None else str(aggregate).encode()
        return [Record(f"{self._prefix}.{kind}", key, _written(payload), headers)]

    def _columns(self, table: Table) -> tuple[int, ...]:
        if (places := self._places.get(table)) is None:
            missing = [name for name in COLUMNS if name not in table.names]
            if missing:
                raise InvalidCapture(
                    f"{table.name} is no outbox: it lacks {', '.join(missing)}. An outbox has "
                    f"{', '.join(COLUMNS)}."
                )
            kind = table.columns[table.names.index(COLUMNS[-1])].type.kind
            if kind not in _PAYLOADS:
                raise InvalidCapture(f"The payload of {table.name} must be JSON, text or bytes.")
            places = self._places[table] = tuple(map(table.names.index, COLUMNS))
        return places


def _written(payload: object) -> bytes | None:
    if payload is None or isinstance(payload, bytes):
        return payload
    return payload.encode() if isinstance(payload, str) else orjson.dumps(payload)
