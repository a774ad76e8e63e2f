"""Compaction in a running broker: what is left, and what happens when something goes wrong."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from headrace.broker.metrics import render
from headrace.broker.partition import Partition
from headrace.broker.server import Server
from headrace.records import build_batch, iterate_headers, read_header
from headrace.settings import BrokerSettings

COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "1024", "delete.retention.ms": "0"}
TIMEOUT_SECONDS = 60.0


def settings(data: Path, compaction_rate: int = -1) -> BrokerSettings:
    return BrokerSettings(
        data=data,
        listen="127.0.0.1:0",
        flush="os",
        compaction_check_ms=50,
        compaction_rate=compaction_rate,
    )


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A broker that looks for topics to compact all the time."""
    started = Server(settings(tmp_path / "data"))
    await started.start()
    try:
        yield started
    finally:
        await started.stop()


def compacted_topic(server: Server, name: str = "table") -> Partition:
    return server.core.topics.create(name, 1, dict(COMPACTED)).partitions[0]


def write(partition: Partition, count: int, keys: int = 3) -> None:
    """Append records one by one, which fill a segment every dozen."""
    for number in range(count):
        batch = build_batch([(b"key-%d" % (number % keys), b"%d" % number)], timestamp=number)
        partition.append(memoryview(batch), read_header(batch))


def records(partition: Partition) -> int:
    """How many records there are."""
    partition.log.verifies_at_once = True
    found, offset = 0, partition.log.start_offset
    while data := partition.log.read(offset, 1 << 20).read():
        for _, header in iterate_headers(data):
            found += header.record_count
            offset = header.next_offset
    return found


async def until(done: Callable[[], bool]) -> None:
    """Wait for something that another process brings about."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not done():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def until_compacted(server: Server, runs: int = 1) -> None:
    """Wait until so many rounds are done."""
    await until(lambda: server.metrics.compaction.runs >= runs)


async def worker_of(server: Server) -> int:
    """The process id of the worker, once there is one."""
    cleaning = server._housekeeping._cleaner._process
    await until(lambda: cleaning._process is not None)
    assert cleaning._process is not None
    return cleaning._process.pid


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_compacted_topic_keeps_the_latest_of_each_key(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    partition = compacted_topic(server)
    write(partition, 200)
    await until_compacted(server)
    sealed = partition.log.sealed_segments()[-1].end_offset
    assert records(partition) == 3 + 200 - sealed
    assert partition.log.end_offset == 200
    done = server.metrics.compaction
    assert done.records_removed == sealed - 3
    assert done.bytes_removed > 0
    text = render(server.core)
    assert "headrace_compaction_runs_total 1" in text
    assert "headrace_compaction_pressed_bytes_total" in text
    assert 'headrace_compaction_dirty_ratio{topic="table",partition="0"}' in text
    begun, done_line = [line for line in caplog.messages if line.startswith("compact")]
    assert begun == "compacting table-0 from offset 0 on"
    assert done_line.startswith(f"compacted table-0 from offset 0 to {sealed} ")


async def test_topics_that_are_not_compacted_are_left_alone(server: Server) -> None:
    plain = server.core.topics.create("plain", 1, {"segment.bytes": "1024"}).partitions[0]
    write(plain, 200)
    partition = compacted_topic(server)
    write(partition, 200)
    await until_compacted(server)
    assert records(plain) == 200


async def test_a_worker_that_is_killed_is_started_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.cleaning.FIRST_RETRY_SECONDS", 0.1)
    partition = compacted_topic(server)
    write(partition, 200)
    os.kill(await worker_of(server), signal.SIGKILL)
    await until_compacted(server)
    assert server.metrics.compaction.failures == 1
    assert records(partition) < 20
    assert leftovers(server) == []


async def test_a_topic_can_be_deleted_and_made_again_meanwhile(server: Server) -> None:
    partition = compacted_topic(server)
    write(partition, 500)
    await worker_of(server)
    topic = server.core.topics.get("table")
    assert topic is not None
    server.core.delete_topic(topic)
    again = compacted_topic(server)
    write(again, 200)
    await until_compacted(server)
    assert again.log.end_offset == 200
    assert records(again) < 20


async def test_a_damaged_batch_is_reported_once(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    partition = compacted_topic(server)
    write(partition, 8)
    (segment,) = partition.log.segments_from(0)
    with segment.path.open("r+b") as file:
        file.seek(70)
        file.write(b"\xff")
    write(partition, 100)
    other = compacted_topic(server, "other")
    write(other, 100)
    await until_compacted(server)
    await until(lambda: server.metrics.compaction.failures > 0)
    await asyncio.sleep(0.3)  # a few more looks, which must not try again
    assert server.metrics.compaction.failures == 1
    assert server.metrics.compaction.uncleanable == 1
    assert f"{segment.path} is damaged at byte 0, in the batch of offset 0" in caplog.text
    assert records(other) < 20


async def test_the_worker_shares_the_brokers_session_but_not_its_ctrl_c(server: Server) -> None:
    # Sessions get equal shares of the processors, so that in another one niceness means nothing.
    write(compacted_topic(server), 200)
    pid = await worker_of(server)
    assert os.getsid(pid) == os.getsid(0)
    assert os.getpgid(pid) == pid
    await until_compacted(server)


async def test_a_stop_does_not_wait_for_the_worker(tmp_path: Path) -> None:
    slow = Server(settings(tmp_path / "slow", compaction_rate=100))
    await slow.start()
    write(compacted_topic(slow), 500)
    pid = await worker_of(slow)
    async with asyncio.timeout(10):
        await slow.stop()
    await until(lambda: not is_running(pid))
    again = Server(settings(tmp_path / "slow"))
    await again.start()
    try:
        assert leftovers(again) == []
        await until_compacted(again)
        partition = again.core.partition("table", 0)
        assert partition is not None
        assert records(partition) < 20
    finally:
        await again.stop()


async def test_what_is_compacted_is_remembered(tmp_path: Path) -> None:
    for runs in (1, 0):
        server = Server(settings(tmp_path / "data"))
        await server.start()
        try:
            if runs:
                write(compacted_topic(server), 200)
            await until_compacted(server, runs)
            await asyncio.sleep(0.3)  # a few more looks
            assert server.metrics.compaction.runs == runs
        finally:
            await server.stop()


def leftovers(server: Server) -> list[str]:
    """Files that only a round under way has."""
    return [path.name for path in server.settings.data.rglob("*.rewritten")]
