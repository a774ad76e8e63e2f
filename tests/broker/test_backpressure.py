"""Slow disks, slow clients and bounded memory: whoever is too fast waits, and nobody is dropped."""

import asyncio
import errno
import logging
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker import connection as connection_module
from headrace.broker import server as server_module
from headrace.broker.outbox import PIECE
from headrace.broker.partition import Partition
from headrace.broker.server import Server
from headrace.log.slices import LogSlice
from headrace.settings import BrokerSettings
from tests.broker.raw_client import Connect, RawClient, request_frame, until
from tests.broker.test_connections import HELLO, create, fetch, produce


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Syncs wait until the event is set."""
    ready = threading.Event()
    flush = Partition.flush

    def wait_and_flush(partition: Partition) -> int:
        ready.wait(20)
        return flush(partition)

    monkeypatch.setattr(Partition, "flush", wait_and_flush)
    yield ready
    ready.set()


@pytest.fixture
async def syncing(server: Server, connect: Connect) -> RawClient:
    """A client of a topic `synced` whose batches are synced before they are acknowledged."""
    client = await connect()
    await create(client, "synced")
    topic = server.core.topics.get("synced")
    assert topic is not None
    server.core.topics.configure(topic, {"flush": "ack"})
    return client


async def test_a_producer_that_outruns_the_disk_is_slowed_and_not_dropped(
    server: Server,
    syncing: RawClient,
    slow_disk: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "MAX_UNANSWERED", 8)
    (connection,) = server._connections
    frames = [request_frame(produce("synced", bytes(100)), number) for number in range(100)]
    large = request_frame(produce("synced", bytes(500_000)), 100)
    syncing.writer.write(b"".join(frames) + large)
    await until(lambda: not connection._reading)
    assert len(connection._unanswered) == 8
    monkeypatch.setattr(server_module, "STALLED_SECONDS", -1.0)
    server.sweep()
    slow_disk.set()
    async with asyncio.timeout(20):
        for number in range(101):
            assert struct.unpack_from(">i", await syncing.receive()) == (number,)


async def test_a_producer_paused_in_the_middle_of_a_request_is_not_called_stalled(
    server: Server,
    syncing: RawClient,
    slow_disk: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "MAX_UNANSWERED", 1)
    (connection,) = server._connections
    first = request_frame(produce("synced", bytes(100)), 1)
    large = request_frame(produce("synced", bytes(500_000)), 2)
    syncing.writer.write(first + large[:1000])
    await until(lambda: not connection._reading)
    monkeypatch.setattr(server_module, "STALLED_SECONDS", -1.0)
    server.sweep()
    monkeypatch.setattr(server_module, "STALLED_SECONDS", 30.0)
    slow_disk.set()
    syncing.writer.write(large[1000:])
    async with asyncio.timeout(10):
        for number in (1, 2):
            assert struct.unpack_from(">i", await syncing.receive()) == (number,)


async def test_a_producer_whose_topic_is_deleted_before_the_sync_is_told_that(
    server: Server,
    syncing: RawClient,
    connect: Connect,
    slow_disk: threading.Event,
    caplog: pytest.LogCaptureFixture,
) -> None:
    request = produce("synced", b"doomed")
    syncing.writer.write(request_frame(request, 1))
    topic = server.core.topics.get("synced")
    assert topic is not None
    await until(lambda: topic.partitions[0].log.end_offset)
    with caplog.at_level(logging.ERROR):
        server.core.delete_topic(topic)
        slow_disk.set()
        async with asyncio.timeout(5):
            response = syncing.read(request, await syncing.receive(), 1)
    code = response.responses[0].partition_responses[0].error_code
    assert code is ErrorCode.unknown_topic_or_partition
    assert not caplog.records


async def test_stopping_does_not_wait_for_producers_to_pause(tmp_path: Path) -> None:
    server = Server(BrokerSettings(data=tmp_path / "data", listen="127.0.0.1:0", flush="ack"))
    await server.start()
    client = await RawClient.connect(server.address)
    await create(client, "busy")
    frames = b"".join(request_frame(produce("busy", bytes(10)), number) for number in range(50))

    async def press_on() -> None:
        while True:
            client.writer.write(frames)
            await client.reader.readexactly(1)

    pressing = asyncio.ensure_future(press_on())
    log = server.core.topics.get("busy").partitions[0].log  # type: ignore[union-attr]
    await until(lambda: log.end_offset > 200)
    async with asyncio.timeout(10):
        await server.stop()
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await pressing
    await client.close()


async def test_consumers_that_do_not_read_cost_little_memory_each(
    server: Server, connect: Connect
) -> None:
    client = await connect()
    await create(client, "large")
    for _ in range(6):
        await client.ask(produce("large", bytes(900_000)))
    idlers = [await connect() for _ in range(20)]
    for idler in idlers:
        idler.pause_reading()
        idler.writer.write(request_frame(fetch("large", 0, max_bytes=6 << 20), 1) * 3)
    await until(lambda: sum(each._outbox.blocked for each in server._connections) == len(idlers))
    for connection in server._connections:
        assert connection._transport.get_write_buffer_size() <= PIECE
    assert (await client.ask(HELLO)).error_code is ErrorCode.none


async def test_a_consumer_that_reads_slowly_is_not_idle_but_one_that_never_reads_is_cut_off(
    server: Server, connect: Connect
) -> None:
    client = await connect()
    await create(client, "large")
    for _ in range(6):
        await client.ask(produce("large", bytes(900_000)))
    idler = await connect()
    idler.pause_reading()
    idler.writer.write(request_frame(fetch("large", 0, max_bytes=6 << 20), 1))
    await until(lambda: any(each._outbox.blocked for each in server._connections))
    (blocked,) = (each for each in server._connections if each._outbox.blocked)
    blocked.active_at -= 10_000
    blocked.resume_writing()
    blocked.pause_writing()
    server.sweep()
    assert blocked in server._connections
    blocked.active_at -= 10_000
    server.sweep()
    await until(lambda: blocked not in server._connections)


async def test_a_reply_that_cannot_be_read_ends_one_connection_and_nothing_else(
    server: Server, syncing: RawClient, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    await syncing.ask(produce("synced", bytes(1000)))
    other = await connect()

    def fail(self: LogSlice, socket: int, start: int, count: int) -> int:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(LogSlice, "send", fail)
    # The fetch is answered when the produce before it is: from within the sync's completion.
    syncing.writer.write(
        request_frame(produce("synced", b"first"), 1) + request_frame(fetch("synced", 0), 2)
    )
    assert await syncing.receive_until_closed() <= 1
    async with asyncio.timeout(5):
        response = await other.ask(produce("synced", b"second"))
    assert response.responses[0].partition_responses[0].error_code is ErrorCode.none


async def test_a_log_file_that_was_cut_ends_the_connection_instead_of_spinning(
    server: Server, connect: Connect
) -> None:
    client = await connect()
    await create(client, "cut")
    await client.ask(produce("cut", bytes(10_000)))
    (path,) = (server.settings.data / "cut-0").glob("*.log")
    with path.open("r+b") as file:
        file.truncate(5_000)
    client.writer.write(request_frame(fetch("cut", 0), 1))
    assert await client.receive_until_closed() == 0
    assert (await (await connect()).ask(HELLO)).error_code is ErrorCode.none
