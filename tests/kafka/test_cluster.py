"""Clusters that answer, and what is said about those that do not."""

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headrace.kafka import (
    Cluster,
    ClusterSilent,
    ClusterUnreachable,
    InvalidClientProperties,
    list_topics,
)
from headrace.kafka import cluster as cluster_module
from headrace.kafka.reachability import reason_nobody_answers
from headrace.settings import KafkaSettings


@pytest.fixture
def mute() -> Iterator[socket.socket]:
    """Somebody who accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def test_nobody_there_is_noticed_at_once():
    with pytest.raises(ClusterUnreachable) as raised:
        list_topics(Cluster(KafkaSettings(bootstrap="127.0.0.1:1")))
    assert str(raised.value).startswith(
        "Cannot reach a Kafka cluster at 127.0.0.1:1: connection refused. Start one with"
    )


def test_one_address_that_answers_is_enough(mute: socket.socket):
    assert reason_nobody_answers(f"127.0.0.1:1,{address(mute)}") is None
    assert reason_nobody_answers("127.0.0.1:1,localhost:1") == "connection refused"


def test_somebody_who_does_not_speak_kafka_is_told_apart(
    mute: socket.socket, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cluster_module, "CONNECT_SECONDS", 0.3)
    with pytest.raises(ClusterSilent, match="Check that it is a Kafka broker"):
        list_topics(Cluster(KafkaSettings(bootstrap=address(mute))))


def test_properties_that_librdkafka_refuses_are_traced_to_the_settings(mute: socket.socket):
    settings = KafkaSettings(bootstrap=address(mute), properties={"no.such": "1"})
    for make in (
        lambda: Cluster(settings).admin,
        lambda: Cluster(settings).producer(),
        lambda: Cluster(settings).consumer({"group.id": "g"}),
    ):
        with pytest.raises(InvalidClientProperties, match=r'"no\.such"\. Correct \[kafka\.prop'):
            make()


def test_properties_reach_the_client(connection: Cluster):
    settings = KafkaSettings(connection.bootstrap, {"security.protocol": "ssl"})
    assert connection.admin is connection.admin
    with pytest.raises(ClusterSilent, match="SSL"):
        list_topics(Cluster(settings))


def test_the_package_does_not_import_the_client_library():
    code = "import sys, headrace.kafka; sys.exit('confluent_kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
