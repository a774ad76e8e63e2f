"""Transactions that nobody leads: open in a log, unknown to the coordinator.

A power loss can take the coordinator's last entries and leave what was written under them: a batch
that adds its partition itself is synced beside the entry that says so, and where nothing is fsynced
anything may be lost. Such a transaction would hold back every reader of committed records.

It cannot go on either. Its producer would send again what was not acknowledged, and that would be
taken for a duplicate of records that were aborted. So the producer is fenced.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace

from headrace.broker.transactions.ending import COORDINATOR_EPOCH
from headrace.broker.transactions.participants import OpenTransaction, Participants, Told
from headrace.broker.transactions.state import NO_EPOCH, TransactionRecord
from headrace.broker.transactions.store import TransactionStore
from headrace.log.errors import LogError
from headrace.records import Marker

log = logging.getLogger("headrace.broker")


def without_later(record: TransactionRecord, found: Iterable[OpenTransaction]) -> TransactionRecord:
    """A decided transaction without the partitions where its producer has begun another since.

    There it has its marker already, and one more would end the other.
    """
    # A decision that raised the epoch ends what was written in the one before.
    first_later = record.epoch + (record.last_epoch == NO_EPOCH)
    later = {
        each.where
        for each in found
        if each.producer_id == record.producer_id and each.epoch >= first_later
    }
    return replace(record, partitions=record.partitions - later)


def with_hanging(
    store: TransactionStore, found: Iterable[OpenTransaction]
) -> Iterator[TransactionRecord]:
    """Transactional ids to which transactions belong that nobody leads, with those added."""
    records = {record.producer_id: record for record in store if not record.state.is_decided}
    ongoing = [record for record in records.values() if record.is_led]
    hanging: dict[int, list[OpenTransaction]] = {}
    for each in _unled(ongoing, found):
        record = records.get(each.producer_id)
        if record is not None and each.epoch >= record.epoch:
            hanging.setdefault(each.producer_id, []).append(each)
    for producer_id, lost in hanging.items():
        record = records[producer_id]
        yield replace(
            record,
            epoch=max(each.epoch for each in lost),
            partitions=record.partitions.union(each.where for each in lost),
        )


async def abort_hanging(participants: Participants, store: TransactionStore) -> None:
    """Abort what is open in a partition but belongs to no transaction that is under way."""
    led = [record for record in store if record.is_led]
    for found in _unled(led, participants.open_transactions()):
        log.warning(
            "aborting a transaction of producer %d in %s-%d that no transactional id claims",
            found.producer_id,
            *found.where,
        )
        try:
            await _abort(participants, found)
        except LogError as error:
            log.error("it stays open, and holds back readers: %s", error)
    senders = {record.producer_id for record in led if record.groups}
    for producer_id in set(participants.producers_with_offsets()) - senders:
        log.warning("forgetting offsets of producer %d's lost transaction", producer_id)
        try:
            await _forget_offsets(participants, producer_id)
        except LogError as error:
            log.error("they stay until the next start: %s", error)


def _unled(
    led: Iterable[TransactionRecord], found: Iterable[OpenTransaction]
) -> list[OpenTransaction]:
    epochs = {
        (record.producer_id, where): record.epoch for record in led for where in record.partitions
    }
    return [
        each for each in found if each.epoch > epochs.get((each.producer_id, each.where), NO_EPOCH)
    ]


async def _abort(participants: Participants, found: OpenTransaction) -> None:
    safe, told = _promise()
    marker = Marker(found.producer_id, found.epoch, COORDINATOR_EPOCH, commit=False)
    offset = participants.mark(found.where, marker, told)
    if offset is not None:
        await safe
        participants.reveal(found.where, offset)


async def _forget_offsets(participants: Participants, producer_id: int) -> None:
    safe, told = _promise()
    participants.end_offsets(producer_id, False, told)
    await safe
    participants.reveal_offsets(producer_id, False)


def _promise() -> tuple[asyncio.Future[None], Told]:
    safe: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def told(failure: LogError | None) -> None:
        if failure is None:
            safe.set_result(None)
        else:
            safe.set_exception(failure)

    return safe, told
