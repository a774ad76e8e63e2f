"""Copies a topic with aiokafka, in transactions, until it is killed.

Arguments and output are those of `confluent_copier`, except for the group protocol.
"""

import asyncio
import itertools
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

BATCH_SIZE = 10
ABORT_EVERY = 7
"""So often it changes its mind before the commit."""


async def copy(bootstrap: str, source: str, target: str, group: str, name: str) -> None:
    """Copy batch after batch.

    This client asks for offsets without minding open transactions, so the producer comes first: its
    start ends what a predecessor left open. Nor does it name its generation when it adds offsets to
    a transaction, so it takes its partitions itself and lets nobody share them.
    """
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        fetch_max_wait_ms=50,
    )
    async with producer, consumer:
        numbers = await producer.partitions_for(source)
        consumer.assign([TopicPartition(source, number) for number in numbers])
        print("ready", flush=True)
        for number in itertools.count(1):
            fetched = await consumer.getmany(timeout_ms=50, max_records=BATCH_SIZE)
            if not fetched:
                continue
            give_up = number % ABORT_EVERY == 0
            await hand_on(producer, target, group, fetched, give_up=give_up)
            if give_up:
                await rewind(consumer)


async def hand_on(
    producer: AIOKafkaProducer,
    target: str,
    group: str,
    fetched: dict[TopicPartition, list[ConsumerRecord]],
    *,
    give_up: bool,
) -> None:
    """Write the records and the offsets after them in one transaction."""
    await producer.begin_transaction()
    print("begun", flush=True)
    for place, records in fetched.items():
        for record in records:
            await producer.send(target, record.value, record.key, partition=place.partition)
    await producer.flush()
    print("written", flush=True)
    reached = {place: records[-1].offset + 1 for place, records in fetched.items()}
    await producer.send_offsets_to_transaction(reached, group)
    print("offsets added", flush=True)
    if give_up:
        await producer.abort_transaction()
        print("aborted", flush=True)
    else:
        await producer.commit_transaction()
        print("committed", flush=True)


async def rewind(consumer: AIOKafkaConsumer) -> None:
    """Read again what was not committed."""
    for place in consumer.assignment():
        committed = await consumer.committed(place)
        if committed is None:
            await consumer.seek_to_beginning(place)
        else:
            consumer.seek(place, committed)


if __name__ == "__main__":
    asyncio.run(copy(*sys.argv[1:]))
