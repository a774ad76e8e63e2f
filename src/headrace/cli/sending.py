"""Producing records while keeping the account: how many, and which ones failed and why."""

from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from headrace.cli.output import Progress, complain
from headrace.cli.record_json import OutgoingRecord
from headrace.kafka import (
    Cluster,
    ClusterError,
    UnknownPartition,
    UnknownTopic,
    partitions_of,
    topic_config,
)

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_COMPLAINTS = 10
"""Failures that are reported one by one; the others are only counted."""

_POLL_EVERY = 100
"""Records between looks at what became of earlier ones."""

_SETTINGS = {
    # The broker and the topic decide what is too large, not the client's own default of 1 MB.
    "message.max.bytes": 100_000_000,
    # Nobody watches a command for the minutes that librdkafka would wait by default.
    "message.timeout.ms": 30_000,
    "topic.metadata.propagation.max.ms": 10_000,
}


class Sending:
    """Records on their way to a topic; `sent` and `failed` are final after `finish`."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        acks: str,
        compression: str,
        partition: int | None,
        progress: Progress,
        positions: bool = False,
    ) -> None:
        if partition is not None:
            _check_partition(cluster, topic, partition)
        self._producer = cluster.producer(
            {
                **_SETTINGS,
                "acks": acks,
                "compression.type": compression,
                "delivery.report.only.error": not positions,
            }
        )
        self._reached: dict[int, int] = {}
        self._cluster = cluster
        self._topic = topic
        self._partition = -1 if partition is None else partition
        self._progress = progress
        self.sent = 0
        self.failed = 0

    def send(self, number: int, record: OutgoingRecord) -> None:
        """Hand over a record, the `number`th; waits while librdkafka's queue is full."""
        from confluent_kafka import KafkaException

        while True:
            try:
                self._producer.produce(
                    self._topic,
                    record.value,
                    record.key,
                    partition=self._partition,
                    timestamp=record.timestamp or 0,
                    headers=record.headers,
                    on_delivery=partial(self._note_delivery, number),
                )
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as exception:
                self.fail(number, exception.args[0].str())
                return
            else:
                break
        self.sent += 1
        if self.sent % _POLL_EVERY == 0:
            self._producer.poll(0)
            self._progress.update(self.sent)

    def fail(self, number: int, reason: str) -> None:
        """Count a record that cannot be produced, and say why."""
        self.failed += 1
        if self.failed <= _COMPLAINTS:
            self._progress.clear()
            complain(f"record {number}: {reason}.")
        if self.failed == _COMPLAINTS:
            complain("further failures are only counted.")

    def finish(self) -> None:
        """Wait until the fate of every record is known."""
        while self._producer.flush(0.5):
            self._progress.update(self.sent)
        self._progress.clear()

    @property
    def position(self) -> str:
        """Where the last record of each partition is, as in orders:0:4711, if it was asked for."""
        found = sorted(self._reached.items())
        return ",".join(f"{self._topic}:{number}:{offset}" for number, offset in found)

    def _note_delivery(
        self,
        number: int,
        error: "KafkaError | None",
        message: "Message",
    ) -> None:
        if error is not None:
            self.sent -= 1
            self.fail(number, self._explained(error))
            return
        place, offset = message.partition(), message.offset()
        if place is not None and offset is not None and offset >= 0:
            self._reached[place] = max(offset, self._reached.get(place, 0))

    def _explained(self, error: "KafkaError") -> str:
        """Why a record was refused, and what would be right where the broker does not say."""
        match error.name():
            case "TOPIC_EXCEPTION":
                return (
                    f'"{self._topic}" cannot be the name of a topic: it has 1 to 249 letters a-z '
                    "and A-Z, digits, and the characters . _ -"
                )
            case "INVALID_RECORD" if self._is_compacted:
                return (
                    f"the broker refuses it; {self._topic} is compacted, where every record needs "
                    "a key, as with --key or --key-separator"
                )
            case "INVALID_RECORD":
                return f"the broker refuses it ({error.str()})"
        return error.str()

    @cached_property
    def _is_compacted(self) -> bool:
        with suppress(ClusterError):
            return any(
                entry.name == "cleanup.policy" and "compact" in (entry.value or "")
                for entry in topic_config(self._cluster, self._topic)
            )
        return False


def _check_partition(cluster: Cluster, topic: str, number: int) -> None:
    """UnknownPartition before anything is read, where librdkafka would refuse each record."""
    with suppress(UnknownTopic):  # which the broker may create
        count = len(partitions_of(cluster, topic))
        if number >= count:
            raise UnknownPartition(topic, number, count)
