"""Idempotent producers: a retry is recognised, a gap and an old incarnation are refused."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from kio.schema.errors import ErrorCode

from headrace.records import build_batch
from tests.clients.librdkafka import eventually, producer, read_values, reader, send
from tests.clients.stored import Appended, append, fetch
from tests.clients.wire import Wire
from tests.clusters import Cluster

TRANSACTION_TIMEOUT = timedelta(seconds=60)
"""Required of every request, used only by transactions."""


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[Wire]:
    with Wire(cluster) as connection:
        yield connection


def identity(wire: Wire) -> tuple[int, int]:
    """A new producer id and its epoch."""

    def granted() -> Any:
        answer = wire.ask(
            "init_producer_id", 1, transactional_id=None, transaction_timeout=TRANSACTION_TIMEOUT
        )
        return answer if answer.error_code is ErrorCode.none else None

    answer = eventually(granted)
    return answer.producer_id, answer.producer_epoch


def sequenced(
    wire: Wire, topic: str, producer_id: int, epoch: int, sequence: int, count: int = 1
) -> Appended:
    batch = build_batch(
        [(None, f"{sequence + number}".encode()) for number in range(count)],
        timestamp=1,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    appended = append(wire, topic, batch)
    assert appended is not None
    return appended


def test_every_producer_gets_an_id_of_its_own(wire: Wire):
    identities = [identity(wire) for _ in range(20)]
    assert len({producer_id for producer_id, _ in identities}) == 20
    assert {epoch for _, epoch in identities} == {0}


def test_a_retried_batch_is_stored_once_and_answered_with_its_offset(wire: Wire, topic: str):
    producer_id, epoch = identity(wire)
    first = sequenced(wire, topic, producer_id, epoch, 0, count=3)
    second = sequenced(wire, topic, producer_id, epoch, 3, count=2)
    retried = [
        sequenced(wire, topic, producer_id, epoch, 0, count=3),
        sequenced(wire, topic, producer_id, epoch, 3, count=2),
    ]
    assert [first.base_offset, second.base_offset] == [0, 3]
    assert [one.base_offset for one in retried] == [0, 3]
    assert {one.error_code for one in retried} == {ErrorCode.none}
    assert fetch(wire, topic, 0).high_watermark == 5


def test_the_last_five_batches_are_remembered(wire: Wire, topic: str):
    producer_id, epoch = identity(wire)
    for sequence in range(6):
        sequenced(wire, topic, producer_id, epoch, sequence)
    remembered = [sequenced(wire, topic, producer_id, epoch, number) for number in range(1, 6)]
    assert [one.base_offset for one in remembered] == [1, 2, 3, 4, 5]
    assert {one.error_code for one in remembered} == {ErrorCode.none}
    forgotten = sequenced(wire, topic, producer_id, epoch, 0)
    assert forgotten.error_code is ErrorCode.out_of_order_sequence_number
    assert fetch(wire, topic, 0).high_watermark == 6


def test_a_gap_in_the_sequence_is_refused(wire: Wire, topic: str):
    producer_id, epoch = identity(wire)
    sequenced(wire, topic, producer_id, epoch, 0)
    gap = sequenced(wire, topic, producer_id, epoch, 2)
    assert gap.error_code is ErrorCode.out_of_order_sequence_number
    assert sequenced(wire, topic, producer_id, epoch, 1).base_offset == 1


def test_an_unknown_producer_may_start_anywhere(wire: Wire, topic: str):
    producer_id, epoch = identity(wire)
    assert sequenced(wire, topic, producer_id, epoch, 77).error_code is ErrorCode.none
    assert sequenced(wire, topic, producer_id, epoch, 78).error_code is ErrorCode.none


def test_a_new_epoch_starts_from_the_beginning_and_ends_the_old_one(wire: Wire, topic: str):
    producer_id, epoch = identity(wire)
    sequenced(wire, topic, producer_id, epoch, 0)
    skipped = sequenced(wire, topic, producer_id, epoch + 1, 5)
    renewed = sequenced(wire, topic, producer_id, epoch + 1, 0)
    stale = sequenced(wire, topic, producer_id, epoch, 1)
    assert skipped.error_code is ErrorCode.out_of_order_sequence_number
    assert renewed.error_code is ErrorCode.none
    assert stale.error_code is ErrorCode.invalid_producer_epoch


def test_the_sequence_wraps_after_the_largest_number(wire: Wire, topic: str):
    producer_id, epoch = identity(wire)
    largest = 2**31 - 1
    assert sequenced(wire, topic, producer_id, epoch, largest - 1, 2).error_code is ErrorCode.none
    assert sequenced(wire, topic, producer_id, epoch, 0, 2).error_code is ErrorCode.none


def test_partitions_have_sequences_of_their_own(cluster: Cluster, wire: Wire, topic: str):
    other = f"{topic}-other"
    send(cluster, other, [b"creates the topic"])
    producer_id, epoch = identity(wire)
    assert sequenced(wire, topic, producer_id, epoch, 0).error_code is ErrorCode.none
    assert sequenced(wire, other, producer_id, epoch, 0).error_code is ErrorCode.none


def test_confluent_kafka_writes_everything_once_and_in_order(cluster: Cluster, topic: str):
    sent = [str(number).encode() for number in range(3_000)]
    deliveries = send(
        cluster, topic, sent, config={"enable.idempotence": True, "batch.num.messages": 20}
    )
    assert [delivery.offset for delivery in deliveries] == list(range(3_000))
    with reader(cluster, topic) as reading:
        assert read_values(reading, 3_000) == sent


async def test_aiokafka_writes_everything_once_and_in_order(cluster: Cluster, topic: str):
    sent = [str(number).encode() for number in range(1_000)]
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap, enable_idempotence=True, max_batch_size=500
    ) as sender:
        deliveries = [await sender.send(topic, value) for value in sent]
        async with asyncio.timeout(20):
            offsets = [(await delivery).offset for delivery in deliveries]
    assert offsets == list(range(1_000))


def test_two_idempotent_producers_do_not_disturb_each_other(cluster: Cluster, topic: str):
    senders = [producer(cluster, {"enable.idempotence": True}) for _ in range(2)]
    errors: list[Any] = []
    for number in range(500):
        for index, sender in enumerate(senders):
            sender.produce(
                topic,
                f"{index}/{number}".encode(),
                partition=0,
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )
            sender.poll(0)
    assert [sender.flush(20) for sender in senders] == [0, 0]
    assert errors == []
    with reader(cluster, topic) as reading:
        values = read_values(reading, 1_000)
    for index in range(2):
        own = [value for value in values if value and value.startswith(b"%d/" % index)]
        assert own == [f"{index}/{number}".encode() for number in range(500)]
