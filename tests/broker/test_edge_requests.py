"""Requests at the edges of what the protocol allows, answered and not stumbled over."""

import asyncio
import gc
import struct
import uuid
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker.handlers.fetch import MOST_BYTES, Fetch
from headrace.broker.server import Server
from headrace.records import build_batch
from tests.broker.raw_client import Connect, request_frame, request_module, until
from tests.broker.test_connections import FETCH, create, fetch, produce

ID = uuid.UUID(int=7)
LONG_NAME = "n" * 32_767


def produce_to(version: int, partition: int = 0, **topic: Any) -> Any:
    module = request_module("produce", version)
    records = bytes(build_batch([(None, b"value")], timestamp=1_000))
    return module.ProduceRequest(
        acks=-1,
        timeout=timedelta(seconds=1),
        transactional_id=None,
        topic_data=(
            module.TopicProduceData(
                **topic,
                partition_data=(module.PartitionProduceData(index=partition, records=records),),
            ),
        ),
    )


async def test_a_fetch_never_makes_a_reply_too_large_for_its_length_field(
    server: Server, connect: Connect
) -> None:
    client = await connect()
    await create(client, "large")
    await client.ask(produce("large", bytes(1_000_000)))
    request = fetch("large", 0, max_bytes=2**31 - 1)
    (partition,) = request.topics[0].partitions
    many = FETCH.FetchRequest(
        max_wait=timedelta(0),
        min_bytes=1,
        max_bytes=2**31 - 1,
        topics=(FETCH.FetchTopic(topic="large", partitions=(partition,) * 2_200),),
        forgotten_topics_data=(),
    )
    client.writer.write(request_frame(many))
    (size,) = struct.unpack(">i", await client.reader.readexactly(4))
    assert MOST_BYTES // 2 < size < MOST_BYTES + (1 << 20)


