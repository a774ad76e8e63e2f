"""Read, process, write, commit in one transaction, and be killed at any step.

Each client's copy loop runs as programs that are killed, or halted and superseded, at random steps;
the broker is killed too where it is Headrace. What comes out is what went in.
"""

import os
import sys
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.testing.kafka_jars import KAFKA
from tests.clients.exactly_once.ground import Ground, await_records, running
from tests.clients.exactly_once.programs import (
    Supervisor,
    compile_java,
    fates,
    java_programs_unavailable,
)
from tests.clients.exactly_once.topics import (
    PARTITIONS,
    Contents,
    contents,
    create_topics,
    differences,
    write_in_transactions,
)
from tests.clients.librdkafka import TIMEOUT_SECONDS, consumer, read
from tests.clusters import Cluster

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ROUNDS = int(os.environ.get("HEADRACE_COPY_ROUNDS", "1"))
"""How many times as much is copied, and how many times as many kills there are."""

RECORDS = 150 * ROUNDS
"""In each partition."""


@pytest.mark.parametrize(
    ("client", "copiers"), [("confluent-kafka", 2), ("aiokafka", 1), ("java", 2)]
)
@pytest.mark.timeout(120 * ROUNDS)
def test_a_killed_copy_loop_copies_everything_once(
    ground: Ground, client: str, copiers: int, fresh_name: str, tmp_path: Path
):
    command = _command(client, tmp_path)
    random = Random(fresh_name)
    source, target = f"{fresh_name}-source", f"{fresh_name}-target"
    create_topics(ground.cluster, [source, target])
    written = write_in_transactions(ground.cluster, source, RECORDS, random)
    supervisors = [
        Supervisor(
            [*command, ground.cluster.bootstrap, source, target, fresh_name, f"{fresh_name}-{one}"],
            fates(random, 2 * ROUNDS, longest=25, superseded=0.3),
            tmp_path / f"copier-{one}.log",
        )
        for one in range(copiers)
    ]
    count = PARTITIONS * RECORDS
    with running(supervisors):
        await_records(ground, target, count, random.sample(range(count), 2 * ROUNDS))
    copied = contents(ground.cluster, target, "read_committed")
    assert differences(copied, written) == []
    _check_that_some_copies_were_aborted(ground.cluster, target, copied)
    _check_that_all_was_committed(ground.cluster, fresh_name, source)


def _check_that_some_copies_were_aborted(cluster: Cluster, target: str, copied: Contents) -> None:
    """Without aborted records in the target, nothing would have been proved."""
    everything = contents(cluster, target, "read_uncommitted")
    assert sum(map(len, everything.values())) > sum(map(len, copied.values()))


def _check_that_all_was_committed(cluster: Cluster, group: str, source: str) -> None:
    """The group stands behind the last record of every partition."""
    places = [TopicPartition(source, number) for number in range(PARTITIONS)]
    with Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group}) as reader:
        committed = [place.offset for place in reader.committed(places, TIMEOUT_SECONDS)]
    with consumer(cluster, "unused", {"isolation.level": "read_committed"}) as reader:
        reader.assign([TopicPartition(source, n, offset - 1) for n, offset in enumerate(committed)])
        last = {message.partition(): message.value() for message in read(reader, PARTITIONS)}
    assert last == {n: f"kept {n} {RECORDS - 1}".encode() for n in range(PARTITIONS)}


def _command(client: str, directory: Path) -> list[str]:
    """How to run the client's copier."""
    if client == "java":
        if reason := java_programs_unavailable(KAFKA):
            pytest.skip(reason)
        return compile_java(HERE / "CopyLoop.java", KAFKA, directory)
    return [sys.executable, str(HERE / f"{client.partition('-')[0]}_copier.py")]
