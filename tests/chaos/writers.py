"""Producers of librdkafka: idempotent ones, and transactional ones that sometimes die."""

import contextlib
import time
from collections.abc import Callable
from enum import Enum, auto

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.chaos.history import Delivered, End, Ended, Outcome, Send
from tests.chaos.workers import TOPIC, Run, Worker

MOST_IN_FLIGHT = 200
ABORTED, ABANDONED = 0.2, 0.08
"""Shares of the transactions that are not committed."""

GIVE_UP_SECONDS = 40.0
"""How long a producer tries to begin or to end a transaction."""


class Writer(Worker):
    """Records what is sent and what is said of it, for any producer of librdkafka."""

    def __init__(self, run: Run, name: str) -> None:
        super().__init__(run, name)
        self.process = name
        self._instances = 0
        self._numbers = 0
        self.fatal = False

    def new_process(self) -> None:
        """Begin another life: an order of records, or a promise, holds within one only."""
        self._instances += 1
        self.process = f"{self.name}.{self._instances}"
        self.fatal = False

    def send(self, producer: Producer, transaction: str | None = None) -> None:
        """Send one record somewhere."""
        self._numbers += 1
        value = f"{self.name}/{self._numbers}"
        partition = self.source.randrange(self.run.partitions)
        self.record(Send, self.process, value, partition, transaction)
        produce_when_there_is_room(
            producer,
            lambda: producer.produce(
                TOPIC, value, partition=partition, on_delivery=self._delivery(self.process, value)
            ),
        )

    def told_of(self, error: KafkaError) -> None:
        """Take note of an error that ends this life."""
        self.fatal = self.fatal or error.fatal()

    def _delivery(self, process: str, value: str) -> Callable[[KafkaError | None, Message], None]:
        def told(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.record(Delivered, process, value, Outcome.OK, message.offset())
                return
            # librdkafka does not say whether the record may have reached the log.
            self.record(Delivered, process, value, Outcome.UNKNOWN)
            self.told_of(error)

        return told


class IdempotentWriter(Writer):
    """Sends bursts of records, with several requests under way."""

    def work(self) -> None:
        """Send until the run stops; a producer that gives up is replaced."""
        while not self.stopped():
            self.new_process()
            producer = Producer(
                self.run.settings(
                    enable_idempotence=True,
                    linger_ms=5,
                    message_timeout_ms=20_000,
                    error_cb=self.told_of,
                )
            )
            # After a fatal error every call raises it.
            with contextlib.suppress(KafkaException):
                while not self.stopped() and not self.fatal:
                    self._burst(producer)
                    self.pause(0.05)
                producer.flush(GIVE_UP_SECONDS)

    def _burst(self, producer: Producer) -> None:
        for _ in range(self.source.randint(1, 20)):
            self.send(producer)
        producer.poll(0)
        while len(producer) > MOST_IN_FLIGHT and not self.fatal:
            producer.poll(0.1)


class Next(Enum):
    """How a transactional producer goes on after a transaction."""

    TRANSACTION = auto()
    SAME_ID = auto()
    """Another producer takes its id over, and thereby ends what it left open."""
    OTHER_ID = auto()
    """Nobody takes over; what was left open must time out."""


class TransactionalWriter(Writer):
    """Commits most transactions, aborts some, and leaves some open as if its process had died."""

    def __init__(self, run: Run, name: str) -> None:
        super().__init__(run, name)
        self._transactions = 0

    def work(self) -> None:
        """Write transactions until the run stops."""
        transactional_id = self.name
        while not self.stopped():
            self.new_process()
            producer = Producer(
                self.run.settings(
                    transactional_id=transactional_id,
                    transaction_timeout_ms=self.run.transaction_seconds * 1000,
                    linger_ms=2,
                )
            )
            following = Next.TRANSACTION
            if not _persist(producer.init_transactions):
                following = Next.SAME_ID
            while not self.stopped() and following is Next.TRANSACTION:
                following = self._transaction(producer)
                self.pause(0.05)
            if following is Next.OTHER_ID:
                transactional_id = self.process

    def _transaction(self, producer: Producer) -> Next:
        self._transactions += 1
        transaction = f"{self.name}#{self._transactions}"
        fate = self.source.random()
        count = self.source.randint(1, 12)
        try:
            producer.begin_transaction()
            for _ in range(count):
                self.send(producer, transaction)
                producer.poll(0)
                if self.source.random() < 0.1:
                    self.pause(0.1)
        except KafkaException:
            return self._abort(producer, transaction)
        if fate < ABANDONED:
            producer.flush(self.run.transaction_seconds)
            return Next.SAME_ID if fate < ABANDONED / 2 else Next.OTHER_ID
        if fate < ABANDONED + ABORTED:
            return self._abort(producer, transaction)
        return self._commit(producer, transaction)

    def _commit(self, producer: Producer, transaction: str) -> Next:
        self.record(End, self.process, transaction, commit=True)
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while time.monotonic() < deadline:
            try:
                producer.commit_transaction(10)
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if reason.retriable():
                    continue
                if reason.txn_requires_abort() and _persist(producer.abort_transaction):
                    self.record(Ended, self.process, transaction, Outcome.FAIL)
                    return Next.TRANSACTION
                break
            else:
                self.record(Ended, self.process, transaction, Outcome.OK)
                return Next.TRANSACTION
        self.record(Ended, self.process, transaction, Outcome.UNKNOWN)
        return Next.SAME_ID

    def _abort(self, producer: Producer, transaction: str) -> Next:
        self.record(End, self.process, transaction, commit=False)
        if not _persist(producer.abort_transaction):
            return Next.SAME_ID
        self.record(Ended, self.process, transaction, Outcome.OK)
        return Next.TRANSACTION


def _persist(action: Callable[[float], object]) -> bool:
    """Whether something was done at last; what can be retried is."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while time.monotonic() < deadline:
        try:
            action(10)
        except KafkaException as error:
            if not error.args[0].retriable():
                return False
        else:
            return True
    return False


def produce_when_there_is_room(producer: Producer, produce: Callable[[], None]) -> None:
    """Hand a record to a producer whose queue may be full."""
    while True:
        try:
            produce()
        except BufferError:
            producer.poll(0.1)
        else:
            return
