"""Batches of records for tests, and a simple reading of golden files."""

import datetime
import decimal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from headrace.records.arrow import RECORD_SCHEMA
from headrace.streams.formats import decoder, row_schema
from headrace.streams.formats.decoding import Decoded

BEGAN = 1_700_000_000_000


def batch(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None):
    count = len(values)
    columns = [
        pa.array(range(count), pa.int64()),
        pa.array(range(BEGAN, BEGAN + count), pa.timestamp("ms", tz="UTC")),
        pa.array(keys or [None] * count, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array([[]] * count, RECORD_SCHEMA.field("headers").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


def decode(named: str, schema: Any, values: Sequence[bytes | None], **options: str) -> Decoded:
    rows = row_schema(named, schema, options)
    decoded = decoder(named, rows, options).decode(batch(values))
    decoded.rows.validate(full=True)
    return decoded


class Golden(NamedTuple):
    """A golden case: a format, its schema and options, records, and what they must become."""

    name: str
    format: str
    schema: str
    options: dict[str, str]
    records: list[bytes | None]
    expected: list[str]


def golden_cases(path: Path) -> Iterator[Golden]:
    """Cases begin with `== name`, then lines `key: value`, records, `--`, and expected lines.

    A record is a line; `(tombstone)` is one without a value, and one that begins with `#7` has a
    registry's header with the id 7.
    """
    for part in path.read_text().split("\n== ")[1:]:
        name, _, body = part.partition("\n")
        above, _, below = body.partition("\n--\n")
        settings: dict[str, str] = {}
        records: list[bytes | None] = []
        for line in above.splitlines():
            key, colon, value = line.partition(": ")
            if not records and colon and key.isidentifier():
                settings[key] = value
            elif line:
                records.append(_record(line))
        yield Golden(
            name,
            settings.pop("format", "json"),
            settings.pop("schema"),
            settings,
            records,
            [line for line in below.splitlines() if line],
        )


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


def _record(line: str) -> bytes | None:
    if line == "(tombstone)":
        return None
    if line.startswith("#"):
        number, _, payload = line[1:].partition(" ")
        return framed(int(number), payload.encode())
    return line.encode()


def shown(decoded: Decoded, records: int) -> list[str]:
    """A line for each record: its row, or why it is none."""
    accepted = range(records) if decoded.accepted is None else decoded.accepted.to_pylist()
    lines = {
        index: ", ".join(_shown(value) for value in row.values())
        for index, row in zip(accepted, decoded.rows.to_pylist(), strict=True)
    }
    lines |= {index: f"rejected: {reason}" for index, reason in decoded.rejected}
    return [lines.get(index, "skipped") for index in range(records)]


def _shown(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, datetime.date | decimal.Decimal):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_shown(inside)}" for name, inside in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if isinstance(value, tuple):
        return f"{_shown(value[0])}: {_shown(value[1])}"
    return "null" if value is None else repr(value)
