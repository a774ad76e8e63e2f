"""InitProducerId: identities for idempotent producers."""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.protocol import Call, get
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

NO_PRODUCER = -1
MAX_EPOCH = 2**15 - 2
"""The last epoch a producer may be raised to; after it comes a new id."""


async def init_producer_id(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Give out a producer id, or raise the epoch of the one the client has (KIP-360)."""
    if request.transactional_id is not None:
        return _reply(call, ErrorCode.invalid_request, NO_PRODUCER, NO_PRODUCER)
    producer_id = get(request, "producer_id", NO_PRODUCER)
    epoch = get(request, "producer_epoch", NO_PRODUCER)
    if (producer_id == NO_PRODUCER) != (epoch == NO_PRODUCER):
        return _reply(call, ErrorCode.invalid_request, NO_PRODUCER, NO_PRODUCER)
    if producer_id >= 0 and 0 <= epoch < MAX_EPOCH:
        return _reply(call, ErrorCode.none, producer_id, epoch + 1)
    try:
        allocated = core.producer_ids.allocate()
        await core.journaled(core.producer_ids.journal)
    except LogError:
        # The one code that every client takes as a reason to ask again later.
        return _reply(call, ErrorCode.coordinator_not_available, NO_PRODUCER, NO_PRODUCER)
    return _reply(call, ErrorCode.none, allocated, 0)


def _reply(call: Call, code: ErrorCode, producer_id: int, epoch: int) -> Any:
    return call.reply.InitProducerIdResponse(
        error_code=code, producer_id=producer_id, producer_epoch=epoch
    )
