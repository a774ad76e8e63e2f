"""Other people's readers of record batches, and one plain form to compare their answers in."""

from typing import NamedTuple

import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatch
from kafka.record import MemoryRecords

from headrace.records import Record, iterate_headers


class Row(NamedTuple):
    """A record and its offset."""

    offset: int
    record: Record


def rows(table: pa.Table) -> list[Row]:
    """The records of a decoded table, one by one."""
    milliseconds = table.column("timestamp").cast(pa.int64()).to_pylist()
    return [
        Row(
            each["offset"],
            Record(
                each["key"],
                each["value"],
                -1 if timestamp is None else timestamp,
                tuple((header["key"], header["value"]) for header in each["headers"]),
            ),
        )
        for each, timestamp in zip(table.to_pylist(), milliseconds, strict=True)
    ]


def rows_by_aiokafka(batches: bytes | bytearray) -> list[Row]:
    """What aiokafka's reader finds."""
    return [
        Row(found.offset, Record(found.key, found.value, found.timestamp, tuple(found.headers)))
        for position, header in iterate_headers(batches)
        for found in DefaultRecordBatch(bytes(batches[position : position + header.size]))
    ]


def rows_by_kafka_python(batches: bytes | bytearray) -> list[Row]:
    """What kafka-python's reader finds."""
    found = []
    reader = MemoryRecords(bytes(batches))
    while reader.has_next():
        batch = reader.next_batch()
        assert batch.validate_crc()
        found += [
            Row(each.offset, Record(each.key, each.value, each.timestamp, tuple(each.headers)))
            for each in batch
        ]
    return found
