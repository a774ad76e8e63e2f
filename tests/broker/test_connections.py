"""What a connection survives, refuses, and answers in order."""

import asyncio
import datetime
import logging
import random
import struct
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker import connection as connection_module
from headrace.broker.server import Server
from headrace.records import build_batch
from tests.broker.raw_client import Connect, RawClient, request_frame, request_module, until

API_VERSIONS = request_module("api_versions", 3)
CREATE_TOPICS = request_module("create_topics", 7)
FETCH = request_module("fetch", 12)
METADATA = request_module("metadata", 12)
PRODUCE = request_module("produce", 9)

HELLO = API_VERSIONS.ApiVersionsRequest(client_software_name="test", client_software_version="1")


def produce(topic: str, value: bytes, acks: int = -1) -> Any:
    batch = build_batch([(None, value)], timestamp=1_000)
    return PRODUCE.ProduceRequest(
        acks=acks,
        timeout=datetime.timedelta(seconds=1),
        transactional_id=None,
        topic_data=(
            PRODUCE.TopicProduceData(
                name=topic,
                partition_data=(PRODUCE.PartitionProduceData(index=0, records=bytes(batch)),),
            ),
        ),
    )


def fetch(
    topic: str, offset: int, wait: float = 0.0, max_bytes: int = 1 << 20, min_bytes: int = 1
) -> Any:
    return FETCH.FetchRequest(
        max_wait=datetime.timedelta(seconds=wait),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=(
            FETCH.FetchTopic(
                topic=topic,
                partitions=(
                    FETCH.FetchPartition(
                        partition=0, fetch_offset=offset, partition_max_bytes=max_bytes
                    ),
                ),
            ),
        ),
        forgotten_topics_data=(),
    )


async def create(client: RawClient, name: str) -> None:
    response = await client.ask(
        CREATE_TOPICS.CreateTopicsRequest(
            topics=(
                CREATE_TOPICS.CreatableTopic(
                    name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
                ),
            )
        )
    )
    assert response.topics[0].error_code is ErrorCode.none


async def test_a_request_may_arrive_byte_by_byte(server: Server, connect: Connect) -> None:
    client = await connect()
    for byte in request_frame(HELLO, 5):
        client.writer.write(bytes((byte,)))
        await client.writer.drain()
        await asyncio.sleep(0)
    response = client.read(HELLO, await client.receive(), 5)
    assert response.error_code is ErrorCode.none


async def test_many_requests_in_one_packet_are_answered_in_order(
    server: Server, connect: Connect
) -> None:
    client = await connect()
    client.writer.write(b"".join(request_frame(HELLO, number) for number in range(300)))
    for number in range(300):
        assert struct.unpack_from(">i", await client.receive()) == (number,)


async def test_a_later_reply_waits_for_an_earlier_long_poll(
    server: Server, connect: Connect
) -> None:
    client = await connect()
    await create(client, "slow")
    other = await connect()
    waiting = fetch("slow", 0, wait=30)
    client.writer.write(request_frame(waiting, 1) + request_frame(HELLO, 2))
    await other.ask(HELLO)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.reader.read(1), 0.05)
    await other.ask(produce("slow", b"wake up"))
    # wait_for consumed nothing: the stream still begins with the fetch's reply.
    response = client.read(waiting, await client.receive(), 1)
    assert response.responses[0].partitions[0].high_watermark == 1
    assert struct.unpack_from(">i", await client.receive()) == (2,)


@pytest.mark.parametrize(
    "junk",
    [
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"\0\0\0\0",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\0\0\0\x02\0\x03",
        struct.pack(">ihhih", 10, 3, 99, 1, -1),
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 12, 3, 0, 1, 500) + b"ab",
        struct.pack(">ihhih", 15, 3, 12, 1, -1) + b"\0\xff\xff\xff\xff",
    ],
    ids=[
        "negative size",
        "huge size",
        "empty request",
        "another protocol",
        "shorter than a header",
        "unknown version",
        "unknown api",
        "client id beyond the end",
        "hostile array",
    ],
)
async def test_a_hostile_frame_closes_only_that_connection_with_one_log_line(
    server: Server, junk: bytes, caplog: pytest.LogCaptureFixture, connect: Connect
) -> None:
    good = await connect()
    bad = await connect()
    with caplog.at_level(logging.WARNING, "headrace.broker"):
        bad.writer.write(junk)
        assert await bad.closed_by_broker()
    assert len(caplog.records) == 1
    assert (await good.ask(HELLO)).error_code is ErrorCode.none
    assert server.metrics.refused_connections == 1


async def test_an_unknown_version_of_api_versions_is_answered_in_version_0(
    server: Server, connect: Connect
) -> None:
    client = await connect()
    client.writer.write(struct.pack(">ihhih", 10, 18, 99, 7, -1))
    frame = await client.receive()
    correlation_id, code, count = struct.unpack_from(">ihi", frame)
    assert (correlation_id, code) == (7, ErrorCode.unsupported_version)
    assert len(frame) == 10 + 6 * count


async def test_random_bytes_never_stop_the_broker(server: Server, connect: Connect) -> None:
    source = random.Random(20_260)
    for _ in range(200):
        client = await connect()
        junk = source.randbytes(source.randrange(1, 200))
        if source.random() < 0.7:
            key = source.choice((0, 1, 2, 3, 8, 9, 10, 11, 18, 19, 32, 75))
            body = struct.pack(">hhih", key, source.randrange(14), 1, -1) + junk
            junk = struct.pack(">i", len(body)) + body
        client.writer.write(junk)
        client.writer.write_eof()
        await client.receive_until_closed()
        await client.close()
    survivor = await connect()
    assert (await survivor.ask(HELLO)).error_code is ErrorCode.none


