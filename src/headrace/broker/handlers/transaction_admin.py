"""Transactions as operators see them: listed, described, and ended by hand."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.handlers.produce import error_code
from headrace.broker.protocol import Call, get
from headrace.broker.transactions.errors import TransactionError
from headrace.broker.transactions.state import TransactionRecord, TransactionState
from headrace.log.errors import LogError
from headrace.records import Marker

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

ANY_DURATION = -1
"""The filter of somebody who wants transactions of any age."""

_STATES = {state.value: state for state in TransactionState}


def list_transactions(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Name the transactional ids that pass the filters."""
    unknown = tuple(name for name in request.state_filters if name not in _STATES)
    wanted = {_STATES[name] for name in request.state_filters if name in _STATES}
    producers = set(request.producer_id_filters)
    longest = get(request, "duration_filter", ANY_DURATION)
    now_ms = core.clock.now_ms()
    try:
        pattern = re.compile(get(request, "transactional_id_pattern") or "")
        records = [
            record
            for record in core.transactions.records()
            if (not request.state_filters or record.state in wanted)
            and (not producers or record.producer_id in producers)
            and (longest < 0 or now_ms - record.started_ms > longest)
            and (not pattern.pattern or pattern.fullmatch(record.transactional_id))
        ]
    except re.error:
        return _listed(call, ErrorCode.invalid_regular_expression, unknown, [])
    except TransactionError as error:
        return _listed(call, error.code, unknown, [])
    return _listed(call, ErrorCode.none, unknown, records)


def _listed(
    call: Call, code: ErrorCode, unknown: tuple[str, ...], records: list[TransactionRecord]
) -> Any:
    return call.reply.ListTransactionsResponse(
        error_code=code,
        unknown_state_filters=unknown,
        transaction_states=tuple(
            call.reply.TransactionState(
                transactional_id=record.transactional_id,
                producer_id=record.producer_id,
                transaction_state=record.state.value,
            )
            for record in records
        ),
    )


def describe_transactions(core: "BrokerCore", request: Any, call: Call) -> Any:
    """Tell everything about transactional ids."""
    return call.reply.DescribeTransactionsResponse(
        transaction_states=tuple(
            _described(core, transactional_id, call)
            for transactional_id in request.transactional_ids
        )
    )


def _described(core: "BrokerCore", transactional_id: str, call: Call) -> Any:
    try:
        record = core.transactions.describe(transactional_id)
    except TransactionError as error:
        return call.reply.TransactionState(
            error_code=error.code,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout=timedelta(0),
            transaction_start_time=_moment(0),
            producer_id=0,
            producer_epoch=0,
            topics=(),
        )
    by_topic: dict[str, list[int]] = {}
    for where in sorted(record.partitions):
        by_topic.setdefault(where.topic, []).append(where.partition)
    return call.reply.TransactionState(
        error_code=ErrorCode.none,
        transactional_id=transactional_id,
        transaction_state=record.state.value,
        transaction_timeout=timedelta(milliseconds=record.timeout_ms),
        transaction_start_time=_moment(record.started_ms),
        producer_id=record.producer_id,
        producer_epoch=record.epoch,
        topics=tuple(
            call.reply.TopicData(topic=topic, partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
    )


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)


async def write_txn_markers(core: "BrokerCore", request: Any, call: Call) -> Any:
    """End transactions in single partitions, as an operator does whose coordinator forgot them."""
    return call.reply.WriteTxnMarkersResponse(
        markers=tuple(
            [
                call.reply.WritableTxnMarkerResult(
                    producer_id=asked.producer_id,
                    topics=tuple(
                        [
                            call.reply.WritableTxnMarkerTopicResult(
                                name=topic.name,
                                partitions=tuple(
                                    [
                                        call.reply.WritableTxnMarkerPartitionResult(
                                            partition_index=index,
                                            error_code=await _mark(core, topic.name, index, asked),
                                        )
                                        for index in topic.partition_indexes
                                    ]
                                ),
                            )
                            for topic in asked.topics
                        ]
                    ),
                )
                for asked in request.markers
            ]
        )
    )


async def _mark(core: "BrokerCore", topic: str, index: int, asked: Any) -> ErrorCode:
    partition = core.partition(topic, index)
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    if asked.coordinator_epoch < partition.log.transactions.coordinator_epoch(asked.producer_id):
        return ErrorCode.transaction_coordinator_fenced
    marker = Marker(
        asked.producer_id, asked.producer_epoch, asked.coordinator_epoch, asked.transaction_result
    )
    safe: asyncio.Future[LogError | None] = core.loop.create_future()
    try:
        offset = partition.append_marker(marker, safe.set_result)
    except LogError as error:
        return error_code(error)
    failure = await safe
    if failure is not None:
        return error_code(failure)
    partition.reveal(offset)
    return ErrorCode.none
