"""What a transactional id is doing, and everything the coordinator remembers of it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from headrace.broker.groups.entries import TopicPartition

NO_EPOCH: Final = -1
"""An epoch that no producer has."""

NO_PRODUCER: Final = -1
"""An id that no producer has."""

LAST_EPOCH: Final = 2**15 - 2
"""A producer of this epoch gets a new id next; one more epoch is left, to fence it with."""


class TransactionState(StrEnum):
    """The states of Kafka's protocol, under the names that its tools print."""

    EMPTY = "Empty"
    """Initialized, without a transaction since."""
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    """Decided: whatever happens, the transaction will be committed."""
    PREPARE_ABORT = "PrepareAbort"
    """Decided: whatever happens, the transaction will be aborted."""
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"

    @property
    def is_decided(self) -> bool:
        """Whether markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_commit(self) -> bool:
        """Whether the last transaction was, or will be, committed."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


class Identity(NamedTuple):
    """A producer id with the epoch that tells its instances apart."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRecord:
    """All that is known of a transactional id; a change makes a new record, and a journal entry."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    """How long a transaction may stay open."""
    updated_ms: int
    state: TransactionState = TransactionState.EMPTY
    started_ms: int = -1
    """When the transaction began; -1 if there is none."""
    partitions: frozenset[TopicPartition] = frozenset()
    groups: frozenset[str] = frozenset()
    """The consumer groups that get offsets with the transaction."""
    last_epoch: int = NO_EPOCH
    """The epoch before, whose owner may ask again for what it was not told (KIP-360)."""
    previous_producer_id: int = NO_PRODUCER
    """The id before, if its epochs ran out."""
    next_producer_id: int = NO_PRODUCER
    """The id that replaces the current one when the transaction has ended."""

    @property
    def identity(self) -> Identity:
        """The producer id and epoch."""
        return Identity(self.producer_id, self.epoch)

    @property
    def is_led(self) -> bool:
        """Whether there is a transaction that the coordinator will end."""
        return self.state is TransactionState.ONGOING or self.state.is_decided

    @property
    def next_identity(self) -> Identity:
        """The producer id and epoch once the transaction has ended."""
        if self.next_producer_id != NO_PRODUCER:
            return Identity(self.next_producer_id, 0)
        return self.identity
