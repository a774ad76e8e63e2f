"""Transactions on the wire: what producers with a transactional id ask for.

The handlers take effect at once, and wait only where the flush policy makes them: a transaction is
several round trips of one client, and the time of each counts.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.groups.entries import TopicPartition
from headrace.broker.protocol import Call
from headrace.broker.transactions.errors import TransactionError
from headrace.broker.transactions.state import Identity
from headrace.log import Flush

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

FIRST_PRODUCER_FENCED = 2
"""Clients of earlier versions know a fenced producer by its epoch only (KIP-588)."""

FIRST_BATCHED = 4
"""From this version on AddPartitionsToTxn names any number of transactions; brokers use it."""

FIRST_RAISED_EPOCH = 5
"""From this version on EndTxn raises the producer's epoch (KIP-890)."""


def add_partitions_to_txn(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Let transactions write to partitions, or find out whether they may."""
    if call.version < FIRST_BATCHED:
        identity = Identity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        results, changed = _add_partitions(
            core,
            request.v3_and_below_transactional_id,
            identity,
            request.v3_and_below_topics,
            call,
        )
        return _once_safe(
            core,
            changed,
            lambda: call.reply.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results),
        )
    added = [
        (
            each.transactional_id,
            *_add_partitions(
                core,
                each.transactional_id,
                Identity(each.producer_id, each.producer_epoch),
                each.topics,
                call,
                verify_only=each.verify_only,
            ),
        )
        for each in request.transactions
    ]
    return _once_safe(
        core,
        any(changed for _, _, changed in added),
        lambda: call.reply.AddPartitionsToTxnResponse(
            error_code=ErrorCode.none,
            results_by_transaction=tuple(
                call.reply.AddPartitionsToTxnResult(
                    transactional_id=transactional_id, topic_results=results
                )
                for transactional_id, results, _ in added
            ),
        ),
    )


def add_offsets_to_txn(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Let a transaction commit offsets of a group."""
    identity = Identity(request.producer_id, request.producer_epoch)
    code, changed = ErrorCode.none, False
    try:
        changed = core.transactions.add_group(request.transactional_id, identity, request.group_id)
    except TransactionError as error:
        code = told_code(error, call)
    return _once_safe(core, changed, lambda: call.reply.AddOffsetsToTxnResponse(error_code=code))


def end_txn(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Commit or abort; answered once the transaction is safe and visible."""
    try:
        ended = core.transactions.end(
            request.transactional_id,
            Identity(request.producer_id, request.producer_epoch),
            commit=request.committed,
            raises_epoch=call.version >= FIRST_RAISED_EPOCH,
        )
    except TransactionError as error:
        return _refused_end(error, call)
    if ended.done():
        return _ended(ended.result(), call)
    return _await_end(ended, call)


async def _await_end(ended: Awaitable[Identity], call: Call) -> Any:
    try:
        return _ended(await ended, call)
    except TransactionError as error:
        return _refused_end(error, call)


def _ended(identity: Identity, call: Call) -> Any:
    return call.reply.EndTxnResponse(
        error_code=ErrorCode.none,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
    )


def _refused_end(error: TransactionError, call: Call) -> Any:
    return call.reply.EndTxnResponse(
        error_code=told_code(error, call), producer_id=-1, producer_epoch=-1
    )


def told_code(error: TransactionError, call: Call) -> ErrorCode:
    """The code that a client of some version understands."""
    if error.code is ErrorCode.producer_fenced and call.version < FIRST_PRODUCER_FENCED:
        return ErrorCode.invalid_producer_epoch
    return error.code


def _add_partitions(
    core: "BrokerCore",
    transactional_id: str,
    identity: Identity,
    topics: Collection[Any],
    call: Call,
    *,
    verify_only: bool = False,
) -> tuple[tuple[Any, ...], bool]:
    """The results by topic, and whether anything is to be made safe; all or none are added."""
    wanted = [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]
    missing = {where for where in wanted if core.partition(*where) is None}
    codes = dict.fromkeys(wanted, ErrorCode.none)
    changed = False
    if verify_only:
        codes = {where: _verified(core, transactional_id, identity, where) for where in wanted}
    elif missing:
        codes = {
            where: ErrorCode.unknown_topic_or_partition
            if where in missing
            else ErrorCode.operation_not_attempted
            for where in wanted
        }
    else:
        try:
            changed = core.transactions.add_partitions(transactional_id, identity, wanted)
        except TransactionError as error:
            codes = dict.fromkeys(wanted, told_code(error, call))
    results = tuple(
        call.reply.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                call.reply.AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=codes[TopicPartition(topic.name, index)],
                )
                for index in topic.partitions
            ),
        )
        for topic in topics
    )
    return results, changed


def _verified(
    core: "BrokerCore", transactional_id: str, identity: Identity, where: TopicPartition
) -> ErrorCode:
    try:
        core.transactions.check_partition(transactional_id, identity, where)
    except TransactionError as error:
        return error.code
    return ErrorCode.none


def _once_safe(core: "BrokerCore", changed: bool, reply: Callable[[], Any]) -> Any:
    """The reply, at once unless the journal has to reach the disk first.

    If the disk fails, whether the change will survive is unknown; the connection is closed then.
    """
    if not changed or core.settings.flush != Flush.ACK:
        return reply()
    return _after_sync(core, reply)


async def _after_sync(core: "BrokerCore", reply: Callable[[], Any]) -> Any:
    await core.journaled(core.transaction_store.journal)
    return reply()