@pytest.mark.parametrize("version", [8, 9])
async def test_a_topic_name_of_any_length_is_refused_by_its_code(
    server: Server, connect: Connect, version: int
) -> None:
    client = await connect()
    produced = await client.ask(produce_to(version, name=LONG_NAME))
    (result,) = produced.responses[0].partition_responses
    assert result.error_code is ErrorCode.unknown_topic_or_partition
    topics = request_module("create_topics", 4)
    wanted = topics.CreatableTopic(
        name=LONG_NAME, num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    created = await client.ask(topics.CreateTopicsRequest(topics=(wanted,)))
    assert created.topics[0].error_code is ErrorCode.invalid_topic_exception


async def test_a_missing_partition_of_a_topic_known_by_id_is_not_a_missing_topic(
    server: Server, connect: Connect
) -> None:
    client = await connect()
    await create(client, "known")
    topic = server.core.topics.get("known")
    assert topic is not None
    produced = await client.ask(produce_to(13, partition=7, topic_id=topic.id))
    (result,) = produced.responses[0].partition_responses
    assert result.error_code is ErrorCode.unknown_topic_or_partition
    module = request_module("fetch", 13)
    part = module.FetchPartition(partition=7, fetch_offset=0, partition_max_bytes=100)
    fetched = await client.ask(
        module.FetchRequest(
            max_wait=timedelta(0),
            min_bytes=1,
            max_bytes=100,
            topics=(module.FetchTopic(topic_id=topic.id, partitions=(part,)),),
            forgotten_topics_data=(),
        )
    )
    code = fetched.responses[0].partitions[0].error_code
    assert code is ErrorCode.unknown_topic_or_partition


async def test_a_cursor_before_the_first_partition_begins_at_the_first(
    server: Server, connect: Connect
) -> None:
    client = await connect()
    await create(client, "paged")
    module = request_module("describe_topic_partitions", 0)
    response = await client.ask(
        module.DescribeTopicPartitionsRequest(
            topics=(module.TopicRequest(name="paged"),),
            response_partition_limit=10,
            cursor=module.Cursor(topic_name="paged", partition_index=-5),
        )
    )
    assert [each.partition_index for each in response.topics[0].partitions] == [0]


@pytest.mark.parametrize(("name", "topic_id"), [(None, None), (None, ID), ("named", ID)])
async def test_a_topic_is_not_asked_for_by_its_id_before_that_is_possible(
    server: Server, connect: Connect, name: str | None, topic_id: uuid.UUID | None
) -> None:
    client = await connect()
    module = request_module("metadata", 10)
    response = await client.ask(
        module.MetadataRequest(
            topics=(module.MetadataRequestTopic(name=name, topic_id=topic_id),),
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
    )
    assert response.topics[0].error_code is ErrorCode.invalid_request


async def test_a_topic_named_twice_is_described_once(server: Server, connect: Connect) -> None:
    client = await connect()
    await create(client, "once")
    module = request_module("metadata", 12)
    topic = module.MetadataRequestTopic(name="once", topic_id=None)
    response = await client.ask(
        module.MetadataRequest(topics=(topic,) * 3, include_topic_authorized_operations=False)
    )
    assert [each.name for each in response.topics] == ["once"]


async def test_a_policy_that_shows_unsynced_records_wakes_those_who_wait_for_them(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect()
    await create(client, "relaxed")
    topic = server.core.topics.get("relaxed")
    assert topic is not None
    server.core.topics.configure(topic, {"flush": "ack"})
    monkeypatch.setattr(server.core.commits, "request", lambda target, waiter=None: None)
    await client.ask(produce("relaxed", b"unsynced", acks=1))
    waiting = fetch("relaxed", 0, wait=60)
    client.writer.write(request_frame(waiting, 1))
    await until(lambda: topic.partitions[0]._wakes)
    server.core.topics.configure(topic, {"flush": "os"})
    async with asyncio.timeout(5):
        response = client.read(waiting, await client.receive(), 1)
    assert response.responses[0].partitions[0].high_watermark == 1
    server.core.topics.configure(topic, {"flush": "ack"})
    assert topic.partitions[0].log.high_watermark == 1


async def test_a_reader_who_waits_for_many_bytes_is_not_answered_with_few(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = await connect(), await connect()
    await create(client, "patient")
    topic = server.core.topics.get("patient")
    assert topic is not None
    server.core.topics.configure(topic, {"flush": "ack"})
    (partition,) = topic.partitions
    monkeypatch.setattr(server.core.commits, "request", lambda target, waiter=None: None)
    waiting = fetch("patient", 0, wait=60, min_bytes=2_000)
    client.writer.write(request_frame(waiting, 1))
    await until(lambda: partition._wakes)
    await other.ask(produce("patient", bytes(500), acks=1))
    await other.ask(produce("patient", bytes(500), acks=1))
    # The first sync began before the second batch came, and ends after it.
    partition.advance(1)
    partition.advance(2)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.reader.read(1), 0.05)
    await other.ask(produce("patient", bytes(5_000), acks=1))
    partition.advance(3)
    async with asyncio.timeout(5):
        response = client.read(waiting, await client.receive(), 1)
    assert response.responses[0].partitions[0].high_watermark == 3


async def test_a_long_poll_leaves_nothing_for_the_garbage_collector(
    server: Server, connect: Connect
) -> None:
    client, other, gone = [await connect() for _ in range(3)]
    await create(client, "tidy")
    gc.collect()
    gc.disable()
    try:
        waiting = fetch("tidy", 0, wait=60)
        client.writer.write(request_frame(waiting, 1))
        gone.writer.write(request_frame(waiting, 1))
        await until(lambda: sum(type(each) is Fetch for each in gc.get_objects()) == 2)
        await gone.close()
        await other.ask(produce("tidy", b"wake up"))
        await client.receive()
        await until(lambda: not any(type(each) is Fetch for each in gc.get_objects()))
    finally:
        gc.enable()
