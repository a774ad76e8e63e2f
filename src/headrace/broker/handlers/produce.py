"""Produce: validated batches go to their partitions and are acknowledged as asked.

`acks=0` is never answered, `acks=1` is answered after the write, `acks=all` after the policy of the
topic is fulfilled: with `flush = "ack"` that is after the fsync.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from headrace.broker.groups.entries import TopicPartition
from headrace.broker.guard import ProtocolError
from headrace.broker.handlers import produce_wire as wire
from headrace.broker.handlers.produce_route import Route
from headrace.broker.handlers.produce_wire import (
    PartitionData,
    PartitionResult,
    ProduceRequest,
    TopicResult,
)
from headrace.broker.protocol import Call
from headrace.broker.reply import Pending, Reply
from headrace.broker.topics import TopicError
from headrace.broker.transactions.errors import TransactionError
from headrace.broker.transactions.state import Identity
from headrace.errors import HeadraceError
from headrace.log.errors import (
    InvalidTransactionState,
    LogClosed,
    LogError,
    OutOfOrderSequence,
    StaleProducerEpoch,
    StorageFailed,
    StorageFull,
)
from headrace.records import (
    BatchHeader,
    Codec,
    CorruptBatch,
    MalformedBatch,
    keyless_records,
    read_header,
    validate_batch,
)

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore
    from headrace.broker.partition import Partition
    from headrace.broker.topics import Topic

ALL = -1
"""The `acks` of a client that wants its records to be safe."""

FIRST_ZSTD = 7
"""Clients of earlier versions cannot read zstd, so they may not write it either (KIP-110)."""

FIRST_ABORTABLE = 11
"""Clients of earlier versions do not know that a transaction can be aborted after any error."""

FIRST_IMPLICIT = 12
"""From this version on a batch itself adds its partition to the transaction (KIP-890)."""

_ERRORS: tuple[tuple[type[HeadraceError], ErrorCode], ...] = (
    (CorruptBatch, ErrorCode.corrupt_message),
    (MalformedBatch, ErrorCode.invalid_record),
    (OutOfOrderSequence, ErrorCode.out_of_order_sequence_number),
    (StaleProducerEpoch, ErrorCode.invalid_producer_epoch),
    (InvalidTransactionState, ErrorCode.invalid_txn_state),
    (LogClosed, ErrorCode.unknown_topic_or_partition),
    (StorageFull, ErrorCode.kafka_storage_error),
    (StorageFailed, ErrorCode.kafka_storage_error),
)


_TRANSACTION_CODES = {
    # Both make a client of any version do the right thing: give up, or send the batch again.
    ErrorCode.producer_fenced: ErrorCode.invalid_producer_epoch,
    ErrorCode.coordinator_not_available: ErrorCode.not_enough_replicas,
}


class Rejected(HeadraceError):
    """The records for a partition were refused; nothing of them was written."""

    def __init__(
        self, code: ErrorCode, message: str, record_errors: Sequence[tuple[int, str]] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.record_errors = record_errors


class Acknowledgement:
    """Collects the results of one request and replies when the last of them is known."""

    __slots__ = ("_correlation_id", "_outstanding", "_version", "pending", "results")

    def __init__(self, version: int, correlation_id: int) -> None:
        self._version = version
        self._correlation_id = correlation_id
        self._outstanding = 0
        self.results: list[TopicResult] = []
        self.pending: Pending | None = None

    def await_sync(self) -> "_Sync":
        """The result that comes next depends on a sync; called with it when it is done."""
        self._outstanding += 1
        _, partitions = self.results[-1]
        return _Sync(self, partitions, len(partitions))

    def synced(self) -> None:
        """One sync is done."""
        self._outstanding -= 1
        if self._outstanding == 0 and self.pending is not None:
            self.pending.resolve(self.reply())

    def finish(self) -> Reply | Pending:
        """The reply, or a promise of it while syncs are outstanding."""
        if self._outstanding == 0:
            return self.reply()
        self.pending = Pending()
        return self.pending

    def reply(self) -> bytes:
        """The response frame."""
        return wire.write(self.results, self._version, self._correlation_id)


class _Sync:
    """Waits for one partition's sync; replaces its result if the sync fails."""

    __slots__ = ("_acknowledgement", "_partitions", "_position")

    def __init__(
        self, acknowledgement: Acknowledgement, partitions: list[PartitionResult], position: int
    ) -> None:
        self._acknowledgement = acknowledgement
        self._partitions = partitions
        self._position = position

    def __call__(self, failure: LogError | None) -> None:
        if failure is not None:
            index = self._partitions[self._position].partition
            self._partitions[self._position] = PartitionResult(
                index, error_code(failure), message=str(failure)
            )
        self._acknowledgement.synced()


