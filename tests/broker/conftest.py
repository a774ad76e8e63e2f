"""A broker in the test's own event loop."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from headrace.broker.server import Server
from headrace.settings import BrokerSettings
from tests.broker.raw_client import Connect, RawClient


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server on a free port, with a small request limit."""
    settings = BrokerSettings(
        data=tmp_path / "data",
        listen="127.0.0.1:0",
        flush="os",
        max_request_bytes=2 << 20,
        request_memory=4 << 20,
        max_connections=50,
    )
    started = Server(settings)
    await started.start()
    try:
        yield started
    finally:
        await started.stop()


@pytest_asyncio.fixture
async def connect(server: Server) -> AsyncIterator[Connect]:
    """Connections to the server, closed after the test."""
    clients: list[RawClient] = []

    async def connected() -> RawClient:
        clients.append(await RawClient.connect(server.address))
        return clients[-1]

    yield connected
    for client in clients:
        await client.close()