async def test_one_connection_too_many_is_turned_away(server: Server, connect: Connect) -> None:
    clients = [await connect() for _ in range(50)]
    await asyncio.gather(*(client.ask(HELLO) for client in clients))
    assert await (await connect()).closed_by_broker()
    await clients.pop().close()
    await until(lambda: server.metrics.connections < 50)
    assert (await (await connect()).ask(HELLO)).api_keys


async def test_large_requests_of_many_clients_wait_for_memory_and_all_succeed(
    server: Server, connect: Connect
) -> None:
    clients = [await connect() for _ in range(12)]
    await create(clients[0], "large")
    frames = [request_frame(produce("large", bytes(900_000)), 1) for _ in clients]
    # Every client begins a large request before any client finishes one.
    for client, frame in zip(clients, frames, strict=True):
        client.writer.write(frame[: len(frame) // 2])
        await client.writer.drain()
    await asyncio.sleep(0.05)
    assert server.core.memory.in_use <= server.settings.request_memory
    for client, frame in zip(clients, frames, strict=True):
        client.writer.write(frame[len(frame) // 2 :])
    async with asyncio.timeout(20):
        await asyncio.gather(*(client.receive() for client in clients))
    assert server.core.topics.get("large").partitions[0].log.end_offset == 12  # type: ignore[union-attr]
    assert server.core.memory.in_use == 0


async def test_a_client_that_leaves_in_the_middle_of_a_request_holds_no_memory(
    server: Server, connect: Connect
) -> None:
    client = await connect()
    client.writer.write(struct.pack(">i", 1_000_000) + bytes(100_000))
    await client.writer.drain()
    await until(lambda: server.core.memory.in_use)
    await client.close()
    await until(lambda: not server.core.memory.in_use)


async def test_a_client_stuck_in_the_middle_of_a_request_is_cut_off(
    server: Server, monkeypatch: pytest.MonkeyPatch, connect: Connect
) -> None:
    client = await connect()
    client.writer.write(struct.pack(">i", 1_000_000) + bytes(100_000))
    await until(lambda: server.core.memory.in_use)
    monkeypatch.setattr("headrace.broker.server.STALLED_SECONDS", -1.0)
    server.sweep()
    assert await client.closed_by_broker()
    assert server.core.memory.in_use == 0


async def test_a_consumer_that_does_not_read_is_not_read_from_either(
    server: Server, connect: Connect
) -> None:
    client = await connect()
    await create(client, "unread")
    for _ in range(8):
        await client.ask(produce("unread", bytes(500_000)))
    client.pause_reading()
    request = request_frame(fetch("unread", 0), 1)
    sent = 0
    async with asyncio.timeout(20):
        while True:
            client.writer.write(request * 100)
            sent += 100
            try:
                await asyncio.wait_for(client.writer.drain(), 0.3)
            except TimeoutError:
                break
    (open_connection,) = server._connections
    assert len(open_connection._unanswered) <= connection_module.MAX_UNANSWERED
    other = await connect()
    assert (await other.ask(HELLO)).error_code is ErrorCode.none
    client.writer.transport.abort()


async def test_acks_0_is_not_answered_and_what_fails_closes_the_connection(
    server: Server, connect: Connect
) -> None:
    client = await connect()
    await create(client, "fire")
    client.writer.write(request_frame(produce("fire", b"forget", acks=0), 1))
    client.writer.write(request_frame(HELLO, 2))
    assert struct.unpack_from(">i", await client.receive()) == (2,)
    assert server.core.topics.get("fire").partitions[0].log.end_offset == 1  # type: ignore[union-attr]
    client.writer.write(request_frame(produce("nowhere", b"lost", acks=0), 3))
    assert await client.closed_by_broker()


async def test_a_long_poll_ends_when_its_topic_is_deleted(server: Server, connect: Connect) -> None:
    client = await connect()
    await create(client, "doomed")
    waiting = fetch("doomed", 0, wait=30)
    client.writer.write(request_frame(waiting, 1))
    other = await connect()
    await other.ask(HELLO)
    topic = server.core.topics.get("doomed")
    assert topic is not None
    server.core.delete_topic(topic)
    async with asyncio.timeout(5):
        response = client.read(waiting, await client.receive(), 1)
    code = response.responses[0].partitions[0].error_code
    assert code is ErrorCode.unknown_topic_or_partition


async def test_stopping_answers_nobody_forever_and_closes_every_connection(
    server: Server, connect: Connect
) -> None:
    client = await connect()
    await create(client, "quiet")
    client.writer.write(request_frame(fetch("quiet", 0, wait=60), 1))
    await asyncio.sleep(0.05)
    async with asyncio.timeout(5):
        await server.stop()
    assert await client.closed_by_broker()
    server.stop = lambda: asyncio.sleep(0)  # type: ignore[method-assign]


async def test_metadata_names_the_address_by_which_the_client_came(
    server: Server, connect: Connect
) -> None:
    client = await connect()
    response = await client.ask(
        METADATA.MetadataRequest(topics=(), include_topic_authorized_operations=False)
    )
    broker = response.brokers[0]
    assert f"{broker.host}:{broker.port}" == server.address
