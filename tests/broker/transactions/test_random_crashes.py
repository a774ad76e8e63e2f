"""Random transactions and random crashes: every transaction is whole or not there at all.

Each life of the broker ends with a kill or a power loss, often in the middle of a disk operation.
Then the next one recovers, waits until what is left open has timed out, and is looked at.
"""

from dataclasses import dataclass, field
from random import Random

import pytest

from headrace.broker.groups.entries import TopicPartition
from headrace.broker.transactions.errors import TransactionError
from headrace.broker.transactions.state import Identity
from headrace.log import Flush
from headrace.log.errors import LogError
from tests.broker.transactions.simulation import (
    GROUP,
    PARTITIONS,
    TIMEOUT_MS,
    TransactionSimulation,
    new_disk,
)
from tests.log.simulated_disk import Died, SimulatedDisk

LIVES = 12
STEPS = 25


@dataclass
class Attempt:
    """One transaction: what was acknowledged of it, and how it was to end."""

    token: bytes
    written: set[TopicPartition] = field(default_factory=set)
    offset: TopicPartition | None = None
    asked: bool | None = None
    """Whether the producer has asked to commit or to abort; then it can only ask again."""
    acknowledged: bool | None = None
    """How it has ended, if the producer was told."""


class Producer:
    """A client that keeps its transactional id over restarts of its own and of the broker."""

    def __init__(self, name: str, raises_epoch: bool) -> None:
        self.name = name
        self.raises_epoch = raises_epoch
        self.identity: Identity | None = None
        self.sequences: dict[TopicPartition, int] = {}
        self.attempt: Attempt | None = None

    def take(self, identity: Identity) -> None:
        if identity != self.identity:
            self.identity = identity
            self.sequences = {}

    def forget(self) -> None:
        self.identity = None
        self.attempt = None


class World:
    """Producers, what they have done, and the disk that survives the brokers."""

    def __init__(self, seed: int, flush: Flush) -> None:
        self.random = Random(seed)
        self.flush = flush
        self.disk: SimulatedDisk = new_disk()
        self.producers = [Producer("classic", False), Producer("raising", True)]
        self.attempts: list[Attempt] = []

    def live(self) -> None:
        """One life of a broker, up to its crash."""
        try:
            broker = self.open()
            if self.random.random() < 0.9:
                self.disk.die_after(self.random.randrange(150))
            for _ in range(STEPS):
                self.step(broker, self.random.choice(self.producers))
        except Died:
            pass
        self.crash()

    def open(self) -> TransactionSimulation:
        deferred = self.random.random() < 0.5
        broker = TransactionSimulation(self.disk, flush=self.flush, deferred=deferred)
        broker.run(broker.coordinator.recover())
        return broker

    def crash(self) -> None:
        if self.flush is Flush.ACK and self.random.random() < 0.7:
            self.disk = self.disk.after_power_loss(self.random)
        else:
            self.disk = self.disk.after_kill()
        for producer in self.producers:
            # Whether a client notices the crash, or goes on with the next broker, is open.
            if self.random.random() < 0.5:
                producer.forget()

    def step(self, broker: TransactionSimulation, producer: Producer) -> None:
        try:
            self.act(broker, producer)
        except TransactionError:
            producer.forget()
        except LogError:
            producer.forget()

    def act(self, broker: TransactionSimulation, producer: Producer) -> None:
        random = self.random
        chance = random.random()
        if chance < 0.05:
            for log in broker.logs.values():
                log.checkpoint()
        elif chance < 0.08:
            broker.timers.advance(TIMEOUT_MS / 1000 * random.random())
        elif producer.identity is None or chance < 0.12:
            producer.attempt = None
            producer.take(broker.run(broker.initialize(producer.name)))
        elif producer.attempt is not None and producer.attempt.asked is not None:
            self.end(broker, producer, commit=producer.attempt.asked)
        elif producer.attempt is None or chance < 0.6:
            self.write(broker, producer)
        else:
            self.end(broker, producer, commit=chance < 0.9)

    def write(self, broker: TransactionSimulation, producer: Producer) -> None:
        assert producer.identity is not None
        if producer.attempt is None:
            producer.attempt = Attempt(f"<{len(self.attempts)}>".encode())
            self.attempts.append(producer.attempt)
        attempt = producer.attempt
        if self.random.random() < 0.2 and attempt.offset is None:
            where = TopicPartition("input", self.attempts.index(attempt))
            broker.send_offset(producer.name, producer.identity, where, 7)
            attempt.offset = where
            return
        where = self.random.choice(PARTITIONS)
        sequence = producer.sequences.get(where, 0)
        write = broker.produce_and_add if producer.raises_epoch else broker.add_and_produce
        write(producer.name, producer.identity, where, sequence, attempt.token)
        producer.sequences[where] = sequence + 1
        attempt.written.add(where)

    def end(self, broker: TransactionSimulation, producer: Producer, *, commit: bool) -> None:
        attempt, identity = producer.attempt, producer.identity
        assert attempt is not None
        assert identity is not None
        attempt.asked = commit
        producer.take(
            broker.run(
                broker.end(producer.name, identity, commit=commit, raises=producer.raises_epoch)
            )
        )
        attempt.acknowledged = commit
        producer.attempt = None

    def check(self) -> None:
        """A broker that starts now ends what is open, and then shows whole transactions only."""
        broker = self.open()
        broker.timers.advance(TIMEOUT_MS / 1000)
        while broker.sync_one():
            pass
        assert not list(broker.open_transactions())
        for log in broker.logs.values():
            assert log.last_stable_offset == log.high_watermark == log.end_offset
        assert not any(record.state.is_decided for record in broker.store)
        assert not broker.offsets.pending(GROUP)
        seen = {where: set(broker.committed(where)) for where in PARTITIONS}
        for attempt in self.attempts:
            self.check_attempt(broker, attempt, seen)
        self.disk = self.disk.after_kill()

    def check_attempt(
        self,
        broker: TransactionSimulation,
        attempt: Attempt,
        seen: dict[TopicPartition, set[bytes]],
    ) -> None:
        visible = {where for where, values in seen.items() if attempt.token in values}
        applied = attempt.offset is not None and attempt.offset in broker.offsets.fetch(GROUP)
        whole = attempt.written <= visible and applied == (attempt.offset is not None)
        nothing = not visible and not applied
        if attempt.acknowledged:
            assert whole, f"lost a part of {attempt}: visible in {visible}"
        elif not attempt.asked:
            assert nothing, f"shows what was not committed of {attempt}: in {visible}"
        else:
            assert whole or nothing, f"shows a part of {attempt}: in {visible}"


@pytest.mark.parametrize("flush", [Flush.ACK, Flush.OS])
@pytest.mark.parametrize("seed", range(25))
def test_every_transaction_is_whole_or_not_there(seed: int, flush: Flush) -> None:
    world = World(seed, flush)
    for _ in range(LIVES):
        world.live()
        world.check()
    assert any(attempt.acknowledged for attempt in world.attempts)
