"""A transaction, request by request: fence who came before, write, commit with an offset.

    transaction = Transaction.open(connection, "shop.3")     # older holders of the id are fenced
    transaction.add([Partition("receipts", 0)])
    ...                                                      # Produce requests in its name
    transaction.commit(OffsetInTransaction("shop.3", Partition("places", 0), StoredOffset(7, "")))

Every attempt opens its own: a new epoch makes the requests of older ones, however late they
arrive, fail. So a lost answer never leaves a doubt that matters: the next attempt waits for the
transaction before it to end, one way or the other, and reads the offset that tells.
"""

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Self

from headrace.kafka.connection import (
    Anyone,
    Connection,
    GroupCoordinator,
    Recipient,
    TransactionCoordinator,
    refused,
)
from headrace.kafka.errors import ClusterError
from headrace.kafka.messages import Request, request
from headrace.kafka.positions import Partition
from headrace.kafka.raw_offsets import StoredOffset, commit_code, offset_entry

INVALID_TRANSACTION_TIMEOUT: Final = 50
FENCING: Final = frozenset(
    {
        47,  # INVALID_PRODUCER_EPOCH
        48,  # INVALID_TXN_STATE
        49,  # INVALID_PRODUCER_ID_MAPPING
        90,  # PRODUCER_FENCED
    }
)
"""Codes by which a broker says that the transaction is not ours any more."""

_CONCURRENT_TRANSACTIONS: Final = 51
_PATIENCE_SECONDS: Final = 60.0
_FIRST_PAUSE_SECONDS: Final = 0.002
_LONGEST_PAUSE_SECONDS: Final = 0.1
_ABORT_SECONDS: Final = 5.0


class ProducerFenced(ClusterError):
    """Another producer of the same transactional id has taken over, or the time was up."""

    def __init__(self, transactional_id: str, open_for: float, timeout: float) -> None:
        reason = (
            f"its transaction was open for {open_for:.0f} s, and the broker ends one after "
            f"{timeout:.0f} s: raise the transaction timeout, or write less in one transaction"
            if open_for > timeout
            else "a newer one with this id has taken over, and does the work"
        )
        super().__init__(f"The producer {transactional_id} was fenced: {reason}.")


class TransactionTimeoutRefused(ClusterError):
    """The cluster does not allow transactions to stay open for that long."""

    def __init__(self, timeout: timedelta) -> None:
        super().__init__(
            f"The cluster allows no transaction timeout of {timeout.total_seconds():g} s: choose "
            "a shorter one, or raise transaction.max.timeout.ms on the brokers."
        )


@dataclass(frozen=True, slots=True)
class OffsetInTransaction:
    """An offset that is committed if the transaction is."""

    group: str
    partition: Partition
    stored: StoredOffset


