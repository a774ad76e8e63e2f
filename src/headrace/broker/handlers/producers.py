"""InitProducerId: identities for idempotent and transactional producers."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.protocol import Call, get
from headrace.broker.transactions.errors import TransactionError
from headrace.broker.transactions.state import Identity
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

FIRST_PRODUCER_FENCED = 4
"""Clients of earlier versions know a fenced producer by its epoch only (KIP-588)."""

NO_PRODUCER = -1
MAX_EPOCH = 2**15 - 2
"""The last epoch a producer may be raised to; after it comes a new id."""


_MILLISECOND = timedelta(milliseconds=1)


async def init_producer_id(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Give out a producer id, or raise the epoch of the one the client has (KIP-360)."""
    producer_id = get(request, "producer_id", NO_PRODUCER)
    epoch = get(request, "producer_epoch", NO_PRODUCER)
    if (producer_id == NO_PRODUCER) != (epoch == NO_PRODUCER):
        return _reply(call, ErrorCode.invalid_request, NO_PRODUCER, NO_PRODUCER)
    if request.transactional_id is not None:
        claimed = None if producer_id == NO_PRODUCER else Identity(producer_id, epoch)
        return await _init_transactional(core, request, call, claimed)
    if producer_id >= 0 and 0 <= epoch < MAX_EPOCH:
        return _reply(call, ErrorCode.none, producer_id, epoch + 1)
    try:
        allocated = core.producer_ids.allocate()
        await core.journaled(core.producer_ids.journal)
    except LogError:
        # The one code that every client takes as a reason to ask again later.
        return _reply(call, ErrorCode.coordinator_not_available, NO_PRODUCER, NO_PRODUCER)
    return _reply(call, ErrorCode.none, allocated, 0)


async def _init_transactional(
    core: "BrokerCore", request: Any, call: Call, claimed: Identity | None
) -> Any:
    """Give a transactional id its producer id, with an epoch that fences earlier instances."""
    try:
        identity = await core.transactions.initialize(
            request.transactional_id, request.transaction_timeout // _MILLISECOND, claimed
        )
        await core.journaled(core.producer_ids.journal)
        await core.journaled(core.transaction_store.journal)
    except TransactionError as error:
        fenced = error.code is ErrorCode.producer_fenced and call.version < FIRST_PRODUCER_FENCED
        code = ErrorCode.invalid_producer_epoch if fenced else error.code
        return _reply(call, code, NO_PRODUCER, NO_PRODUCER)
    except LogError:
        return _reply(call, ErrorCode.coordinator_not_available, NO_PRODUCER, NO_PRODUCER)
    return _reply(call, ErrorCode.none, *identity)


def _reply(call: Call, code: ErrorCode, producer_id: int, epoch: int) -> Any:
    return call.reply.InitProducerIdResponse(
        error_code=code,
        producer_id=producer_id,
        producer_epoch=epoch,
        ongoing_txn_producer_id=NO_PRODUCER,
        ongoing_txn_producer_epoch=NO_PRODUCER,
    )
