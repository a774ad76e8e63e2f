"""ListOffsets and errors of the archive, on the wire."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest_asyncio
from kio.schema.errors import ErrorCode

from headrace.broker.server import Server
from headrace.records import read_header
from headrace.settings import BrokerSettings
from tests.broker.archive.archived_topic import CONFIGS, TOPIC, local_segments
from tests.broker.raw_client import RawClient, request_module, until
from tests.log.batches import make_batch

EARLIEST, EARLIEST_LOCAL, LAST_ARCHIVED, FIRST_PENDING = -2, -4, -5, -6


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    settings = BrokerSettings(
        data=tmp_path / "data",
        listen="127.0.0.1:0",
        flush="os",
        archive=str(tmp_path / "archive"),
        archive_interval_ms=20,
        retention_check_ms=20,
    )
    started = Server(settings)
    await started.start()
    yield started
    await started.stop()


@pytest_asyncio.fixture
async def client(server: Server) -> AsyncIterator[RawClient]:
    connected = await RawClient.connect(server.address)
    yield connected
    await connected.close()


def fill(server: Server, count: int) -> None:
    partition = server.core.topics.get(TOPIC).partitions[0]  # type: ignore[union-attr]
    now = int(time.time() * 1000)
    for _ in range(count):
        batch = make_batch([now] * 5, value=b"x" * 200)
        partition.append(memoryview(batch), read_header(batch))


async def offset_of(client: RawClient, moment: int) -> int:
    module = request_module("list_offsets", 11)
    answer: Any = await client.ask(
        module.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            timeout=timedelta(seconds=10),
            topics=(
                module.ListOffsetsTopic(
                    name=TOPIC,
                    partitions=(
                        module.ListOffsetsPartition(
                            partition_index=0, current_leader_epoch=-1, timestamp=moment
                        ),
                    ),
                ),
            ),
        )
    )
    (partition,) = answer.topics[0].partitions
    assert partition.error_code is ErrorCode.none
    return int(partition.offset)


async def test_the_ends_of_both_tiers_are_told(
    server: Server, client: RawClient, tmp_path: Path
) -> None:
    server.core.topics.create(TOPIC, 1, CONFIGS)
    assert await offset_of(client, LAST_ARCHIVED) == -1
    assert await offset_of(client, FIRST_PENDING) == 0
    fill(server, 40)
    data = tmp_path / "data"
    await until(lambda: local_segments(data)[0] > 100)
    log = server.core.partition(TOPIC, 0).log  # type: ignore[union-attr]
    active = log.segments_from(0)[-1].base_offset
    await until(lambda: server.core.archiving.pending_bytes == 0)  # type: ignore[union-attr]
    assert await offset_of(client, EARLIEST) == 0
    assert await offset_of(client, EARLIEST_LOCAL) == log.start_offset
    assert await offset_of(client, LAST_ARCHIVED) == active - 1
    assert await offset_of(client, FIRST_PENDING) == active


async def test_a_reader_gets_an_error_that_it_may_retry_while_the_store_fails(
    server: Server, client: RawClient, tmp_path: Path
) -> None:
    server.core.topics.create(TOPIC, 1, CONFIGS)
    fill(server, 40)
    await until(lambda: local_segments(tmp_path / "data")[0] > 100)
    await until(lambda: server.core.archiving.pending_bytes == 0)  # type: ignore[union-attr]
    objects, elsewhere = tmp_path / "archive" / "partitions", tmp_path / "elsewhere"
    objects.rename(elsewhere)
    assert await fetch(client) is ErrorCode.kafka_storage_error
    elsewhere.rename(objects)
    async with asyncio.timeout(20):
        while await fetch(client) is not ErrorCode.none:
            pass


async def fetch(client: RawClient) -> ErrorCode:
    module = request_module("fetch", 12)
    answer: Any = await client.ask(
        module.FetchRequest(
            max_wait=timedelta(seconds=5),
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=(
                module.FetchTopic(
                    topic=TOPIC,
                    partitions=(
                        module.FetchPartition(
                            partition=0, fetch_offset=0, partition_max_bytes=1 << 20
                        ),
                    ),
                ),
            ),
            forgotten_topics_data=(),
            rack_id="",
        )
    )
    return answer.responses[0].partitions[0].error_code  # type: ignore[no-any-return]
