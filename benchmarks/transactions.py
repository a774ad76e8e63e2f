"""Transactions beside Apache Kafka's: `make bench NAME=transactions`.

One producer of confluent-kafka, that is librdkafka, begins a transaction, writes a hundred records
and commits, and only then begins the next. Both brokers run without fsync; Headrace with fsync,
which is its own default, is measured in the same rounds and reported in a row of its own. So is a
transaction that also commits offsets, as every copy loop's does.
"""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks import load
from benchmarks.command import Options, command
from benchmarks.experiment import Experiment, Figures, Measure, run
from benchmarks.peers import (
    APACHE_KAFKA,
    HEADRACE,
    HEADRACE_FSYNC,
    Fleet,
    Launch,
    Server,
    launch_apache_kafka,
    launch_headrace,
    launch_headrace_fsync,
)
from benchmarks.report import Better, Row

_LAUNCHES: dict[str, Launch] = {
    HEADRACE: launch_headrace,
    APACHE_KAFKA: launch_apache_kafka,
    HEADRACE_FSYNC: launch_headrace_fsync,
}
_RECORDS = 100
_VALUE = b"x" * 100
_PARTITIONS = 4
_TIMEOUT_SECONDS = 60.0

Finish = Callable[[Producer], None]
"""What a transaction does between its records and its commit."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    rounds: int
    transactions: int


FULL = Scale(rounds=5, transactions=500)
QUICK = Scale(rounds=2, transactions=50)


def experiments(fleet: Fleet, scale: Scale) -> list[Experiment]:
    """Everything that is compared, in the order in which it runs."""
    return [
        _experiment(fleet, scale, "transactions_100x100B", 1, _nothing_more),
        _experiment(fleet, scale, "transactions_4_partitions", _PARTITIONS, _nothing_more),
        _experiment(fleet, scale, "transactions_with_offsets", 1, _send_offsets),
    ]


def main() -> None:
    """Run the benchmark from the command line."""
    options = Options.parse("Headrace's transactions beside Apache Kafka's.")
    with command(), Fleet() as fleet:
        run("transactions", experiments(fleet, QUICK if options.quick else FULL), options)


def _experiment(
    fleet: Fleet,
    scale: Scale,
    metric: str,
    partitions: int,
    finishing: Callable[[Server, str], Finish],
) -> Experiment:
    def measure(launch: Launch) -> Figures:
        server = fleet.server(launch)
        with load.fresh_topic(server, partitions=partitions) as topic:
            finish = finishing(server, topic)
            return {metric: _rate(server, topic, partitions, finish, scale.transactions)}

    sides: dict[str, Measure] = {
        side: partial(measure, launch) for side, launch in _LAUNCHES.items()
    }
    return Experiment(
        metric,
        sides,
        (
            Row(metric, "txn/s", Better.HIGHER, metric, HEADRACE, APACHE_KAFKA, 1.0),
            Row(f"{metric}_fsync", "txn/s", Better.HIGHER, metric, HEADRACE_FSYNC, APACHE_KAFKA),
        ),
        rounds=scale.rounds,
    )


def _rate(server: Server, topic: str, partitions: int, finish: Finish, count: int) -> float:
    """Transactions per second, each committed before the next one begins."""
    producer = Producer(
        {"bootstrap.servers": server.bootstrap, "transactional.id": f"bench-{uuid.uuid4()}"}
    )
    producer.init_transactions(_TIMEOUT_SECONDS)
    # The first one waits for metadata and for connections.
    _transact(producer, topic, partitions, finish)
    began = time.monotonic()
    for _ in range(count):
        _transact(producer, topic, partitions, finish)
    return count / (time.monotonic() - began)


def _transact(producer: Producer, topic: str, partitions: int, finish: Finish) -> None:
    producer.begin_transaction()
    for number in range(_RECORDS):
        producer.produce(topic, _VALUE, partition=number % partitions)
    finish(producer)
    producer.commit_transaction(_TIMEOUT_SECONDS)


def _nothing_more(server: Server, topic: str) -> Finish:
    return lambda producer: None


def _send_offsets(server: Server, topic: str) -> Finish:
    """Commit an offset with every transaction, on behalf of a consumer that assigned itself."""
    consumer = Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": f"bench-{uuid.uuid4()}"}
    )
    consumer.assign([TopicPartition(topic, 0)])
    offsets = [TopicPartition(topic, 0, 0)]

    def finish(producer: Producer) -> None:
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(offsets, metadata, _TIMEOUT_SECONDS)

    return finish


if __name__ == "__main__":
    main()
