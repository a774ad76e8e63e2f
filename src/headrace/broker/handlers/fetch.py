"""Fetch: file ranges for what is there, a long poll that wakes on append for what is not."""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker.handlers import fetch_wire as wire
from headrace.broker.handlers.fetch_wire import PartitionReply, TopicReply
from headrace.broker.handlers.partitions import check_epoch
from headrace.broker.protocol import Call
from headrace.broker.reply import Pending, Reply
from headrace.log.errors import CorruptRecords, LogError, OffsetOutOfRange

if TYPE_CHECKING:
    import asyncio

    from headrace.broker.core import BrokerCore
    from headrace.broker.partition import Partition

MOST_BYTES = 55 << 20
"""The largest reply, whatever a client asks for: Apache Kafka's own `fetch.max.bytes`."""

READ_COMMITTED = 1
"""The isolation level of a reader who wants nothing that may still be aborted, or was."""

FULL_FETCH_EPOCHS = (-1, 0)
"""Session epochs that name every partition; any other refers to a session we never grant."""


def fetch(core: "BrokerCore", frame: memoryview, body: int, call: Call) -> Reply | Pending:
    """Answer with data at once, or when there is enough of it, or when the time is up."""
    request = call.codec.read(frame, body)
    if getattr(request, "session_epoch", 0) not in FULL_FETCH_EPOCHS:
        return wire.write(
            [], call.version, call.correlation_id, ErrorCode.fetch_session_id_not_found
        )
    fetch = Fetch(core, request, call)
    topics = fetch.collect()
    if fetch.enough or not request.max_wait:
        return fetch.reply(topics)
    return fetch.wait(request.max_wait.total_seconds())


class Fetch:
    """One fetch request, from its arrival to its reply."""

    __slots__ = (
        "_call",
        "_core",
        "_grown",
        "_request",
        "_sent",
        "_timer",
        "_watched",
        "_woken",
        "enough",
        "pending",
    )

    def __init__(self, core: "BrokerCore", request: Any, call: Call) -> None:
        self._core = core
        self._request = request
        self._call = call
        self._grown = 0
        self._timer: asyncio.TimerHandle | None = None
        self._watched: list[Partition] = []
        self._sent: list[tuple[Partition, int]] = []
        self._woken = False
        self.enough = False
        self.pending = Pending()

    def collect(self) -> list[TopicReply]:
        """What can be read now; `enough` tells whether that is worth a reply."""
        request = self._request
        remaining = min(request.max_bytes, MOST_BYTES)
        found = 0
        failed = False
        by_id = self._call.version >= wire.FIRST_TOPIC_IDS
        committed = request.isolation_level == READ_COMMITTED
        self._watched.clear()
        self._sent.clear()
        topics: list[TopicReply] = []
        for wanted in request.topics:
            key = wanted.topic_id if by_id else wanted.topic
            topic = self._core.topics.find(key)
            replies: list[PartitionReply] = []
            topics.append((key or "", replies))
            for part in wanted.partitions:
                index = part.partition
                if topic is None or not 0 <= index < len(topic.partitions):
                    code = (
                        ErrorCode.unknown_topic_id
                        if by_id and topic is None
                        else ErrorCode.unknown_topic_or_partition
                    )
                    replies.append(PartitionReply(index, code))
                    failed = True
                    continue
                partition = topic.partitions[index]
                limit = min(part.partition_max_bytes, max(remaining, 0))
                reply = _read(partition, part, limit, committed, at_least_one=not found)
                replies.append(reply)
                self._watched.append(partition)
                if reply.error is not ErrorCode.none:
                    # Nothing makes that well again soon, and some clients ask again at once.
                    failed = failed or reply.error is not ErrorCode.corrupt_message
                elif reply.records is not None:
                    self._sent.append((partition, reply.records.length))
                    found += reply.records.length
                    remaining -= reply.records.length
        self._grown = found
        self.enough = failed or found >= request.min_bytes
        return topics

    def reply(self, topics: list[TopicReply]) -> Reply:
        """The response frame, with what it carries counted as sent."""
        for partition, size in self._sent:
            partition.bytes_out += size
        return wire.write(topics, self._call.version, self._call.correlation_id)

    def wait(self, seconds: float) -> Pending:
        """Watch the partitions until there is enough to read or the time is up."""
        self._watch()
        self._timer = self._core.loop.call_later(seconds, self._finish)
        self.pending.on_abandon(self._stop)
        return self.pending

    def _watch(self) -> None:
        for partition in self._watched:
            partition.watch(self._wake)

    def _unwatch(self) -> None:
        for partition in self._watched:
            partition.unwatch(self._wake)

    def _wake(self, size: int) -> None:
        self._grown += size
        if not self._woken and (self._grown >= self._request.min_bytes or size == 0):
            # Everything appended in this turn of the event loop goes into one reply.
            self._woken = True
            self._core.loop.call_soon(self._look_again)

    def _look_again(self) -> None:
        """Reply if there is enough now: a wake may count what is about to become readable."""
        if self._timer is None:
            return
        self._woken = False
        self._unwatch()
        topics = self.collect()
        if self.enough:
            self._stop()
            self.pending.resolve(self.reply(topics))
        else:
            self._watch()

    def _finish(self) -> None:
        self._stop()
        self.pending.resolve(self.reply(self.collect()))

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._unwatch()


def _read(
    partition: "Partition", part: Any, limit: int, committed: bool, *, at_least_one: bool
) -> PartitionReply:
    log = partition.log
    offset = part.fetch_offset
    stable = log.last_stable_offset
    code = check_epoch(partition, getattr(part, "current_leader_epoch", -1))
    if code is not ErrorCode.none:
        return PartitionReply(part.partition, code)
    try:
        up_to = stable if committed else None
        found = partition.read(offset, limit, at_least_one=at_least_one, up_to=up_to)
    except OffsetOutOfRange:
        code = ErrorCode.offset_out_of_range
    except CorruptRecords:
        code = ErrorCode.corrupt_message
    except LogError:
        code = ErrorCode.kafka_storage_error
    else:
        aborted = None
        if committed:
            aborted = [
                each[:2] for each in partition.aborted_transactions(offset, found.end_offset)
            ]
        return PartitionReply(
            *(part.partition, code, log.high_watermark, stable),
            *(partition.start_offset, found, aborted),
        )
    return PartitionReply(part.partition, code)
