from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.broker.groups.simulation import Simulation


@pytest.fixture
async def simulation(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Simulation]:
    """A coordinator, with the settings that the test passes as the fixture's parameter."""
    running = Simulation(tmp_path, **getattr(request, "param", {}))
    yield running
    await running.close()
