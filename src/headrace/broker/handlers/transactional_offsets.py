"""TxnOffsetCommit: a group's offsets, committed together with what a transaction writes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.groups import Committed, Committer, GroupError, TopicPartition
from headrace.broker.handlers.offsets import offsets_stored
from headrace.broker.protocol import Call, get
from headrace.broker.transactions import Identity, TransactionError
from headrace.log import Flush

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

FIRST_IMPLICIT = 5
"""From this version on the request itself adds the group to the transaction (KIP-890)."""

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
        _check_transaction(core, request, call)
        codes = core.groups.send_offsets(_committer(request), request.producer_id, offsets)
    except (GroupError, TransactionError) as error:
        return _reply(request, call, dict.fromkeys(offsets, _told(error.code)))
    if core.settings.flush != Flush.ACK:
        return _reply(request, call, codes)
    return _after_sync(core, request, call, codes)


async def _after_sync(core: "BrokerCore", request: Any, call: Call, codes: Codes) -> Any:
    try:
        await core.journaled(core.transaction_store.journal)
        await offsets_stored(core)
    except GroupError as error:
        codes = dict.fromkeys(codes, error.code)
    return _reply(request, call, codes)


def _check_transaction(core: "BrokerCore", request: Any, call: Call) -> None:
    identity = Identity(request.producer_id, request.producer_epoch)
    if call.version >= FIRST_IMPLICIT:
        core.transactions.add_group(request.transactional_id, identity, request.group_id)
    else:
        core.transactions.check_group(request.transactional_id, identity, request.group_id)


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
