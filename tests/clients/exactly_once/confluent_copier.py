"""Copies a topic with confluent-kafka, in transactions, until it is killed.

Arguments: bootstrap address, source topic, target topic, group, transactional id, group protocol.
Each step is told on the standard output, so that whoever watches can kill it between any two.
"""

import itertools
import sys

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

BATCH_SIZE = 10
ABORT_EVERY = 7
"""So often it changes its mind before the commit."""

CLASSIC = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200}
"""Settings that the new protocol leaves to the broker."""


class Copier:
    """A member of a group that hands on what it reads; reading and writing commit together."""

    def __init__(
        self, bootstrap: str, source: str, target: str, group: str, name: str, protocol: str
    ) -> None:
        self._target = target
        self._batch: list[Message] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                "linger.ms": 0,
                # Otherwise librdkafka 2.16, having lost its only broker within a transaction, goes
                # on waiting for it when it is back, whether that is Headrace or Apache Kafka.
                "metadata.recovery.strategy": "none",
            }
        )
        self._producer.init_transactions()
        # A killed member that comes back is given its partitions at once; the new protocol would
        # have it wait for the end of its predecessor's session.
        membership = CLASSIC | {"group.instance.id": name} if protocol == "classic" else {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                **membership,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
            }
        )
        self._consumer.subscribe([source], on_revoke=self._forget, on_lost=self._forget)
        print("ready", flush=True)

    def run(self) -> None:
        """Copy batch after batch."""
        for number in itertools.count(1):
            self._collect()
            try:
                self._copy(give_up=number % ABORT_EVERY == 0)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                self._rewind()
            self._batch.clear()

    def _collect(self) -> None:
        """Read until a batch is full, or something is there and nothing more comes."""
        while len(self._batch) < BATCH_SIZE:
            message = self._consumer.poll(0.05)
            if message is None:
                if self._batch:
                    return
            elif error := message.error():
                raise KafkaException(error)
            else:
                self._batch.append(message)

    def _copy(self, *, give_up: bool) -> None:
        self._producer.begin_transaction()
        print("begun", flush=True)
        reached: dict[int, TopicPartition] = {}
        for message in self._batch:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            self._producer.produce(
                self._target, message.value(), message.key(), partition=partition
            )
            reached[partition] = TopicPartition(topic, partition, offset + 1)
        self._producer.flush()
        print("written", flush=True)
        self._producer.send_offsets_to_transaction(
            list(reached.values()), self._consumer.consumer_group_metadata()
        )
        print("offsets added", flush=True)
        if give_up:
            self._rewind()
            return
        self._producer.commit_transaction()
        print("committed", flush=True)

    def _rewind(self) -> None:
        """Abort, and read again what was not committed."""
        self._producer.abort_transaction()
        for place in self._consumer.committed(self._consumer.assignment()):
            if place.offset < 0:
                place.offset = OFFSET_BEGINNING
            self._consumer.seek(place)
        print("aborted", flush=True)

    def _forget(self, _: Consumer, taken: list[TopicPartition]) -> None:
        """Whoever gets the partitions next reads them from where the last commit left them."""
        gone = {place.partition for place in taken}
        self._batch = [message for message in self._batch if message.partition() not in gone]


if __name__ == "__main__":
    Copier(*sys.argv[1:]).run()
