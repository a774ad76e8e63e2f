"""Read, process, write, commit in one transaction, and be killed at any step.

Each client's copy loop runs as programs that are killed, or halted and superseded, at random steps;
the broker is killed too where it is Headrace. What comes out is what went in.
"""

import os
import sys
from collections.abc import Iterable
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
    contents,
    create_topics,
    differences,
    write_in_transactions,
)
from tests.clients.librdkafka import TIMEOUT_SECONDS, consumer, read
from tests.clusters import Cluster

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ROUNDS = int(os.environ.get("COPY_ROUNDS", "1"))
"""How many times as much is copied, and how many times as many kills there are."""

SEED = os.environ.get("COPY_SEED", "")
"""What else the random choices depend on."""

RECORDS = 150 * ROUNDS
"""In each partition."""


@pytest.mark.parametrize(
    ("client", "copiers", "kills"), [("confluent-kafka", 2, 2), ("aiokafka", 1, 2), ("java", 2, 1)]
)
@pytest.mark.timeout(180 * ROUNDS)
def test_a_killed_copy_loop_copies_everything_once(
    ground: Ground, client: str, copiers: int, kills: int, fresh_name: str, tmp_path: Path
):
    random = Random(f"{fresh_name} {SEED}")
    command = _command(client, tmp_path)
    arguments = [] if client == "aiokafka" else ["classic"]
    copy = Copy(ground, fresh_name, random, kills=2 * ROUNDS)
    copy.run(
        Supervisor(
            [*command, *copy.arguments, f"{fresh_name}-{number}", *arguments],
            fates(random, kills * ROUNDS, longest=25, superseded=0.3),
            tmp_path / f"copier-{number}.log",
        )
        for number in range(copiers)
    )
    copy.check()


@pytest.mark.parametrize("client", ["confluent-kafka", "java"])
@pytest.mark.timeout(180 * ROUNDS)
def test_copiers_in_a_consumer_group_of_the_new_kind_copy_everything_once(
    ground: Ground, client: str, fresh_name: str, tmp_path: Path
):
    command = _command(client, tmp_path)
    # Members of such a group learn only from their next heartbeat that the broker was killed.
    copy = Copy(ground, fresh_name, Random(f"{fresh_name} {SEED}"), kills=ROUNDS)
    copy.run(
        Supervisor(
            [*command, *copy.arguments, f"{fresh_name}-{number}", "consumer"],
            [],
            tmp_path / f"copier-{number}.log",
        )
        for number in range(2)
    )
    copy.check()


class Copy:
    """A topic with committed and aborted records, and another that it is copied to."""

    def __init__(self, ground: Ground, name: str, random: Random, *, kills: int) -> None:
        self._ground = ground
        self._group = name
        self._source, self._target = f"{name}-source", f"{name}-target"
        create_topics(ground.cluster, [self._source, self._target])
        self._written = write_in_transactions(ground.cluster, self._source, RECORDS, random)
        self._kills = random.sample(range(PARTITIONS * RECORDS), kills)

    @property
    def arguments(self) -> list[str]:
        """What every copier has to know."""
        return [self._ground.cluster.bootstrap, self._source, self._target, self._group]

    def run(self, copiers: Iterable[Supervisor]) -> None:
        """Let the copiers work until everything has been copied."""
        with running(list(copiers)):
            await_records(self._ground, self._target, PARTITIONS * RECORDS, self._kills)

    def check(self) -> None:
        """Fail unless the copy is exact, the work was not easy, and the offsets say so too."""
        cluster = self._ground.cluster
        copied = contents(cluster, self._target, "read_committed")
        assert differences(copied, self._written) == []
        # Without aborted records in the target, nothing would have been proved.
        everything = contents(cluster, self._target, "read_uncommitted")
        assert sum(map(len, everything.values())) > PARTITIONS * RECORDS
        _check_that_all_was_committed(cluster, self._group, self._source)


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
