"""The cluster as `headrace.kafka` sees it."""

import pytest

from headrace import kafka
from headrace.settings import KafkaSettings
from tests.clusters import Cluster


@pytest.fixture
def connection(cluster: Cluster) -> kafka.Cluster:
    """A connection to the cluster with default properties."""
    return kafka.Cluster(KafkaSettings(bootstrap=cluster.bootstrap))
