"""Write the golden batches anew: `python -m tests.records.golden.generate`.

Real clients send `records.py` to a real Apache Kafka, once per codec, and what arrived in its
segment files becomes `<client>-<codec>.hex`. Kafka stores a producer's compressed bytes unchanged.
"""

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.records import Record, iterate_headers
from headrace.testing.apache_kafka import ApacheKafka
from headrace.testing.kafka_jars import classpath, java_program
from tests.records.golden.records import expected

HERE = Path(__file__).parent
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_LINGER_MS = 1000
_BATCH_BYTES = 900_000


def main() -> None:
    """Replace every golden batch."""
    with tempfile.TemporaryDirectory() as data:
        # The records are old enough for Kafka to delete them before they are read.
        properties = {"log.dirs": data, "log.retention.ms": "-1"}
        _generate(Path(data), properties)


def _generate(data: Path, properties: dict[str, str]) -> None:
    with ApacheKafka(properties=properties) as kafka:
        for client, send in CLIENTS.items():
            for codec in CODECS:
                topic = f"{client}-{codec}"
                _create(kafka.bootstrap, topic)
                send(kafka.bootstrap, topic, codec, expected(codec))
                _save(data, topic)
        _create(kafka.bootstrap, "librdkafka-transaction")
        _send_in_transaction(kafka.bootstrap, "librdkafka-transaction", expected("none"))
        _save(data, "librdkafka-transaction", batches=2)


def _create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    time.sleep(1)


def _save(data: Path, topic: str, batches: int = 1) -> None:
    deadline = time.monotonic() + 30
    # A transaction is over for its producer before its marker is in the log.
    while len(list(iterate_headers(_stored(data, topic)))) < batches:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic} never got {batches} batches")
        time.sleep(0.1)
    text = _stored(data, topic).hex()
    lines = [text[start : start + 96] for start in range(0, len(text), 96)]
    (HERE / f"{topic}.hex").write_text("\n".join(lines) + "\n")


def _stored(data: Path, topic: str) -> bytes:
    segments = sorted((data / f"{topic}-0").glob("*.log"))
    return b"".join(segment.read_bytes() for segment in segments)


def _send_with_librdkafka(
    bootstrap: str, topic: str, codec: str, records: Sequence[Record]
) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": _LINGER_MS}
    )
    _produce_all(producer, topic, records)
    producer.flush(30)


def _send_in_transaction(bootstrap: str, topic: str, records: Sequence[Record]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "golden"})
    producer.init_transactions(30)
    producer.begin_transaction()
    _produce_all(producer, topic, records)
    producer.commit_transaction(30)


def _produce_all(producer: Producer, topic: str, records: Sequence[Record]) -> None:
    for record in records:
        producer.produce(
            topic,
            key=record.key,
            value=record.value,
            timestamp=record.timestamp or 0,
            headers=list(record.headers),
            partition=0,
        )


def _send_with_aiokafka(bootstrap: str, topic: str, codec: str, records: Sequence[Record]) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            linger_ms=_LINGER_MS,
            max_batch_size=_BATCH_BYTES,
        )
        async with producer:
            for record in records:
                await producer.send(
                    topic,
                    key=record.key,
                    value=record.value,
                    timestamp_ms=record.timestamp,
                    headers=list(record.headers),
                    partition=0,
                )
            await producer.flush()

    asyncio.run(send())


def _send_with_java(bootstrap: str, topic: str, codec: str, records: Sequence[Record]) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        for record in records:
            headers = [f"{_hex(name.encode())}={_hex(value)}" for name, value in record.headers]
            fields = [str(record.timestamp), _hex(record.key), _hex(record.value), *headers]
            print(*fields, file=file, flush=True)
        source = str(HERE / "WriteGolden.java")
        command = [java_program(), "-cp", classpath(), source, bootstrap, topic, codec, file.name]
        subprocess.run(command, check=True)


def _hex(data: bytes | None) -> str:
    return "-" if data is None else data.hex()


CLIENTS: dict[str, Callable[[str, str, str, Sequence[Record]], None]] = {
    "librdkafka": _send_with_librdkafka,
    "java": _send_with_java,
    "aiokafka": _send_with_aiokafka,
}

if __name__ == "__main__":
    main()