def produce(core: "BrokerCore", frame: memoryview, body: int, call: Call) -> Reply | Pending | None:
    """Append everything in the request, in its order."""
    request = wire.read(frame, body, call.version)
    acks = request.acks
    acknowledgement = Acknowledgement(call.version, call.correlation_id)
    topic: Topic | None = None
    for key, partitions in request.topics:
        topic = core.topics.find(key)
        results: list[PartitionResult] = []
        acknowledgement.results.append((key, results))
        for data in partitions:
            try:
                if acks not in (ALL, 0, 1):
                    raise Rejected(ErrorCode.invalid_required_acks, f"acks={acks} means nothing")
                if topic is None:
                    raise _unknown(key, call.version)
                result = _append(core, topic, data, call.version, request, acknowledgement)
            except HeadraceError as error:
                if acks == 0:
                    raise ProtocolError(
                        f"produce to {key}-{data.partition} without acknowledgement failed: {error}"
                    ) from error
                result = _rejection(core, data.partition, error)
            results.append(result)
    if acks == 0:
        return None
    call.route = Route.of(frame, request, call.version, topic)
    return acknowledgement.finish()


def answer_on(
    route: Route, core: "BrokerCore", frame: memoryview, version: int, correlation_id: int
) -> Reply | Pending | None:
    """Append the one batch of a request that takes a known route; None if this one does not."""
    matched = route.match(frame, version)
    if matched is None:
        return None
    index, batch = matched
    topic = route.topic
    partition = topic.partitions[index]
    if partition.retired or (route.acks == ALL and partition.waits_for_sync):
        return None
    try:
        header, append_time = _admit(core, topic, batch, version, route.acks)
        if header.is_transactional:
            return None
        appended = partition.append(batch, header, append_time)
    except HeadraceError as error:
        result = _rejection(core, index, error)
        return wire.write([(route.key, [result])], version, correlation_id)
    return route.reply(
        correlation_id,
        index,
        appended.base_offset,
        appended.timestamp,
        partition.start_offset,
    )


def _append(
    core: "BrokerCore",
    topic: "Topic",
    data: PartitionData,
    version: int,
    request: ProduceRequest,
    acknowledgement: Acknowledgement,
) -> PartitionResult:
    acks = request.acks
    if not 0 <= data.partition < len(topic.partitions):
        raise Rejected(
            ErrorCode.unknown_topic_or_partition,
            f"{topic.name} has {len(topic.partitions)} partitions, and none is {data.partition}",
        )
    if not data.records:
        raise Rejected(ErrorCode.invalid_record, "there is no record batch")
    header, append_time = _admit(core, topic, data.records, version, acks)
    partition = topic.partitions[data.partition]
    if header.is_transactional:
        _join_transaction(core, request, header, partition, version, acknowledgement)
    waiter = None
    if acks == ALL and partition.waits_for_sync:
        waiter = acknowledgement.await_sync()
    try:
        appended = partition.append(data.records, header, append_time, waiter)
    except HeadraceError:
        if waiter is not None:
            acknowledgement.synced()
        raise
    return PartitionResult(
        data.partition,
        ErrorCode.none,
        appended.base_offset,
        appended.timestamp,
        partition.start_offset,
    )


