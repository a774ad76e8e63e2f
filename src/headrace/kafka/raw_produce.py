"""Record batches to the leaders of their partitions, in order, each exactly as it is.

One request is on its way to each broker at a time while the caller prepares the next ones. That is
all the pipelining there is, since requests are large, and what makes order simple: a batch is
resent before anything that comes after it.
"""

import struct
import time
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from headrace.kafka.connection import Connection, Node, refused
from headrace.kafka.errors import ClusterError, ClusterUnreachable
from headrace.kafka.messages import Request, request
from headrace.kafka.positions import Partition
from headrace.kafka.raw_transactions import FENCING, Transaction

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PATIENCE_SECONDS: Final = 120.0
"""How long a batch is sent again while its partition has no leader or too few replicas."""

_ACKNOWLEDGED_SECONDS: Final = 30
_MOST_BROKERS_AT_ONCE: Final = 8
_FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 1.0
_VERSION: Final = 8
_ALL_REPLICAS: Final = -1

_DUPLICATE: Final = 46
_MESSAGE_TOO_LARGE: Final = frozenset({10, 18})
_PASSING: Final = frozenset(
    {
        3,  # UNKNOWN_TOPIC_OR_PARTITION: brokers learn late of new topics
        5,  # LEADER_NOT_AVAILABLE
        6,  # NOT_LEADER_OR_FOLLOWER
        7,  # REQUEST_TIMED_OUT
        9,  # REPLICA_NOT_AVAILABLE
        13,  # NETWORK_EXCEPTION
        14,  # COORDINATOR_LOAD_IN_PROGRESS
        15,  # COORDINATOR_NOT_AVAILABLE
        16,  # NOT_COORDINATOR
        19,  # NOT_ENOUGH_REPLICAS
        20,  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
        51,  # CONCURRENT_TRANSACTIONS
        56,  # KAFKA_STORAGE_ERROR
    }
)
"""Codes after which the same batch is sent again."""

_int16 = struct.Struct(">h")
_int32 = struct.Struct(">i")
_acknowledgement = struct.Struct(">hi")


@dataclass(frozen=True, slots=True)
class OutgoingBatch:
    """A batch for a partition, and where its records came from."""

    partition: Partition
    data: memoryview
    rows: "npt.NDArray[np.int64]"
    """The number of each record's row, for messages about one of them."""


class RecordsRefused(ClusterError):
    """A broker does not want a batch, whoever sends it however often."""

    def __init__(self, batch: OutgoingBatch, reason: str) -> None:
        super().__init__(
            f"{batch.partition.topic}-{batch.partition.number} refuses the rows "
            f"{batch.rows[0]} to {batch.rows[-1]}: {reason}."
        )


class RecordTooLarge(ClusterError):
    """A record does not fit into the largest batch that its topic accepts."""

    def __init__(self, topic: str, row: int, size: int, limit: int) -> None:
        super().__init__(
            f"Row {row} becomes a record batch of {size} bytes, but {topic} accepts "
            f"{limit}: raise its max.message.bytes with `headrace topics config {topic} --set "
            f"max.message.bytes={size}`, compress, or store large objects elsewhere and send a "
            "reference."
        )


