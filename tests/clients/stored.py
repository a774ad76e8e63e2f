"""What a partition holds, as the bytes that a Fetch brings back."""

from dataclasses import dataclass
from datetime import timedelta

from headrace.records.header import BatchHeader, iterate_headers
from tests.clients.wire import Wire


@dataclass(frozen=True)
class Fetched:
    """One partition's part of a Fetch answer."""

    error_code: int
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
        error_code=int(found.error_code),
        high_watermark=found.high_watermark,
        log_start_offset=found.log_start_offset,
        batches=[header for _, header in iterate_headers(records)],
        size=len(records),
    )