def _admit(
    core: "BrokerCore", topic: "Topic", batch: memoryview, version: int, acks: int
) -> tuple[BatchHeader, int | None]:
    """The header of a batch that a topic takes, and the time to stamp it with, if any."""
    if acks == ALL and topic.min_insync_replicas > 1:
        raise Rejected(
            ErrorCode.not_enough_replicas,
            f"{topic.name} demands {topic.min_insync_replicas} in-sync replicas and has one",
        )
    header = read_header(batch)
    size = len(batch)
    if header.size != size:
        if header.size > size:
            raise Rejected(
                ErrorCode.invalid_record,
                f"the batch claims {header.size} bytes and has {size}; send it whole",
            )
        raise Rejected(ErrorCode.invalid_record, "a produce request carries one batch a partition")
    if size > topic.max_message_bytes:
        raise Rejected(
            ErrorCode.message_too_large,
            f"the batch has {size} bytes; {topic.name} takes {topic.max_message_bytes} "
            "(max.message.bytes)",
        )
    validate_batch(batch, header)
    if header.is_control:
        raise Rejected(ErrorCode.invalid_record, "control batches are written by brokers only")
    if version < FIRST_ZSTD and header.codec == Codec.ZSTD:
        raise Rejected(
            ErrorCode.unsupported_compression_type, "zstd needs produce version 7 or newer"
        )
    if topic.compacted:
        _require_keys(topic, batch, header)
    return header, topic.check_time(header.max_timestamp, core.clock)


def _require_keys(topic: "Topic", batch: memoryview, header: BatchHeader) -> None:
    """Refuse records that compaction could not tell apart."""
    keyless = keyless_records(batch, header)
    if keyless:
        problem = f"{topic.name} is compacted and takes no record without a key"
        raise Rejected(
            ErrorCode.invalid_record,
            f"{problem}; {len(keyless)} of the batch's {header.record_count} have none",
            [(index, problem) for index in keyless],
        )


def _join_transaction(
    core: "BrokerCore",
    request: ProduceRequest,
    header: BatchHeader,
    partition: "Partition",
    version: int,
    acknowledgement: Acknowledgement,
) -> None:
    """Refuse a transactional batch unless its partition is part of the producer's transaction.

    New clients leave it to the batch to add the partition (KIP-890).
    """
    transactional_id = request.transactional_id
    if transactional_id is None:
        raise Rejected(
            ErrorCode.transactional_id_authorization_failed,
            "a transactional batch needs a request with a transactional id",
        )
    identity = Identity(header.producer_id, header.producer_epoch)
    where = TopicPartition(partition.topic, partition.index)
    if version < FIRST_IMPLICIT:
        try:
            core.transactions.check_partition(transactional_id, identity, where)
        except TransactionError as error:
            if error.code is ErrorCode.transaction_abortable and version < FIRST_ABORTABLE:
                raise Rejected(ErrorCode.invalid_txn_state, str(error)) from error
            raise
        return
    core.transactions.check_producer(transactional_id, identity)
    partition.log.producers.check_first(header)
    changed = core.transactions.add_partitions(transactional_id, identity, (where,))
    if changed and request.acks == ALL:
        core.secure(core.transaction_store.journal, acknowledgement.await_sync())


def _rejection(core: "BrokerCore", partition: int, error: HeadraceError) -> PartitionResult:
    core.metrics.rejected_batches += 1
    at_fault = error.record_errors if isinstance(error, Rejected) else ()
    return PartitionResult(partition, error_code(error), message=str(error), record_errors=at_fault)


def error_code(error: HeadraceError) -> ErrorCode:
    """The protocol's code for an error that the records, the log or this module raised."""
    if isinstance(error, (Rejected, TopicError)):
        return error.code
    if isinstance(error, TransactionError):
        return _TRANSACTION_CODES.get(error.code, error.code)
    for kind, code in _ERRORS:
        if isinstance(error, kind):
            return code
    return ErrorCode.unknown_server_error


def _unknown(key: object, version: int) -> Rejected:
    if version >= wire.FIRST_TOPIC_IDS:
        return Rejected(ErrorCode.unknown_topic_id, f"there is no topic with id {key}")
    # What is no topic's name may be of any length, and would come back in full.
    return Rejected(ErrorCode.unknown_topic_or_partition, f"there is no topic {str(key)[:249]}")
