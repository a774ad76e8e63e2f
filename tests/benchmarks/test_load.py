from collections.abc import Iterator

import pytest

from benchmarks import broker, load, retention
from benchmarks.crowd import idle_connections
from benchmarks.librdkafka import BulkConsumer, BulkProducer
from benchmarks.peers import HEADRACE, Fleet, Server, launch_headrace


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet() as fleet:
        yield fleet


@pytest.fixture
def server(fleet: Fleet) -> Server:
    return fleet.server(launch_headrace)


def test_what_is_produced_in_bulk_is_consumed_in_bulk(server):
    with load.fresh_topic(server) as topic:
        produced = load.produce(server, topic, payload_bytes=10, count=20_000)
        assert produced.messages == 20_000
        assert load.end_offset(server, topic) == 20_001
        assert load.consume(server, topic, count=20_001).messages == 20_001


def test_messages_go_to_all_partitions_in_turn_and_their_bytes_are_counted(server):
    with (
        load.fresh_topic(server, partitions=4) as topic,
        BulkProducer(server.bootstrap, topic, b"12345", partitions=range(4)) as producer,
        BulkConsumer(server.bootstrap, topic, partitions=(1, 3)) as consumer,
    ):
        producer.send(400)
        producer.flush()
        consumer.assign()
        assert consumer.receive(200) == 200 * 5


def test_idle_connections_are_answered_once_and_leave_room_for_others(server):
    with load.fresh_topic(server) as topic, idle_connections(server.bootstrap, 20):
        assert len(load.synchronous(server, topic, payload_bytes=10, count=5)) == 5


def test_percentiles_interpolate_between_values():
    values = [float(value) for value in range(101)]
    assert load.percentile(values, 50) == 50
    assert load.percentile(values, 99) == 99


@pytest.mark.slow
def test_every_row_of_the_broker_benchmark_has_a_figure(fleet):
    scale = broker.Scale(
        rounds=1,
        messages={"100B": 1_000, "1kB": 100},
        mixed_messages=320,
        synchronous_messages=10,
        starts=1,
        idle_seconds=0,
    )
    for experiment in broker.experiments(fleet, scale):
        figures = experiment.sides[HEADRACE]()
        assert {row.figure for row in experiment.rows} == set(figures)
        assert all(value >= 0 for value in figures.values())


@pytest.mark.slow
def test_every_row_of_the_retention_benchmark_has_a_figure_on_both_sides(fleet):
    scale = retention.Scale(rounds=1, messages=100, retained_gigabytes=0.001, connections=5)
    for experiment in retention.experiments(fleet, scale):
        for row in experiment.rows:
            assert experiment.sides[row.headrace]()[row.figure] > 0
            assert experiment.sides[row.peer]()[row.figure] > 0