class Transaction:
    """The next transaction of a transactional id; it begins with the first partition added."""

    def __init__(
        self,
        connection: Connection,
        transactional_id: str,
        timeout: timedelta,
        identity: tuple[int, int],
    ) -> None:
        self.transactional_id = transactional_id
        self.identity = identity
        """The producer's id and epoch, which its batches carry."""
        self._connection = connection
        self._timeout = timeout
        self._coordinator = TransactionCoordinator(transactional_id)
        self._partitions: set[Partition] = set()
        self._began: float | None = None

    @classmethod
    def open(cls, connection: Connection, transactional_id: str, timeout: timedelta) -> Self:
        """Take over the id: fence its other holders and wait until their last transaction ended.

        Raises:
            TransactionTimeoutRefused: The cluster wants a shorter timeout.
        """
        asked = request(
            "init_producer_id", 1, transactional_id=transactional_id, transaction_timeout=timeout
        )
        recipient = TransactionCoordinator(transactional_id)
        answer = _settled(connection, recipient, asked, _code)
        if answer.error_code == INVALID_TRANSACTION_TIMEOUT:
            raise TransactionTimeoutRefused(timeout)
        if answer.error_code:
            raise refused(f"become the producer {transactional_id}", answer.error_code)
        identity = (answer.producer_id, answer.producer_epoch)
        return cls(connection, transactional_id, timeout, identity)

    def add(self, partitions: Collection[Partition]) -> None:
        """Make partitions part of the transaction, which must happen before writing to them."""
        new = set(partitions) - self._partitions
        if not new:
            return
        if self._began is None:
            self._began = time.monotonic()
        numbers: dict[str, list[int]] = {}
        for each in sorted(new, key=lambda each: (each.topic, each.number)):
            numbers.setdefault(each.topic, []).append(each.number)
        self._ask(
            self._coordinator,
            request(
                "add_partitions_to_txn",
                1,
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.identity[0],
                v3_and_below_producer_epoch=self.identity[1],
                v3_and_below_topics=[
                    {"name": topic, "partitions": added} for topic, added in numbers.items()
                ],
            ),
            _partitions_code,
            "add partitions to the transaction of",
        )
        self._partitions |= new

    def commit(self, position: OffsetInTransaction) -> None:
        """Commit all that was written together with an offset; readers see it from then on."""
        if self._began is None:
            self._began = time.monotonic()
        named = {**self._named(), "group_id": position.group}
        self._ask(
            self._coordinator,
            request("add_offsets_to_txn", 1, **named),
            _code,
            "add offsets to the transaction of",
        )
        topics = [offset_entry(position.partition, position.stored)]
        self._ask(
            GroupCoordinator(position.group),
            request("txn_offset_commit", 2, **named, topics=topics),
            commit_code,
            "commit offsets in the transaction of",
        )
        self._ask(self._coordinator, self._end(committed=True), _code, "commit the transaction of")

    def abort(self) -> None:
        """Undo what was written, as far as somebody is there to do it; the next holder does."""
        if self._began is not None:
            with suppress(ClusterError):
                asked = self._end(committed=False)
                self._connection.ask(
                    self._coordinator, asked, code_of=_code, patience=_ABORT_SECONDS
                )

    def fenced(self) -> ProducerFenced:
        """The error for an answer with a code in `FENCING`."""
        open_for = 0.0 if self._began is None else time.monotonic() - self._began
        return ProducerFenced(self.transactional_id, open_for, self._timeout.total_seconds())

    def _end(self, *, committed: bool) -> Request:
        return request("end_txn", 1, **self._named(), committed=committed)

    def _named(self) -> dict[str, Any]:
        """Whose request it is, as most of them spell it."""
        producer_id, producer_epoch = self.identity
        return {
            "transactional_id": self.transactional_id,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
        }

    def _ask(
        self, recipient: Recipient, asked: Request, code_of: Callable[[Any], int], attempt: str
    ) -> None:
        code = code_of(_settled(self._connection, recipient, asked, code_of))
        if code in FENCING:
            raise self.fenced()
        if code:
            raise refused(f"{attempt} {self.transactional_id}", code)


def new_producer(connection: Connection) -> tuple[int, int]:
    """The id and epoch of a new idempotent producer without transactions."""
    asked = request(
        "init_producer_id", 1, transactional_id=None, transaction_timeout=timedelta(minutes=1)
    )
    answer = connection.ask(Anyone(), asked, code_of=_code)
    if answer.error_code:
        raise refused("become an idempotent producer", answer.error_code)
    return answer.producer_id, answer.producer_epoch


def _settled(
    connection: Connection, recipient: Recipient, asked: Request, code_of: Callable[[Any], int]
) -> Any:
    """The answer, once the transaction before has ended in all places."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    pause = _FIRST_PAUSE_SECONDS
    while True:
        answer = connection.ask(recipient, asked, code_of=code_of)
        if code_of(answer) != _CONCURRENT_TRANSACTIONS or time.monotonic() > deadline:
            return answer
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _code(answer: Any) -> int:
    return int(answer.error_code)


def _partitions_code(answer: Any) -> int:
    """The worst of the codes: beside a partition's own, the others have OPERATION_NOT_ATTEMPTED."""
    codes = {
        int(partition.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    }
    not_attempted = 55
    return max(codes - {not_attempted}, default=0)
