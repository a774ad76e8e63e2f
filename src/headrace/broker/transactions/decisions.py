"""What a request makes of a transactional id, as a function of the record before it.

Nothing here changes anything: each function returns the record that would follow, or refuses.
"""

from collections.abc import Callable
from dataclasses import replace

from headrace.broker.transactions.errors import (
    TransactionError,
    fenced,
    invalid_state,
    unknown_producer,
)
from headrace.broker.transactions.state import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER,
    Identity,
    TransactionRecord,
    TransactionState,
)


def check_claim(record: TransactionRecord, claimed: Identity | None) -> None:
    """Refuse a producer that says who it was, if somebody else has taken over since (KIP-360)."""
    if claimed is None or record.epoch == NO_EPOCH:
        return
    knows_id = claimed.producer_id == record.producer_id or (
        claimed.producer_id == record.previous_producer_id and claimed.epoch >= LAST_EPOCH
    )
    if not knows_id or claimed.epoch not in (record.epoch, record.last_epoch):
        raise fenced(record.transactional_id, claimed.epoch, record.epoch)


def initialized(
    record: TransactionRecord,
    *,
    timeout_ms: int,
    claimed: Identity | None,
    new_producer_id: Callable[[], int],
    now_ms: int,
) -> TransactionRecord:
    """A producer begins anew, with an epoch that fences all earlier instances.

    A producer that claims the previous epoch was not told of the current one, and is told now.
    """
    check_claim(record, claimed)
    fresh = replace(
        record,
        state=TransactionState.EMPTY,
        timeout_ms=timeout_ms,
        started_ms=-1,
        updated_ms=now_ms,
        partitions=frozenset(),
        groups=frozenset(),
    )
    untold = claimed is not None and record.epoch != NO_EPOCH and claimed.epoch != record.epoch
    # The epoch that only fenced a producer of the last one is nobody's to use.
    if untold and record.epoch <= LAST_EPOCH:
        return fresh
    last_epoch = NO_EPOCH if claimed is None else claimed.epoch
    if record.epoch >= LAST_EPOCH:
        return replace(
            fresh,
            producer_id=new_producer_id(),
            epoch=0,
            last_epoch=last_epoch,
            previous_producer_id=record.producer_id,
        )
    return replace(fresh, epoch=record.epoch + 1, last_epoch=last_epoch)


def aborted_by_coordinator(record: TransactionRecord, now_ms: int) -> TransactionRecord:
    """The transaction is aborted without its producer, which is fenced by a new epoch.

    The producer may go on if it says who it was, unless another instance comes first.
    """
    return replace(
        record,
        state=TransactionState.PREPARE_ABORT,
        epoch=record.epoch + 1,
        last_epoch=record.epoch,
        updated_ms=now_ms,
    )


def ended(
    record: TransactionRecord,
    identity: Identity,
    *,
    commit: bool,
    raises_epoch: bool,
    new_producer_id: Callable[[], int],
    now_ms: int,
) -> TransactionRecord | None:
    """The producer commits or aborts; None if it has done so before and only asks again."""
    decided = replace(
        record,
        state=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
        updated_ms=now_ms,
    )
    if not raises_epoch:
        if not _is_new_end(record, identity, commit):
            return None
        # Whoever has used an epoch knows of it; and this tells that the decision did not raise it.
        return replace(decided, last_epoch=NO_EPOCH)
    if not _is_new_end_of_epoch(record, identity, commit):
        return None
    # Only at the last epoch is there another id; it is used once the transaction has ended.
    return replace(
        decided,
        epoch=record.epoch + 1,
        last_epoch=record.epoch,
        next_producer_id=new_producer_id() if record.epoch >= LAST_EPOCH else NO_PRODUCER,
    )


def completed(record: TransactionRecord, now_ms: int) -> TransactionRecord:
    """Every marker of a decided transaction is written."""
    rotates = record.next_producer_id != NO_PRODUCER
    return replace(
        record,
        state=TransactionState.COMPLETE_COMMIT
        if record.state.is_commit
        else TransactionState.COMPLETE_ABORT,
        producer_id=record.next_producer_id if rotates else record.producer_id,
        epoch=0 if rotates else record.epoch,
        previous_producer_id=record.producer_id if rotates else record.previous_producer_id,
        next_producer_id=NO_PRODUCER,
        started_ms=-1,
        updated_ms=now_ms,
        partitions=frozenset(),
        groups=frozenset(),
    )


def _is_new_end(record: TransactionRecord, identity: Identity, commit: bool) -> bool:
    """Whether an end is the first of its transaction, where epochs stay.

    The epoch alone does not tell a repeated request from one for the next transaction; that is
    the weakness that KIP-890 removes.
    """
    if record.producer_id != identity.producer_id:
        raise unknown_producer(record.transactional_id, identity.producer_id)
    if record.epoch != identity.epoch:
        raise fenced(record.transactional_id, identity.epoch, record.epoch)
    if record.state is TransactionState.ONGOING:
        return True
    if record.state is TransactionState.EMPTY or record.state.is_commit != commit:
        raise _cannot_end(record, commit)
    return False


def _is_new_end_of_epoch(record: TransactionRecord, identity: Identity, commit: bool) -> bool:
    """Whether an end is the first of its transaction, where every end raises the epoch."""
    asks_again = record.last_epoch == identity.epoch and (
        identity == (record.producer_id, record.epoch - 1)
        or (identity.producer_id == record.previous_producer_id and record.epoch == 0)
    )
    if asks_again and record.state not in (TransactionState.ONGOING, TransactionState.EMPTY):
        if record.state.is_commit != commit:
            raise _cannot_end(record, commit)
        return False
    if record.producer_id != identity.producer_id:
        raise unknown_producer(record.transactional_id, identity.producer_id)
    if record.epoch != identity.epoch or record.state.is_decided:
        raise fenced(record.transactional_id, identity.epoch, record.epoch)
    if commit and record.state is not TransactionState.ONGOING:
        raise _cannot_end(record, commit)
    # An abort without a transaction still raises the epoch, which is what the client is after.
    return True


def _cannot_end(record: TransactionRecord, commit: bool) -> TransactionError:
    return invalid_state(
        record.transactional_id,
        f"has no transaction to {'commit' if commit else 'abort'}: it is {record.state}",
    )
