"""A broker that listens before all of it is loaded."""

import asyncio
import logging
from pathlib import Path

import pytest

from headrace.broker import later
from headrace.broker.server import Server
from headrace.settings import BrokerSettings


@pytest.fixture
async def listening(tmp_path: Path) -> Server:
    server = Server(BrokerSettings(data=tmp_path / "data", listen="127.0.0.1:0"))
    await server.listen()
    return server


async def test_a_broker_can_stop_before_it_is_complete(listening: Server, tmp_path: Path) -> None:
    await listening.stop()
    again = Server(BrokerSettings(data=tmp_path / "data", listen="127.0.0.1:0"))
    await again.start()
    await again.stop()


async def test_a_part_that_cannot_be_loaded_stops_the_broker_and_is_logged(
    listening: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(later, "MODULES", ("headrace.broker.absent_part",))
    with caplog.at_level(logging.ERROR), pytest.raises(ModuleNotFoundError):
        await listening.complete()
    assert "not all of it could be loaded" in caplog.text
    # The directory is free again.
    await Server(BrokerSettings(data=tmp_path / "data", listen="127.0.0.1:0")).stop()


async def test_who_stops_early_does_not_wait_for_the_rest() -> None:
    stopping = asyncio.Event()
    assert await later.first_clients_served(stopping)
    stopping.set()
    assert not await later.first_clients_served(stopping)
