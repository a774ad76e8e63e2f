"""What a flow has written, as records and as plain rows."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.streams.outputs import DeadLetterOutput, Output, SinkOutput, StoreOutput, TopicOutput
from headrace.streams.plan import DELETED, sources
from headrace.testing.harness.collecting import Part

if TYPE_CHECKING:
    import pyarrow as pa

_REASON: Final = "headrace."
"""What the headers begin with that a dead letter has got on its way."""

_NUMBERS: Final = frozenset({"partition", "offset", "timestamp"})


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic that a flow has written."""

    topic: str
    partition: int
    timestamp: datetime
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes | None]

    @property
    def deleted(self) -> bool:
        """Whether it is a tombstone."""
        return self.value is None


@dataclass(frozen=True, slots=True)
class Collected:
    """One row that a flow has written, and the record that it became if it went to a topic."""

    row: dict[str, Any]
    record: Record | None


def collected(output: Output, part: Part) -> list[Collected]:
    """What an output has written to one place."""
    table = _read(part.path)
    if isinstance(output, SinkOutput | StoreOutput):
        return [Collected(row, None) for row in table.to_pylist()]
    found = []
    for record in _records(output, part, table):
        row = _letter(record) if isinstance(output, DeadLetterOutput) else _row(output, record)
        found.append(Collected(row, record))
    return found


def _read(path: Path) -> "pa.Table":
    import pyarrow as pa

    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def _records(
    output: TopicOutput | DeadLetterOutput, part: Part, table: "pa.Table"
) -> Iterator[Record]:
    written = datetime.fromtimestamp(int(table.schema.metadata[b"written_ms"]) / 1000, UTC)
    for partition, row in zip(_partitions(output, part, table), table.to_pylist(), strict=True):
        yield Record(
            topic=row.get("topic") or output.topic,
            partition=partition,
            timestamp=row.get("timestamp") or written,
            key=row.get("key"),
            value=row["value"],
            headers={each["key"]: each["value"] for each in row.get("headers") or ()},
        )


def _partitions(output: TopicOutput | DeadLetterOutput, part: Part, table: "pa.Table") -> list[int]:
    """Where the records go by their keys, in a topic with as many partitions as the flow says."""
    from headrace.records.arrow import partitions_by_key
    from headrace.records.arrow import sources as columns_of

    count = (output.partitions if isinstance(output, TopicOutput) else None) or 1
    keyless = (part.batch + part.place) % count
    records = columns_of(table.select([name for name in table.column_names if name != "topic"]))
    chosen: list[int] = partitions_by_key(records, count, keyless=keyless).tolist()
    return chosen


def _row(output: TopicOutput, record: Record) -> dict[str, Any]:
    if record.value is None:
        return {**_key_columns(output, record.key), DELETED: True}
    try:
        row = json.loads(record.value)
    except ValueError:
        row = None
    if isinstance(row, dict) and output.value is None:
        return row
    return {"value": _text(record.value) if row is None else row}


def _key_columns(output: TopicOutput, key: bytes | None) -> dict[str, Any]:
    """The columns that a key tells of a row that is gone."""
    text = _text(key)
    names = [each for each in output.key if isinstance(each, str)]
    if not isinstance(text, str) or len(names) != len(output.key) or not names:
        return {"key": text}
    if len(names) > 1:
        return dict(json.loads(text))
    return {names[0]: text if _is_text(output, names[0]) else json.loads(text)}


def _is_text(output: TopicOutput, column: str) -> bool:
    """Whether a column's text is its value, and not that of a number or the like."""
    kinds = {
        field.name: field.dataType.typeName()
        for read in sources(output.node)
        for field in (read.rows.fields if read.rows is not None else ())
    }
    numbers = ("byte", "short", "integer", "long", "float", "double", "boolean", "decimal")
    return not kinds.get(column, "string").startswith(numbers)


def _letter(record: Record) -> dict[str, Any]:
    """A dead letter: what it was, why it is one, and where it was."""
    told = {
        name.removeprefix(_REASON): _text(value)
        for name, value in record.headers.items()
        if name.startswith(_REASON)
    }
    numbers = {name: int(text) for name, text in told.items() if name in _NUMBERS and text}
    return {"key": _text(record.key), "value": _text(record.value), **told, **numbers}


def _text(raw: bytes | None) -> str | bytes | None:
    """Bytes as text where they are some."""
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
