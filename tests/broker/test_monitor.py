"""Metrics and health over HTTP."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from headrace.broker.server import Server
from headrace.settings import BrokerSettings, split_address
from tests.broker.raw_client import RawClient, request_module

API_VERSIONS = request_module("api_versions", 3)
METADATA = request_module("metadata", 12)
METRIC = re.compile(r'^headrace_\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? -?\d+(\.\d+)?$')


@pytest_asyncio.fixture
async def monitored(tmp_path: Path) -> AsyncIterator[Server]:
    """A server with its metrics endpoint."""
    server = Server(
        BrokerSettings(data=tmp_path, listen="127.0.0.1:0", metrics="127.0.0.1:0", flush="os")
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def get(server: Server, path: str) -> tuple[int, str]:
    assert server.monitor_address is not None
    reader, writer = await asyncio.open_connection(*split_address(server.monitor_address))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), body


async def test_metrics_are_what_prometheus_reads_and_count_what_happened(
    monitored: Server,
) -> None:
    client = await RawClient.connect(monitored.address)
    await client.ask(
        API_VERSIONS.ApiVersionsRequest(client_software_name="t", client_software_version="1")
    )
    await client.ask(
        METADATA.MetadataRequest(
            topics=(METADATA.MetadataRequestTopic(name="events", topic_id=None),),
            include_topic_authorized_operations=False,
        )
    )
    status, body = await get(monitored, "/metrics")
    await client.close()
    assert status == 200
    lines = [line for line in body.splitlines() if not line.startswith("#")]
    assert all(METRIC.match(line) for line in lines)
    assert 'headrace_requests_total{api="metadata"} 1' in lines
    assert 'headrace_high_watermark{topic="events",partition="0"} 0' in lines
    assert "headrace_connections 1" in lines


async def test_health_is_ok_until_a_log_has_failed(monitored: Server) -> None:
    assert await get(monitored, "/health") == (200, "ok\n")
    topic = monitored.core.topics.create("events", 1, {})
    topic.partitions[0].log._durability.failure = "the disk is gone"
    status, body = await get(monitored, "/health")
    assert status == 503
    assert body == "events-0: the disk is gone\n"


async def test_anything_else_is_not_found(monitored: Server) -> None:
    status, body = await get(monitored, "/")
    assert status == 404
    assert "/metrics" in body


async def test_stopping_lets_go_of_a_client_that_never_asks(tmp_path: Path) -> None:
    server = Server(
        BrokerSettings(data=tmp_path, listen="127.0.0.1:0", metrics="127.0.0.1:0", flush="os")
    )
    await server.start()
    assert server.monitor_address is not None
    reader, writer = await asyncio.open_connection(*split_address(server.monitor_address))
    writer.write(b"GET /metr")
    assert await get(server, "/health") == (200, "ok\n")
    before = asyncio.all_tasks()
    await server.stop()
    assert asyncio.all_tasks() < before
    assert await reader.read() == b""
    writer.close()
