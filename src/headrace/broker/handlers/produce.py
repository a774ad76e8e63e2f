"""Produce: validated batches go to their partitions and are acknowledged as asked.

`acks=0` is never answered, `acks=1` is answered after the write, `acks=all` after the policy of the
topic is fulfilled: with `flush = "ack"` that is after the fsync.
"""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from headrace.broker.guard import ProtocolError
from headrace.broker.handlers import produce_wire as wire
from headrace.broker.handlers.produce_wire import PartitionData, PartitionResult, TopicResult
from headrace.broker.protocol import Call
from headrace.broker.reply import Pending, Reply
from headrace.broker.topics import TopicError
from headrace.errors import HeadraceError
from headrace.log.errors import (
    LogClosed,
    LogError,
    OutOfOrderSequence,
    StaleProducerEpoch,
    StorageFailed,
    StorageFull,
)
from headrace.records import (
    Codec,
    CorruptBatch,
    MalformedBatch,
    read_header,
    validate_batch,
)

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore
    from headrace.broker.topics import Topic

FIRST_ZSTD = 7
"""Clients of earlier versions cannot read zstd, so they may not write it either (KIP-110)."""

_ERRORS: tuple[tuple[type[HeadraceError], ErrorCode], ...] = (
    (CorruptBatch, ErrorCode.corrupt_message),
    (MalformedBatch, ErrorCode.invalid_record),
    (OutOfOrderSequence, ErrorCode.out_of_order_sequence_number),
    (StaleProducerEpoch, ErrorCode.invalid_producer_epoch),
    (LogClosed, ErrorCode.unknown_topic_or_partition),
    (StorageFull, ErrorCode.kafka_storage_error),
    (StorageFailed, ErrorCode.kafka_storage_error),
)


class Rejected(HeadraceError):
    """The records for a partition were refused; nothing of them was written."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Acknowledgement:
    """Collects the results of one request and replies when the last of them is known."""

    __slots__ = ("_call", "_outstanding", "pending", "results")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._outstanding = 0
        self.results: list[TopicResult] = []
        self.pending: Pending | None = None

    def await_sync(self, partitions: list[PartitionResult], position: int) -> "_Sync":
        """One more result depends on a sync; called with it when it is done."""
        self._outstanding += 1
        return _Sync(self, partitions, position)

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
        return wire.write(self.results, self._call.version, self._call.correlation_id)


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


def answer(core: "BrokerCore", frame: memoryview, body: int, call: Call) -> Reply | Pending | None:
    """Append everything in the request, in its order."""
    request = wire.read(frame, body, call.version)
    acks = request.acks
    acknowledgement = Acknowledgement(call)
    for key, partitions in request.topics:
        topic = core.topics.find(key)
        results: list[PartitionResult] = []
        acknowledgement.results.append((key, results))
        for data in partitions:
            try:
                if acks not in (-1, 0, 1):
                    raise Rejected(ErrorCode.invalid_required_acks, f"acks={acks} means nothing")
                result = _append(core, topic, key, data, call, acks, acknowledgement, results)
            except HeadraceError as error:
                if acks == 0:
                    raise ProtocolError(
                        f"produce to {key}-{data.partition} without acknowledgement failed: {error}"
                    ) from error
                core.metrics.rejected_batches += 1
                result = PartitionResult(data.partition, error_code(error), message=str(error))
            results.append(result)
    return None if acks == 0 else acknowledgement.finish()


def _append(
    core: "BrokerCore",
    topic: "Topic | None",
    key: object,
    data: PartitionData,
    call: Call,
    acks: int,
    acknowledgement: Acknowledgement,
    results: list[PartitionResult],
) -> PartitionResult:
    if topic is None:
        raise _unknown(key, call.version)
    if not 0 <= data.partition < len(topic.partitions):
        raise Rejected(
            ErrorCode.unknown_topic_or_partition,
            f"{topic.name} has {len(topic.partitions)} partitions, and none is {data.partition}",
        )
    batch = data.records
    if not batch:
        raise Rejected(ErrorCode.invalid_record, "there is no record batch")
    if acks == -1 and topic.min_insync_replicas > 1:
        raise Rejected(
            ErrorCode.not_enough_replicas,
            f"{topic.name} demands {topic.min_insync_replicas} in-sync replicas and has one",
        )
    header = read_header(batch)
    if header.size != len(batch):
        if header.size > len(batch):
            raise Rejected(
                ErrorCode.invalid_record,
                f"the batch claims {header.size} bytes and has {len(batch)}; send it whole",
            )
        raise Rejected(ErrorCode.invalid_record, "a produce request carries one batch a partition")
    if header.size > topic.max_message_bytes:
        raise Rejected(
            ErrorCode.message_too_large,
            f"the batch has {header.size} bytes; {topic.name} takes {topic.max_message_bytes} "
            "(max.message.bytes)",
        )
    validate_batch(batch, header)
    if header.is_control or header.is_transactional:
        raise Rejected(ErrorCode.invalid_record, "control and transactional batches are refused")
    if header.codec == Codec.ZSTD and call.version < FIRST_ZSTD:
        raise Rejected(
            ErrorCode.unsupported_compression_type, "zstd needs produce version 7 or newer"
        )
    append_time = topic.check_time(header.max_timestamp, core.clock)
    partition = topic.partitions[data.partition]
    waiter = acknowledgement.await_sync(results, len(results)) if acks == -1 else None
    try:
        appended = partition.append(batch, header, append_time=append_time, waiter=waiter)
    except HeadraceError:
        if waiter is not None:
            acknowledgement.synced()
        raise
    return PartitionResult(
        data.partition,
        ErrorCode.none,
        appended.base_offset,
        appended.timestamp,
        partition.log.start_offset,
    )


def error_code(error: HeadraceError) -> ErrorCode:
    """The protocol's code for an error that the records, the log or this module raised."""
    if isinstance(error, (Rejected, TopicError)):
        return error.code
    for kind, code in _ERRORS:
        if isinstance(error, kind):
            return code
    return ErrorCode.unknown_server_error


def _unknown(key: object, version: int) -> Rejected:
    if version >= wire.FIRST_TOPIC_IDS:
        return Rejected(ErrorCode.unknown_topic_id, f"there is no topic with id {key}")
    # What is no topic's name may be of any length, and would come back in full.
    return Rejected(ErrorCode.unknown_topic_or_partition, f"there is no topic {str(key)[:249]}")
