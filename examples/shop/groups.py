"""Consumer groups: every group sees every event (fan-out), its members share them (balance)."""

import threading

import orjson
from confluent_kafka import Consumer, KafkaException, Message

from examples.shop.client import client_settings
from examples.shop.departments import Department
from examples.shop.ledger import Ledger

_POLL_SECONDS = 0.2


class ConsumerGroup:
    """A department's consumers: as many members as asked for, one account of the work."""

    def __init__(self, bootstrap: str, department: Department, members: int, prefix: str) -> None:
        self.department = department
        self.name = prefix + department.name
        self.ledger = Ledger()
        self._bootstrap = bootstrap
        self._prefix = prefix
        self._lock = threading.Lock()
        self._members = {f"{department.name}-{n}": self._member(n) for n in range(1, members + 1)}

    @property
    def member_names(self) -> tuple[str, ...]:
        """All members, running or not."""
        return tuple(self._members)

    def start(self) -> None:
        """Start every member."""
        for member in self._members.values():
            member.start()

    def stop_member(self, name: str) -> None:
        """One member commits and leaves; the others take over its partitions."""
        self._members[name].stop()

    def restart_member(self, name: str) -> None:
        """A member that was stopped comes back and is given a share again."""
        self._members[name] = self._member(int(name.rpartition("-")[2]))
        self._members[name].start()

    def stop(self) -> None:
        """Stop every member; all that was processed is committed."""
        for member in self._members.values():
            member.ask_to_stop()
        for member in self._members.values():
            member.stop()

    def process(self, message: Message) -> None:
        """Enter a record into the account and, if it is new, let the department see it.

        Members call this from their own threads.
        """
        topic = str(message.topic()).removeprefix(self._prefix)
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert value is not None
        with self._lock:
            if self.ledger.enter(topic, partition, offset):
                self.department.note(topic, orjson.loads(value))

    def _member(self, number: int) -> "Member":
        topics = [self._prefix + topic for topic in self.department.topics]
        client_id = f"{self.department.name}-{number}"
        return Member(self, client_id, self._bootstrap, topics)


class Member:
    """One consumer in a thread of its own."""

    def __init__(
        self, group: ConsumerGroup, client_id: str, bootstrap: str, topics: list[str]
    ) -> None:
        self._group = group
        self._topics = topics
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=client_id)
        self._settings = client_settings(bootstrap, client_id) | {
            "group.id": group.name,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
            "enable.auto.offset.store": False,
            # A member learns of a rebalance with its next heartbeat.
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": "cooperative-sticky",
        }

    def start(self) -> None:
        """Join the group and consume."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Say that it should stop, without waiting."""
        self._stopping.set()

    def stop(self) -> None:
        """Commit, leave the group and return."""
        self.ask_to_stop()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        consumer = Consumer(self._settings)
        consumer.subscribe(self._topics)
        try:
            while not self._stopping.is_set():
                message = consumer.poll(_POLL_SECONDS)
                if message is not None and _is_record(message):
                    self._group.process(message)
                    # Only what is processed is committed, so a member that dies loses nothing.
                    consumer.store_offsets(message)
        finally:
            consumer.close()


def _is_record(message: Message) -> bool:
    error = message.error()
    if error is not None and error.fatal():
        raise KafkaException(error)
    # Any other error is news about something the client is already putting right.
    return error is None
