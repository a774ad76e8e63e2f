"""Kafka Streams, exactly once: a count with a store, killed in the middle, misses nothing."""

from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from headrace.testing.kafka_jars import STREAMS
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
    write_in_transactions,
)
from tests.clients.librdkafka import TIMEOUT_SECONDS
from tests.clusters import Cluster

pytestmark = [pytest.mark.apache_kafka, pytest.mark.slow, pytest.mark.timeout(240)]

PROGRAM = Path(__file__).parent / "CountDigits.java"
RECORDS = 200
"""In each partition."""


@pytest.fixture(autouse=True)
def _streams() -> None:
    if reason := java_programs_unavailable(STREAMS):
        pytest.skip(reason)


def test_killed_streams_count_every_record_once(ground: Ground, fresh_name: str, tmp_path: Path):
    random = Random(fresh_name)
    source, target = f"{fresh_name}-source", f"{fresh_name}-target"
    create_topics(ground.cluster, [source, target])
    written = write_in_transactions(ground.cluster, source, RECORDS, random)
    program = compile_java(PROGRAM, STREAMS, tmp_path)
    counting = Supervisor(
        [*program, ground.cluster.bootstrap, source, target, fresh_name, str(tmp_path / "state")],
        # Its state directory is locked while it lives, so it is never superseded.
        fates(random, 2, longest=PARTITIONS * RECORDS // 2, superseded=0),
        tmp_path / "streams.log",
    )
    count = PARTITIONS * RECORDS
    with running([counting]):
        await_records(ground, target, count, [random.randrange(count)])
    _check_that_consumed_records_were_deleted(ground.cluster, f"{fresh_name}-digits-repartition")
    expected = _digits(written)
    found = _values(contents(ground.cluster, target, "read_committed"))
    assert found == {digit: _counts_up_to(number) for digit, number in expected.items()}
    _check_changelog(ground.cluster, f"{fresh_name}-counts-changelog", expected)


def _digits(written: Contents) -> Counter[bytes]:
    return Counter(
        record.value[-1:] for part in written.values() for record in part if record.value
    )


def _counts_up_to(number: int) -> list[bytes]:
    return [b"%d" % count for count in range(1, number + 1)]


def _values(found: Contents) -> dict[bytes, list[bytes]]:
    """The values of each key, in order."""
    values: dict[bytes, list[bytes]] = defaultdict(list)
    for records in found.values():
        for record in records:
            assert record.key is not None
            assert record.value is not None
            values[record.key].append(record.value)
    return dict(values)


def _check_that_consumed_records_were_deleted(cluster: Cluster, topic: str) -> None:
    """Streams has had the records deleted from its repartition topic once it had committed them."""
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    with Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused"}) as reader:
        starts = [reader.get_watermark_offsets(one, TIMEOUT_SECONDS)[0] for one in places]
    assert any(start > 0 for start in starts)


def _check_changelog(cluster: Cluster, topic: str, expected: Counter[bytes]) -> None:
    """The store's changelog is to be compacted, and ends with the final counts."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    with AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        settings = admin.describe_configs([resource])[resource].result(TIMEOUT_SECONDS)
    assert settings["cleanup.policy"].value == "compact"
    latest = _values(contents(cluster, topic, "read_committed"))
    assert {digit: int.from_bytes(counts[-1]) for digit, counts in latest.items()} == expected
