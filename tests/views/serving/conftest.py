"""Servers of views on a real cluster, and topics to make views of."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from headrace.settings import KafkaSettings, ServeSettings, Settings
from headrace.views import ViewDescription, Views, ViewServer, position_of
from tests.clusters import Cluster


@dataclass
class Written:
    """A topic to write rows to."""

    topic: str
    producer: Producer

    def put(self, **rows: Any) -> str:
        """Write rows under their keys, None to delete one; the position of the last of them."""
        told: list[Message] = []

        def note(error: object, message: Message) -> None:
            assert error is None
            told.append(message)

        for key, row in rows.items():
            value = None if row is None else json.dumps(row)
            self.producer.produce(self.topic, value, key, on_delivery=note)
        assert self.producer.flush(20) == 0
        return position_of(*told)


ServerFactory = Callable[..., ViewServer]


@pytest.fixture
def settings(cluster: Cluster, tmp_path: Path) -> Settings:
    return Settings(
        kafka=KafkaSettings(bootstrap=cluster.bootstrap),
        serve=ServeSettings(
            address="127.0.0.1:0", directory=str(tmp_path / "views"), heartbeat_ms=200
        ),
    )


@pytest.fixture
def written(cluster: Cluster, topic: str) -> Written:
    return Written(topic, Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0}))


@pytest.fixture
def serving(settings: Settings) -> Iterator[ServerFactory]:
    """Starts servers, which end with the test."""
    with ExitStack() as running:

        def start(
            *views: ViewDescription, given: Settings | None = None, declared: bool = False
        ) -> ViewServer:
            server = ViewServer(given or settings, views, declared=declared)
            return running.enter_context(server)

        yield start


@pytest.fixture
def users(written: Written, serving: ServerFactory) -> Views:
    """A server with the view `users` of the topic."""
    server = serving(ViewDescription("users", written.topic, ("id",)))
    return Views(server.url)
