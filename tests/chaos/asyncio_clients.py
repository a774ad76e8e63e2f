"""aiokafka's clients: another implementation of the protocol, with habits of its own."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable
from typing import TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from tests.chaos.history import (
    Delivered,
    End,
    Ended,
    Isolation,
    Misled,
    Outcome,
    Poll,
    Record,
    Send,
    Session,
)
from tests.chaos.workers import TOPIC, Run, Worker

T = TypeVar("T")

OPERATION_SECONDS = 15.0
"""After so long an operation is given up, with an unknown outcome."""


class AsyncioWorker(Worker):
    """A client in an event loop of its own."""

    def work(self) -> None:
        """Do something until the run stops; whatever the broker refuses is tried again."""
        asyncio.run(self._repeat())

    async def live(self) -> None:
        """One life of the client."""
        raise NotImplementedError

    async def _repeat(self) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        # It says a lot about every lost connection, and there will be many.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        while not self.stopped():
            with contextlib.suppress(KafkaError, TimeoutError, OSError):
                await self.live()


class AsyncioTransactionalWriter(AsyncioWorker):
    """Commits most transactions and aborts some."""

    def __init__(self, run: Run, name: str) -> None:
        super().__init__(run, name)
        self._lives = 0
        self._transactions = 0
        self._numbers = 0

    async def live(self) -> None:
        """Write transactions until one fails."""
        self._lives += 1
        process = f"{self.name}.{self._lives}"
        producer = AIOKafkaProducer(
            bootstrap_servers=self.run.bootstrap,
            transactional_id=self.name,
            transaction_timeout_ms=self.run.transaction_seconds * 1000,
            request_timeout_ms=5000,
            retry_backoff_ms=50,
        )
        try:
            await _soon(producer.start())
            while not self.stopped():
                await self._transaction(producer, process)
                await asyncio.sleep(self.source.uniform(0, 0.1))
        finally:
            # The outcome of what it has left open is the next life's affair.
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await asyncio.wait_for(producer.stop(), 5)

    async def _transaction(self, producer: AIOKafkaProducer, process: str) -> None:
        self._transactions += 1
        transaction = f"{self.name}#{self._transactions}"
        commit = self.source.random() > 0.25
        await _soon(producer.begin_transaction())
        for _ in range(self.source.randint(1, 6)):
            self._numbers += 1
            value = f"{self.name}/{self._numbers}"
            partition = self.source.randrange(self.run.partitions)
            self.record(Send, process, value, partition, transaction)
            sent = await _soon(producer.send_and_wait(TOPIC, value.encode(), partition=partition))
            self.record(Delivered, process, value, Outcome.OK, sent.offset)
        self.record(End, process, transaction, commit)
        if commit:
            await _soon(producer.commit_transaction())
        else:
            await _soon(producer.abort_transaction())
        self.record(Ended, process, transaction, Outcome.OK)


class AsyncioReader(AsyncioWorker):
    """Reads every partition from its beginning, again and again."""

    def __init__(self, run: Run, name: str, isolation: Isolation) -> None:
        super().__init__(run, name)
        self._isolation = isolation

    async def live(self) -> None:
        """Read for a while."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.run.bootstrap,
            isolation_level=str(self._isolation),
            auto_offset_reset="none",
            enable_auto_commit=False,
            request_timeout_ms=5000,
            retry_backoff_ms=50,
        )
        places = [TopicPartition(TOPIC, number) for number in range(self.run.partitions)]
        try:
            await _soon(consumer.start())
            consumer.assign(places)
            for place in places:
                consumer.seek(place, 0)
            self.record(Session, self.name, self._isolation, tuple(range(self.run.partitions)))
            for _ in range(self.source.randint(20, 60)):
                if self.stopped():
                    return
                await self._poll(consumer)
        finally:
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await asyncio.wait_for(consumer.stop(), 5)

    async def _poll(self, consumer: AIOKafkaConsumer) -> None:
        try:
            found = await _soon(consumer.getmany(timeout_ms=100, max_records=500))
        except OffsetOutOfRangeError as error:
            self.record(Misled, self.name, str(error))
            raise
        records = tuple(
            Record(message.partition, message.offset, message.value.decode())
            for messages in found.values()
            for message in messages
        )
        if records:
            self.record(Poll, self.name, records)


async def _soon(operation: Awaitable[T]) -> T:
    return await asyncio.wait_for(operation, OPERATION_SECONDS)
