"""Where scenarios take place: a cluster that other tests use too, or one that may be killed."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from confluent_kafka import TopicPartition

from tests.clients.exactly_once.programs import Supervisor
from tests.clients.exactly_once.topics import PARTITIONS, follow
from tests.clients.librdkafka import consumer
from tests.clusters import HEADRACE, Cluster, HeadraceProcess, headrace_process


@dataclass(frozen=True)
class Ground:
    """A cluster, and its process if that may be killed."""

    cluster: Cluster
    broker: HeadraceProcess | None


@contextlib.contextmanager
def ground_beside(cluster: Cluster) -> Iterator[Ground]:
    """The session's cluster if it is Apache Kafka, or a new one that is Headrace."""
    if cluster.name != HEADRACE:
        yield Ground(cluster, None)
        return
    with headrace_process() as broker:
        yield Ground(broker.cluster, broker)


@contextlib.contextmanager
def running(supervisors: Sequence[Supervisor]) -> Iterator[None]:
    """The programs at work; on a failure, what they have complained of."""
    try:
        for supervisor in supervisors:
            supervisor.start()
        yield
    except BaseException as error:
        for supervisor in supervisors:
            error.add_note(f"{supervisor.runs} runs, ending with:\n{supervisor.errors()}")
        raise
    finally:
        for supervisor in supervisors:
            supervisor.stop()


def await_records(ground: Ground, topic: str, count: int, kills: Sequence[int]) -> None:
    """Wait for so many committed records; kill the broker whenever one of these counts is seen."""
    pending = sorted(kills)
    settings = {"isolation.level": "read_committed", "fetch.wait.max.ms": 50}
    seen = 0
    with consumer(ground.cluster, "unused", settings) as reader:
        reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        for _ in follow(reader):
            seen += 1
            if seen == count:
                return
            if ground.broker is not None and pending and seen >= pending[0]:
                del pending[0]
                ground.broker.kill()
                ground.broker.start()
    raise AssertionError(f"only {seen} of {count} records came to {topic}")
