"""ListOffsets and OffsetForLeaderEpoch: where in a partition things are."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.protocol import Call, get
from headrace.log.errors import LogError
from headrace.records import RecordError, RecordPosition

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore
    from headrace.broker.partition import Partition
    from headrace.records import RecordPosition

FIRST_VERSIONS = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""Since when there are special moments: latest, earliest, newest timestamp, and those of tiers."""

NEVER = 2**15
"""A version that is never reached."""

READ_COMMITTED = 1
"""The isolation level of a reader for whom a partition ends at its last stable offset."""

UNKNOWN = -1
"""An offset, timestamp or epoch that does not exist."""


async def list_offsets(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Find the offsets of moments: earliest, latest, or the first record from a time on."""
    committed = get(request, "isolation_level", 0) == READ_COMMITTED
    topics = []
    for wanted in request.topics:
        results = []
        asked = Counter(part.partition_index for part in wanted.partitions)
        for part in wanted.partitions:
            index = part.partition_index
            if asked[index] > 1:
                found = _not_found(ErrorCode.invalid_request)
            elif part.timestamp < 0 and call.version < FIRST_VERSIONS.get(part.timestamp, NEVER):
                found = _not_found(ErrorCode.unsupported_version)
            else:
                found = await _offset_of(core.partition(wanted.name, index), part, committed)
            results.append(call.reply.ListOffsetsPartitionResponse(partition_index=index, **found))
        topics.append(
            call.reply.ListOffsetsTopicResponse(name=wanted.name, partitions=tuple(results))
        )
    return call.reply.ListOffsetsResponse(topics=tuple(topics))


def _not_found(code: ErrorCode) -> dict[str, object]:
    return {"error_code": code, "timestamp": UNKNOWN, "offset": UNKNOWN, "leader_epoch": UNKNOWN}


async def _offset_of(
    partition: "Partition | None", part: Any, committed: bool
) -> dict[str, object]:
    code = check_epoch(partition, get(part, "current_leader_epoch", UNKNOWN))
    timestamp, offset = UNKNOWN, UNKNOWN
    if partition is not None and code is ErrorCode.none:
        log = partition.log
        limit = log.last_stable_offset if committed else log.high_watermark
        found: RecordPosition | None = None
        try:
            match part.timestamp:
                case -1:
                    offset = limit
                case -2:
                    offset = partition.start_offset
                case -4:
                    offset = log.start_offset
                case -3:
                    found = await _newest(partition)
                case -5:
                    offset = _last_archived(partition)
                case -6:
                    offset = _first_pending(partition)
                case moment:
                    found = await _first_from(partition, moment)
        except (LogError, RecordError):
            code = ErrorCode.kafka_storage_error
        if found is not None and found.offset < limit:
            offset, timestamp = found
    epoch = partition.log.leader_epoch if partition is not None and offset >= 0 else UNKNOWN
    return {"error_code": code, "timestamp": timestamp, "offset": offset, "leader_epoch": epoch}


def _last_archived(partition: "Partition") -> int:
    archive = partition.archive
    return UNKNOWN if archive is None else archive.archived.last_offset


def _first_pending(partition: "Partition") -> int:
    if partition.archive is None:
        return UNKNOWN
    return max(_last_archived(partition) + 1, partition.start_offset)


async def _first_from(partition: "Partition", timestamp: int) -> "RecordPosition | None":
    found = None
    if partition.archive is not None:
        found = await partition.archive.offset_for_time(timestamp)
    if found is None:
        found = await partition.when_verified(lambda: partition.log.offset_for_time(timestamp))
    return found


async def _newest(partition: "Partition") -> "RecordPosition | None":
    found = await partition.when_verified(partition.log.max_timestamp)
    if partition.archive is not None:
        archived = partition.archive.max_timestamp()
        if archived > (UNKNOWN if found is None else found.timestamp):
            return await partition.archive.offset_for_time(archived)
    return found


def offset_for_leader_epoch(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Tell where an epoch ended, so that a client notices a log that was cut."""
    topics = []
    for wanted in request.topics:
        results = []
        for part in wanted.partitions:
            partition = core.partition(wanted.topic, part.partition)
            code = check_epoch(partition, get(part, "current_leader_epoch", UNKNOWN))
            epoch, end = UNKNOWN, UNKNOWN
            if partition is not None and code is ErrorCode.none:
                epoch, end = partition.log.epoch_end(part.leader_epoch)
            results.append(
                call.reply.EpochEndOffset(
                    error_code=code, partition=part.partition, leader_epoch=epoch, end_offset=end
                )
            )
        topics.append(
            call.reply.OffsetForLeaderTopicResult(topic=wanted.topic, partitions=tuple(results))
        )
    return call.reply.OffsetForLeaderEpochResponse(topics=tuple(topics))


def check_epoch(partition: "Partition | None", epoch: int) -> ErrorCode:
    """Whether a client's idea of the leader's epoch is right (KIP-320); -1 is no idea."""
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    current = partition.log.leader_epoch
    if epoch in (UNKNOWN, current):
        return ErrorCode.none
    return ErrorCode.fenced_leader_epoch if epoch < current else ErrorCode.unknown_leader_epoch
