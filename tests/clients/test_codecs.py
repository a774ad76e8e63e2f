"""Whatever one client compresses, every other client reads."""

import pytest

from tests.clients.drivers import DRIVERS, Driver, named
from tests.clients.messages import CODECS, numbered, plain
from tests.clients.stored import fetch
from tests.clients.wire import Wire
from tests.clusters import Cluster


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("producer", DRIVERS, ids=named)
def test_every_client_reads_what_this_client_compressed(
    cluster: Cluster, topic: str, producer: Driver, codec: str
):
    messages = numbered(100)
    producer.produce(cluster, topic, messages, codec=codec)
    for consumer in DRIVERS:
        received = consumer.consume(cluster, topic, len(messages))
        assert plain(received) == plain(messages), consumer.name


@pytest.mark.parametrize("codec", CODECS)
def test_batches_are_stored_as_the_producer_compressed_them(
    cluster: Cluster, topic: str, codec: str
):
    DRIVERS[0].produce(cluster, topic, numbered(100), codec=codec)
    with Wire(cluster) as wire:
        stored = fetch(wire, topic, 0)
    assert {batch.attributes & 0b111 for batch in stored.batches} == {CODECS.index(codec)}
    assert sum(batch.record_count for batch in stored.batches) == 100
