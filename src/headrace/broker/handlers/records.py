"""DeleteRecords: let go of everything before an offset."""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.protocol import Call
from headrace.log.errors import LogError, OffsetOutOfRange

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

HIGH_WATERMARK = -1
"""Stands for everything that can be read now."""


def delete_records(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Move the log start offsets of partitions."""
    topics = []
    for wanted in request.topics:
        results = []
        for part in wanted.partitions:
            low, code = _delete(core, wanted.name, part)
            results.append(
                call.reply.DeleteRecordsPartitionResult(
                    partition_index=part.partition_index, low_watermark=low, error_code=code
                )
            )
        topics.append(
            call.reply.DeleteRecordsTopicResult(name=wanted.name, partitions=tuple(results))
        )
    return call.reply.DeleteRecordsResponse(topics=tuple(topics))


def _delete(core: "BrokerCore", topic: str, part: Any) -> tuple[int, ErrorCode]:
    partition = core.partition(topic, part.partition_index)
    if partition is None:
        return -1, ErrorCode.unknown_topic_or_partition
    log = partition.log
    before = log.high_watermark if part.offset == HIGH_WATERMARK else part.offset
    if not 0 <= before <= log.high_watermark:
        return -1, ErrorCode.offset_out_of_range
    try:
        start = partition.delete_records(before)
    except OffsetOutOfRange:
        return -1, ErrorCode.offset_out_of_range
    except LogError:
        return -1, ErrorCode.kafka_storage_error
    core.note_log_start(partition)
    return start, ErrorCode.none
