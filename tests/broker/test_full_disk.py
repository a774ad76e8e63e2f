"""A full disk: producers are told, readers go on, and writing resumes when there is room."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.process import BrokerProcess

DISK_BYTES = 16 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    mountpoint = tmp_path / "disk"
    mountpoint.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(mountpoint)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("a small disk needs the mount command")
    if mounted.returncode:
        pytest.skip(f"a small disk needs the right to mount: {mounted.stderr.strip()}")
    try:
        yield mountpoint
    finally:
        subprocess.run(["umount", "--lazy", str(mountpoint)], check=True)


def test_a_full_disk_refuses_writers_serves_readers_and_recovers(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(8 << 20))
    broker = BrokerProcess(small_disk / "data")
    with broker.running():
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("events", 1)])["events"].result(10)
        outcomes: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            outcomes.append(error)

        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "linger.ms": 0,
                "retries": 0,
                "enable.idempotence": False,
                "log_level": 0,
            }
        )
        for _ in range(24):
            producer.produce("events", bytes(500_000), on_delivery=delivered)
            assert producer.flush(20) == 0
        refused = [error for error in outcomes if error is not None]
        assert refused
        assert {error.code() for error in refused} == {KafkaError.KAFKA_STORAGE_ERROR}
        assert len(outcomes) - len(refused) > 5

        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition("events", 0, 0)])
        _, end = consumer.get_watermark_offsets(TopicPartition("events", 0), timeout=10)
        assert end == len(outcomes) - len(refused)
        read = 0
        while read < end:
            read += len(consumer.consume(100, timeout=10))

        ballast.unlink()
        producer.produce("events", b"room again", on_delivery=delivered)
        assert producer.flush(20) == 0
        assert outcomes[-1] is None
        (message,) = consumer.consume(1, timeout=10)
        assert message.value() == b"room again"
        assert message.offset() == end
        consumer.close()
        assert broker.stop() == 0
        broker.start()
