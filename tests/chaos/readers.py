"""Consumers of librdkafka: some with positions of their own, some in a group."""

import contextlib
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.chaos.history import (
    Committed,
    Isolation,
    Misled,
    Outcome,
    Poll,
    Record,
    Resumed,
    Session,
    Watermark,
)
from tests.chaos.workers import TOPIC, Run, Worker

PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500},
    "consumer": {},
}
"""The two kinds of groups, and what members set in each; in the newer one, the broker decides."""

_LOST_PLACE = {
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError._LOG_TRUNCATION,
}


class Reader(Worker):
    """Reads partitions from places that it chooses, in one session after another."""

    def __init__(self, run: Run, name: str, isolation: Isolation) -> None:
        super().__init__(run, name)
        self._isolation = isolation
        self._read: dict[int, int] = dict.fromkeys(range(run.partitions), 0)

    def work(self) -> None:
        """Read until the run stops, some seconds a session."""
        while not self.stopped():
            consumer = Consumer(
                self.run.settings(
                    group_id=self.name,
                    isolation_level=self._isolation,
                    auto_offset_reset="error",
                    enable_auto_commit=False,
                    check_crcs=True,
                    fetch_wait_max_ms=100,
                    fetch_error_backoff_ms=50,
                )
            )
            with contextlib.closing(consumer):
                self._session(consumer)

    def _session(self, consumer: Consumer) -> None:
        # A place that was read once must be there still.
        places = [
            TopicPartition(TOPIC, partition, self.source.choice([0, read // 2, read]))
            for partition, read in self._read.items()
        ]
        self.record(Session, self.name, self._isolation, tuple(self._read))
        consumer.assign(places)
        for _ in range(self.source.randint(5, 40)):
            if self.stopped():
                return
            messages = consumer.consume(200, 0.1)
            records = records_of(messages)
            if records:
                self.record(Poll, self.name, records)
            for record in records:
                self._read[record.partition] = max(self._read[record.partition], record.offset)
            if problem := lost_place(messages):
                self.record(Misled, self.name, problem)
                return


class GroupReader(Worker):
    """A member of a group: reads what it is assigned, and commits how far it has got."""

    def __init__(self, run: Run, name: str, protocol: str) -> None:
        super().__init__(run, name)
        self._protocol = protocol
        self._group = f"{protocol} readers"
        self._places: dict[int, int] = {}

    def work(self) -> None:
        """Read until the run stops; leave the group now and then, with or without a word."""
        while not self.stopped():
            consumer = Consumer(
                self.run.settings(
                    group_id=self._group,
                    group_protocol=self._protocol,
                    isolation_level=Isolation.COMMITTED,
                    auto_offset_reset="earliest",
                    enable_auto_commit=False,
                    check_crcs=True,
                    fetch_wait_max_ms=100,
                    fetch_error_backoff_ms=50,
                    **PROTOCOLS[self._protocol],
                )
            )
            with contextlib.closing(consumer):
                consumer.subscribe([TOPIC], on_assign=self._assigned, on_revoke=self._revoked)
                for _ in range(self.source.randint(20, 80)):
                    if self.stopped():
                        break
                    self._poll(consumer)

    def _poll(self, consumer: Consumer) -> None:
        messages = consumer.consume(200, 0.1)
        records = records_of(messages)
        if records:
            self.record(Poll, self.name, records)
            for record in records:
                self._places[record.partition] = record.offset + 1
        if problem := lost_place(messages):
            self.record(Misled, self.name, problem)
        if self._places and self.source.random() < 0.3:
            self._commit(consumer)

    def _commit(self, consumer: Consumer) -> None:
        places = dict(self._places)
        outcome = Outcome.UNKNOWN
        with contextlib.suppress(KafkaException):
            answers = consumer.commit(
                offsets=[TopicPartition(TOPIC, *place) for place in places.items()],
                asynchronous=False,
            )
            assert answers is not None
            if all(answer.error is None for answer in answers):
                outcome = Outcome.OK
        for partition, offset in places.items():
            self.record(Committed, self.name, self._group, partition, offset, outcome)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._places.clear()
        asked = self.run.recorder.now()
        with contextlib.suppress(KafkaException):
            for place in consumer.committed(partitions, 5):
                if place.error is None:
                    offset = max(place.offset, 0)
                    self.record(Resumed, self.name, self._group, place.partition, offset, asked)
        numbers = tuple(place.partition for place in partitions)
        self.record(Session, self.name, Isolation.COMMITTED, numbers)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._places.clear()


class Watcher(Worker):
    """Asks for the partitions' ends, for both kinds of readers, again and again."""

    def work(self) -> None:
        """Ask until the run stops."""
        with contextlib.ExitStack() as resources:
            consumers = {
                isolation: resources.enter_context(
                    contextlib.closing(watching_consumer(self.run, isolation))
                )
                for isolation in Isolation
            }
            while not self.stopped():
                for isolation, consumer in consumers.items():
                    for partition, end in ends(self.run, consumer):
                        self.record(Watermark, self.name, isolation, partition, end)
                self.pause(0.3)


def watching_consumer(run: Run, isolation: Isolation) -> Consumer:
    """A consumer that only asks for ends."""
    return Consumer(
        run.settings(group_id="watcher", isolation_level=isolation, enable_auto_commit=False)
    )


def ends(run: Run, consumer: Consumer) -> Iterable[tuple[int, int]]:
    """The end of every partition, as far as the broker answers."""
    for partition in range(run.partitions):
        with contextlib.suppress(KafkaException):
            place = TopicPartition(TOPIC, partition)
            marks = consumer.get_watermark_offsets(place, timeout=2, cached=False)
            if marks is not None:
                yield partition, marks[1]


def records_of(messages: list[Message]) -> tuple[Record, ...]:
    """The records among what a consumer returned."""
    found = []
    for message in messages:
        if message.error() is None:
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            assert value is not None
            found.append(Record(partition, offset, value.decode()))
    return tuple(found)


def lost_place(messages: list[Message]) -> str | None:
    """What a consumer says if the broker denies the place that it stands at."""
    for message in messages:
        error = message.error()
        if error is not None and error.code() in _LOST_PLACE:
            return f"partition {message.partition()}: {error}"
    return None
