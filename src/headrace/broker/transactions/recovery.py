"""Transactions that nobody leads: open in a log, unknown to the coordinator.

A power loss can take the coordinator's last entries and leave what was written under them, where
records are not fsynced. Such a transaction would hold back every reader of committed records.
"""

import asyncio
import logging

from headrace.broker.groups import TopicPartition
from headrace.broker.transactions.ending import COORDINATOR_EPOCH
from headrace.broker.transactions.participants import OpenTransaction, Participants
from headrace.broker.transactions.state import TransactionState
from headrace.broker.transactions.store import TransactionStore
from headrace.log.errors import LogError
from headrace.records import Marker

log = logging.getLogger("headrace.broker")


async def abort_hanging(participants: Participants, store: TransactionStore) -> None:
    """Abort what is open in a partition but belongs to no transaction that is under way."""
    led = {
        (record.producer_id, where)
        for record in store
        if record.state is TransactionState.ONGOING or record.state.is_decided
        for where in record.partitions
    }
    for found in tuple(participants.open_transactions()):
        if (found.producer_id, found.where) not in led:
            log.warning(
                "aborting a transaction of producer %d in %s-%d that no transactional id claims",
                found.producer_id,
                *found.where,
            )
            try:
                await _abort(participants, found)
            except LogError as error:
                log.error("it stays open, and holds back readers: %s", error)


async def _abort(participants: Participants, found: OpenTransaction) -> None:
    safe: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def told(failure: LogError | None) -> None:
        if failure is None:
            safe.set_result(None)
        else:
            safe.set_exception(failure)

    where: TopicPartition = found.where
    marker = Marker(found.producer_id, found.epoch, COORDINATOR_EPOCH, commit=False)
    offset = participants.mark(where, marker, told)
    if offset is not None:
        await safe
        participants.reveal(where, offset)