class BatchSender:
    """Sends batches for one producer; close it after use.

    `send` returns as soon as its batches are on their way and those before them have arrived.
    """

    def __init__(self, connection: Connection, transaction: Transaction | None = None) -> None:
        self._connection = connection
        self._transaction = transaction
        self._threads = ThreadPoolExecutor(_MOST_BROKERS_AT_ONCE)
        self._underway: list[Future[None]] = []
        self._leaders: dict[Partition, Node] = {}

    def send(self, batches: Collection[OutgoingBatch]) -> None:
        """Send batches of different partitions, after everything that was sent before.

        Raises what went wrong with the batches before: ProducerFenced, RecordsRefused or, after
        some patience, ClusterUnreachable and RequestRefused.
        """
        self.flush()
        if any(batch.partition not in self._leaders for batch in batches):
            self._find_leaders(batches, fresh=False)
        self._underway = [
            self._threads.submit(self._deliver, list(shared))
            for shared in self._by_leader(batches).values()
        ]

    def flush(self) -> None:
        """Wait until everything that was sent has arrived."""
        underway, self._underway = self._underway, []
        for each in underway:
            each.result()

    def close(self) -> None:
        """Give up what has not arrived."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _deliver(self, batches: list[OutgoingBatch]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        pause = _FIRST_PAUSE_SECONDS
        while True:
            left: list[OutgoingBatch] = []
            for node, shared in self._by_leader(batches).items():
                left += self._attempt(node, shared, last=time.monotonic() > deadline)
            if not left:
                return
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
            self._find_leaders(left, fresh=True)
            batches = left

    def _attempt(
        self, node: Node | None, batches: list[OutgoingBatch], *, last: bool
    ) -> Iterator[OutgoingBatch]:
        """Send batches once; yields those that have to be sent again."""
        if node is None:
            if last:
                raise refused(f"write to {batches[0].partition}", 5)
            yield from batches
            return
        name = None if self._transaction is None else self._transaction.transactional_id
        try:
            answer = self._connection.ask(node, produce_request(name, batches), patience=0)
        except ClusterUnreachable:
            if last:
                raise
            yield from batches
            return
        answers = {
            Partition(topic.name, each.index): each
            for topic in answer.responses
            for each in topic.partition_responses
        }
        for batch in batches:
            told = answers[batch.partition]
            code = int(told.error_code)
            if code in _PASSING and not last:
                yield batch
            elif code not in {0, _DUPLICATE}:
                raise self._failure(batch, code, told)

    def _failure(self, batch: OutgoingBatch, code: int, told: Any) -> ClusterError:
        if code in FENCING and self._transaction is not None:
            return self._transaction.fenced()
        for one in told.record_errors:
            row = batch.rows[one.batch_index]
            reason = one.batch_index_error_message or told.error_message or told.error_code.name
            return RecordsRefused(batch, f"row {row}: {reason}")
        if told.error_message or code in _MESSAGE_TOO_LARGE:
            return RecordsRefused(batch, (told.error_message or told.error_code.name).rstrip("."))
        return refused(f"write to {batch.partition}", code)

    def _find_leaders(self, batches: Collection[OutgoingBatch], *, fresh: bool) -> None:
        wanted = {batch.partition for batch in batches}
        found = self._connection.leaders(wanted, fresh=fresh)
        for partition in wanted:
            self._leaders.pop(partition, None)
        self._leaders |= {each: node for node, led in found.items() for each in led}

    def _by_leader(
        self, batches: Collection[OutgoingBatch]
    ) -> dict[Node | None, list[OutgoingBatch]]:
        shared: dict[Node | None, list[OutgoingBatch]] = {}
        for batch in batches:
            shared.setdefault(self._leaders.get(batch.partition), []).append(batch)
        return shared


def produce_request(transactional_id: str | None, batches: Collection[OutgoingBatch]) -> Request:
    """A Produce request, written by hand so that the records are copied but once."""
    topics: dict[str, list[OutgoingBatch]] = {}
    for batch in batches:
        topics.setdefault(batch.partition.topic, []).append(batch)
    pieces: list[bytes | memoryview] = [
        _string(transactional_id),
        _acknowledgement.pack(_ALL_REPLICAS, _ACKNOWLEDGED_SECONDS * 1000),
        _int32.pack(len(topics)),
    ]
    for topic, shared in topics.items():
        pieces += (_string(topic), _int32.pack(len(shared)))
        for batch in shared:
            pieces.append(_int32.pack(batch.partition.number))
            pieces += (_int32.pack(len(batch.data)), batch.data)
    return replace(_empty_request(), body=b"".join(pieces))


@cache
def _empty_request() -> Request:
    timeout = timedelta(seconds=_ACKNOWLEDGED_SECONDS)
    return request(
        "produce",
        _VERSION,
        transactional_id=None,
        acks=_ALL_REPLICAS,
        timeout=timeout,
        topic_data=(),
    )


def _string(text: str | None) -> bytes:
    if text is None:
        return _int16.pack(-1)
    encoded = text.encode()
    return _int16.pack(len(encoded)) + encoded
