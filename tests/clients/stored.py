"""What a partition holds: record batches put in and taken out as bytes."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from kio.schema.errors import ErrorCode

from headrace.records import BatchHeader, iterate_headers
from tests.clients.wire import Wire


@dataclass(frozen=True)
class Appended:
    """One partition's part of a Produce answer."""

    error_code: ErrorCode
    base_offset: int
    append_time: datetime | None
    log_start_offset: int


@dataclass(frozen=True)
class Fetched:
    """One partition's part of a Fetch answer."""

    error_code: ErrorCode
    high_watermark: int
    log_start_offset: int
    batches: list[BatchHeader]
    size: int


def fetch(
    wire: Wire,
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    partition_max_bytes: int = 1 << 20,
    max_bytes: int = 50 << 20,
    max_wait_ms: int = 0,
) -> Fetched:
    """Fetch version 11, which names topics and needs no session."""
    answer = wire.ask(
        "fetch",
        11,
        replica_id=-1,
        max_wait=timedelta(milliseconds=max_wait_ms),
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[
            {
                "topic": topic,
                "partitions": [
                    {
                        "partition": partition,
                        "fetch_offset": offset,
                        "partition_max_bytes": partition_max_bytes,
                    }
                ],
            }
        ],
        forgotten_topics_data=[],
    )
    (found,) = answer.responses[0].partitions
    records = bytes(found.records or b"")
    return Fetched(
        error_code=found.error_code,
        high_watermark=found.high_watermark,
        log_start_offset=found.log_start_offset,
        batches=[header for _, header in iterate_headers(records)],
        size=len(records),
    )


def append(
    wire: Wire, topic: str, records: bytes | bytearray, *, partition: int = 0, acks: int = -1
) -> Appended | None:
    """Produce version 9; None without acknowledgement."""
    request = wire.send(
        "produce",
        9,
        transactional_id=None,
        acks=acks,
        timeout=timedelta(seconds=10),
        topic_data=[
            {
                "name": topic,
                "partition_data": [{"index": partition, "records": bytes(records)}],
            }
        ],
    )
    if acks == 0:
        return None
    (found,) = wire.receive(request).responses[0].partition_responses
    return Appended(
        error_code=found.error_code,
        base_offset=found.base_offset,
        append_time=found.log_append_time,
        log_start_offset=found.log_start_offset,
    )
