"""A schema registry for the formats that have one."""

from collections.abc import Iterator

import pytest

from tests.streams.formats.registry_server import RegistryServer, registry_server


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with registry_server() as server:
        yield server
