"""TxnOffsetCommit: a group's offsets, committed together with what a transaction writes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.groups.entries import Committed, TopicPartition
from headrace.broker.groups.errors import GroupError
from headrace.broker.groups.messages import Committer
from headrace.broker.handlers.offsets import offsets_stored
from headrace.broker.protocol import Call, get
from headrace.broker.transactions.errors import TransactionError
from headrace.broker.transactions.state import Identity
from headrace.log import Flush

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

FIRST_IMPLICIT = 5
"""From this version on the request itself adds the group to the transaction (KIP-890)."""

Offsets = Mapping[TopicPartition, Committed]
"""What a group is to go on with, by partition."""

Codes = Mapping[TopicPartition, ErrorCode]
"""What came of each partition; those that do not exist are not in it."""


def txn_offset_commit(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Keep offsets until the transaction ends; answered once they are safe."""
    now_ms = core.clock.now_ms()
    offsets = {
        TopicPartition(topic.name, partition.partition_index): Committed(
            partition.committed_offset,
            get(partition, "committed_leader_epoch", -1),
            partition.committed_metadata or "",
            now_ms,
        )
        for topic in request.topics
        for partition in topic.partitions
        if core.partition(topic.name, partition.partition_index) is not None
    }
    try:
        if call.version >= FIRST_IMPLICIT and _add_group(core, request):
            return _once_group_is_safe(core, request, call, offsets)
        codes = _send(core, request, offsets)
    except (GroupError, TransactionError) as error:
        return _refusal(request, call, offsets, error)
    if core.settings.flush != Flush.ACK:
        return _reply(request, call, codes)
    return _once_stored(core, request, call, codes)


async def _once_group_is_safe(
    core: "BrokerCore", request: Any, call: Call, offsets: Offsets
) -> Any:
    """Go on after a sync: no offsets may outlast the transaction that they belong to."""
    await core.journaled(core.transaction_store.journal)
    try:
        codes = _send(core, request, offsets)
    except (GroupError, TransactionError) as error:
        return _refusal(request, call, offsets, error)
    return await _once_stored(core, request, call, codes)


async def _once_stored(core: "BrokerCore", request: Any, call: Call, codes: Codes) -> Any:
    try:
        await offsets_stored(core)
    except GroupError as error:
        codes = dict.fromkeys(codes, error.code)
    return _reply(request, call, codes)


def _add_group(core: "BrokerCore", request: Any) -> bool:
    """Make the group a part of the transaction; returns whether that is to be waited for."""
    added = core.transactions.add_group(
        request.transactional_id, _identity(request), request.group_id
    )
    # Somebody else may have added it a moment ago, and wait for the same sync.
    unsafe = added or core.unsettled(core.transaction_store.journal)
    return unsafe and core.settings.flush == Flush.ACK


def _send(core: "BrokerCore", request: Any, offsets: Offsets) -> Codes:
    core.transactions.check_group(request.transactional_id, _identity(request), request.group_id)
    return core.groups.send_offsets(_committer(request), request.producer_id, offsets)


def _identity(request: Any) -> Identity:
    return Identity(request.producer_id, request.producer_epoch)


def _refusal(
    request: Any, call: Call, offsets: Offsets, error: GroupError | TransactionError
) -> Any:
    return _reply(request, call, dict.fromkeys(offsets, _told(error.code)))


def _committer(request: Any) -> Committer:
    return Committer(
        group_id=request.group_id,
        member_id=get(request, "member_id", ""),
        instance_id=get(request, "group_instance_id"),
        generation=get(request, "generation_id", -1),
    )


def _told(code: ErrorCode) -> ErrorCode:
    """The codes that this API has for refusals of the group or of the transaction."""
    match code:
        case ErrorCode.group_id_not_found | ErrorCode.stale_member_epoch:
            return ErrorCode.illegal_generation
        case ErrorCode.producer_fenced:
            return ErrorCode.invalid_producer_epoch
        case ErrorCode.transaction_abortable:
            return ErrorCode.invalid_txn_state
    return code


def _reply(request: Any, call: Call, codes: Codes) -> Any:
    return call.reply.TxnOffsetCommitResponse(
        topics=tuple(
            call.reply.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    call.reply.TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=codes.get(
                            TopicPartition(topic.name, partition.partition_index),
                            ErrorCode.unknown_topic_or_partition,
                        ),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
