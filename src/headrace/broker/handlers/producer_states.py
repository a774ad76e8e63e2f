"""DescribeProducers: the producers that a partition remembers, and their open transactions."""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.protocol import Call

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

NO_TRANSACTION = -1
"""In place of the first offset of a transaction."""


def describe_producers(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Tell who has written to partitions of late, and how far each producer has counted."""
    return call.reply.DescribeProducersResponse(
        topics=tuple(
            call.reply.TopicResponse(
                name=topic.name,
                partitions=tuple(
                    _partition(core, topic.name, index, call) for index in topic.partition_indexes
                ),
            )
            for topic in request.topics
        )
    )


def _partition(core: "BrokerCore", name: str, index: int, call: Call) -> Any:
    partition = core.partition(name, index)
    if partition is None:
        return call.reply.PartitionResponse(
            partition_index=index,
            error_code=ErrorCode.unknown_topic_or_partition,
            error_message="This server does not host this topic-partition.",
            active_producers=(),
        )
    transactions = partition.log.transactions
    return call.reply.PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.none,
        error_message=None,
        active_producers=tuple(
            call.reply.ProducerState(
                producer_id=producer_id,
                producer_epoch=state.epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.last_seen_ms,
                coordinator_epoch=transactions.coordinator_epoch(producer_id),
                current_txn_start_offset=transactions.open.get(producer_id, NO_TRANSACTION),
            )
            for producer_id, state in partition.log.producers.active().items()
        ),
    )
