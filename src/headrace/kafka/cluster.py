"""A Kafka cluster as the rest of Headrace sees it: settings in, working clients out.

`confluent_kafka` is imported when the first client is made, so that whatever only describes a
cluster (settings, a command's help) starts quickly.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.kafka.errors import (
    ClusterError,
    ClusterSilent,
    ClusterUnreachable,
    InvalidClientProperties,
    RequestRefused,
    UnknownTopic,
)
from headrace.kafka.reachability import reason_nobody_answers
from headrace.settings import KafkaSettings

if TYPE_CHECKING:
    from concurrent.futures import Future

    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")

CONNECT_SECONDS = 5.0
"""How long a cluster that accepts connections may take to answer the first request."""

_DEFAULTS = {"log_level": "2"}
"""librdkafka reports each failed attempt to connect on stderr; we report the outcome once."""

_PRODUCER_DEFAULTS = {"partitioner": "murmur2_random"}
"""The Java clients' partitioner, so that a key lands in one partition whoever produces it."""

_NO_ANSWER = (
    "_TRANSPORT",
    "_TIMED_OUT",
    "_ALL_BROKERS_DOWN",
    "_RESOLVE",
    "_SSL",
    "_AUTHENTICATION",
)
"""Error names that say that no broker answered, not that one refused."""

_NO_TOPIC = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_NOENT")
"""Error names that say that a topic does not exist; the last, that nobody leads its partitions."""


class Cluster:
    """One Kafka-speaking cluster: Headrace's own broker or Apache Kafka.

    Making one costs nothing; its first client checks that somebody answers and raises
    ClusterUnreachable within seconds, where librdkafka by itself would keep trying.
    """

    def __init__(self, settings: KafkaSettings | None = None, *, timeout: float = 15.0) -> None:
        self.settings = settings or KafkaSettings()
        self.timeout = timeout
        """Seconds that any one request may take."""
        self.last_failure = ""
        """Why a broker last did not answer."""

    @property
    def bootstrap(self) -> str:
        """The addresses the cluster is found by."""
        return self.settings.bootstrap

    @cached_property
    def admin(self) -> "AdminClient":
        """The client for everything but records."""
        from confluent_kafka.admin import AdminClient

        if reason := reason_nobody_answers(self.bootstrap):
            raise ClusterUnreachable(self.bootstrap, reason)
        with _complaints_explained():
            admin = AdminClient(self._client_config())
        answer = admin.describe_cluster(request_timeout=CONNECT_SECONDS)
        while not answer.done():
            admin.poll(0.01)  # serves the callback that tells us why nobody answers
        self.wait(answer, "ask the cluster who it is")
        return admin

    @cached_property
    def id(self) -> str:
        """The name that the cluster gave itself when it was made."""
        answer = self.admin.describe_cluster(request_timeout=self.timeout)
        found: str | None = self.wait(answer, "ask the cluster who it is").cluster_id
        return found or "unnamed"

    def producer(self, config: Mapping[str, Any] | None = None) -> "Producer":
        """A new producer; `config` wins over the settings."""
        from confluent_kafka import Producer

        self.check()
        with _complaints_explained():
            return Producer({**_PRODUCER_DEFAULTS, **self._client_config(), **(config or {})})

    def consumer(self, config: Mapping[str, Any]) -> "Consumer":
        """A new consumer; `config` wins over the settings and names the group."""
        from confluent_kafka import Consumer

        self.check()
        with _complaints_explained():
            return Consumer({**self._client_config(), **config})

    def check(self) -> None:
        """Raise ClusterUnreachable unless the cluster has answered once."""
        _ = self.admin

    def wait(self, future: "Future[T]", attempt: str, *, topic: str = "") -> T:
        """The result of an admin request; `attempt` completes "Cannot ..." if it was refused.

        With `topic`, an answer that there is no such topic is about that one.
        """
        from confluent_kafka import KafkaException

        try:
            return future.result()
        except KafkaException as exception:
            error: KafkaError = exception.args[0]
            raise self.failure(error, attempt, topic=topic) from None

    def failure(self, error: "KafkaError", attempt: str, *, topic: str = "") -> ClusterError:
        """What a client's error means to the person who made the attempt."""
        if error.name() in _NO_ANSWER:
            return ClusterSilent(self.bootstrap, self.last_failure or error.str())
        if topic and error.name() in _NO_TOPIC:
            return UnknownTopic(topic)
        return RequestRefused(attempt, error)

    def note_failure(self, error: "KafkaError") -> None:
        """Remember why a broker does not answer; every client of the cluster calls this back."""
        if error.name() != "_ALL_BROKERS_DOWN":
            # Only the reason is of interest in "host:1234/bootstrap: reason (after 2ms in ...)".
            self.last_failure = re.sub(r"^\S+?/\S+: | \(after .*$", "", error.str())

    def _client_config(self) -> dict[str, Any]:
        return {
            **_DEFAULTS,
            **self.settings.properties,
            "bootstrap.servers": self.bootstrap,
            "error_cb": self.note_failure,
        }


@contextmanager
def _complaints_explained() -> Iterator[None]:
    """Say where properties come from when librdkafka complains about one."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as exception:
        complaint = exception.args[0].str()
        raise InvalidClientProperties(
            f"librdkafka refuses its properties: {complaint}. Correct [kafka.properties] in "
            "headrace.toml or the HEADRACE_KAFKA_PROPERTIES_ variables."
        ) from None
