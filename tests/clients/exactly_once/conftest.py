"""The place of a scenario, as a fixture."""

from collections.abc import Iterator

import pytest

from tests.clients.exactly_once.ground import Ground, ground_beside
from tests.clusters import Cluster


@pytest.fixture
def ground(cluster: Cluster) -> Iterator[Ground]:
    """The session's Apache Kafka, or a Headrace of the test's own."""
    with ground_beside(cluster) as place:
        yield place
