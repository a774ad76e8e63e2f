"""TLS and SASL with a real Apache Kafka: every way in, and what is said at a closed door."""

import time
from collections.abc import Callable

import pytest

from headrace.kafka import Cluster, ClusterError, Partition, list_topics
from headrace.kafka.connection import Connection, GroupCoordinator
from headrace.kafka.messages import request
from headrace.kafka.raw_fetch import fetch_range
from headrace.kafka.tls import BrokerNotTrusted
from headrace.kafka.topics import ensure_topic
from headrace.kafka.wire import AuthenticationFailed
from headrace.settings import KafkaSettings
from tests.secure_kafka import MECHANISMS, PASSWORD, SecureKafka

pytestmark = [pytest.mark.apache_kafka, pytest.mark.timeout(300)]

Way = Callable[[SecureKafka], KafkaSettings]


def by_password(listener: str, mechanism: str, password: str = PASSWORD) -> Way:
    return lambda kafka: kafka.by_password(listener, mechanism, password)


WAYS_IN: dict[str, Way] = {
    "tls": lambda kafka: kafka.at("TLS"),
    "tls, by its text": lambda kafka: KafkaSettings(
        bootstrap=kafka.broker.address("TLS"),
        properties={"security.protocol": "ssl", "ssl.ca.pem": kafka.authority.read_text()},
    ),
    "mutual tls": lambda kafka: kafka.at(
        "MUTUAL",
        ssl_certificate_location=str(kafka.certificate),
        ssl_key_location=str(kafka.certificate),
    ),
    "mutual tls, by its text": lambda kafka: kafka.at(
        "MUTUAL",
        ssl_key_pem=kafka.certificate.read_text(),
        ssl_certificate_pem=kafka.certificate.read_text(),
    ),
    "another name, if that is all right": lambda kafka: kafka.at(
        "ELSEWHERE", ssl_endpoint_identification_algorithm="none"
    ),
    **{
        f"{mechanism} over {listener}": by_password(listener, mechanism)
        for listener in ("PASSWORD", "BOTH")
        for mechanism in MECHANISMS
    },
}


@pytest.mark.parametrize("way", WAYS_IN.values(), ids=WAYS_IN)
def test_both_clients_come_in(secure_kafka: SecureKafka, way: Way, fresh_name: str) -> None:
    settings = way(secure_kafka)
    cluster = Cluster(settings)
    ensure_topic(cluster, fresh_name, partitions=1)
    producer = cluster.producer()
    producer.produce(fresh_name, b"hello")
    assert producer.flush(20) == 0
    raw = Connection(settings)
    try:
        assert fresh_name in raw.topics()
        (chunk,) = fetch_range(raw, Partition(fresh_name, 0), 0, 1)
        assert b"hello" in bytes(chunk)
        asked = request("offset_fetch", 5, group_id=fresh_name, topics=None)
        found = raw.ask(GroupCoordinator(fresh_name), asked, code_of=lambda each: each.error_code)
        assert found.topics == ()
    finally:
        raw.close()


CLOSED_DOORS: dict[str, tuple[Way, type[ClusterError], str]] = {
    "a wrong password": (
        by_password("PASSWORD", "PLAIN", "guess"),
        AuthenticationFailed,
        r"does not accept us: .*Invalid username or password. Check sasl",
    ),
    **{
        f"a wrong password for {mechanism}": (
            by_password("BOTH", mechanism, "guess"),
            AuthenticationFailed,
            r"does not accept us: .*invalid credentials",
        )
        for mechanism in MECHANISMS[1:]
    },
    "an authority that we do not know": (
        lambda kafka: kafka.at("TLS", ssl_ca_location=str(kafka.stranger)),
        BrokerNotTrusted,
        r"certificate is not to be trusted \(unable to get local issuer certificate\).*ssl.ca",
    ),
    "a certificate of another host": (
        lambda kafka: kafka.at("ELSEWHERE"),
        BrokerNotTrusted,
        r"not to be trusted \(IP address mismatch, .*'127\.0\.0\.1'\)",
    ),
    "no certificate of our own": (
        lambda kafka: kafka.at("MUTUAL"),
        BrokerNotTrusted,
        r"does not accept our certificate \(.*alert.*\)\. Check ssl.certificate.location",
    ),
}


@pytest.mark.parametrize(("way", "kind", "said"), CLOSED_DOORS.values(), ids=CLOSED_DOORS)
def test_a_closed_door_is_explained_at_once(
    secure_kafka: SecureKafka, way: Way, kind: type[ClusterError], said: str
) -> None:
    settings = way(secure_kafka)
    raw = Connection(settings)
    began = time.monotonic()
    with pytest.raises(kind, match=said):
        raw.topics()
    # Far less than the patience with brokers that are away.
    assert time.monotonic() - began < 15
    raw.close()


@pytest.mark.parametrize("door", ["a wrong password", "an authority that we do not know"])
def test_the_admin_client_gives_up_too(secure_kafka: SecureKafka, door: str) -> None:
    with pytest.raises(ClusterError, match=r"Cannot reach .*(Authentication|certificate) .*fail"):
        list_topics(Cluster(CLOSED_DOORS[door][0](secure_kafka)))
