"""Raw requests to the right broker of a cluster, synchronously, from any process.

What moves records in bulk (the Spark source and sink) needs requests that client libraries hide:
raw record batches in and out, transactions with the offsets of our own choice. This sends them:

    connection = connect(KafkaSettings())
    where = Leader(Partition("orders", 0))
    asked = request("list_offsets", 7, replica_id=-1, isolation_level=0, topics=[...])
    answer = connection.ask(where, asked, code_of=lambda answer: answer.topics[0]...error_code)

`ask` finds the broker, connects (TLS and SASL as the settings say), and tries again while leaders
and coordinators move or a broker restarts, so **a request must be harmless if it arrives twice**:
fetches are, and so is everything of an idempotent or transactional producer. `request` is in
`headrace.kafka.messages`.
"""

import atexit
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from headrace.kafka.errors import (
    ClusterError,
    ClusterSilent,
    ClusterUnreachable,
    ClusterUnready,
    RequestRefused,
    UnknownTopic,
)
from headrace.kafka.messages import Request, request
from headrace.kafka.positions import Partition
from headrace.kafka.security import security_from
from headrace.kafka.wire import Wire
from headrace.settings import KafkaSettings, split_address

PATIENCE_SECONDS: Final = 30.0
"""How long `ask` keeps trying when brokers are away or leaders move."""

REQUEST_SECONDS: Final = 30.0
"""How long a broker may take for one answer."""

_TOPIC_SECONDS: Final = 1.0
"""How long a topic may be unknown before it counts as absent: brokers learn of new ones late."""

_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0

_BOOTSTRAP: Final = -1
"""Stands for whichever bootstrap address answers."""

_PASSING: Final = frozenset(
    {
        5,  # LEADER_NOT_AVAILABLE
        6,  # NOT_LEADER_OR_FOLLOWER
        7,  # REQUEST_TIMED_OUT
        9,  # REPLICA_NOT_AVAILABLE
        14,  # COORDINATOR_LOAD_IN_PROGRESS
        15,  # COORDINATOR_NOT_AVAILABLE
        16,  # NOT_COORDINATOR
        56,  # KAFKA_STORAGE_ERROR
        74,  # FENCED_LEADER_EPOCH
        75,  # UNKNOWN_LEADER_EPOCH
        78,  # OFFSET_NOT_AVAILABLE
    }
)
"""Error codes that another try at the right broker settles."""

_UNKNOWN_TOPIC: Final = frozenset({3, 100})
"""UNKNOWN_TOPIC_OR_PARTITION and UNKNOWN_TOPIC_ID."""


@dataclass(frozen=True, slots=True)
class Anyone:
    """Whichever broker answers."""


@dataclass(frozen=True, slots=True)
class Node:
    """The broker with this id, as `Connection.leaders` names it."""

    id: int


@dataclass(frozen=True, slots=True)
class Leader:
    """The broker that leads a partition."""

    partition: Partition


@dataclass(frozen=True, slots=True)
class GroupCoordinator:
    """The broker that coordinates a consumer group."""

    group: str


@dataclass(frozen=True, slots=True)
class TransactionCoordinator:
    """The broker that coordinates a transactional id."""

    transactional_id: str


Recipient = Anyone | Node | Leader | GroupCoordinator | TransactionCoordinator
"""Whom a request is for."""


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic as its cluster describes it."""

    name: str
    id: UUID | None
    """Another one if the topic was deleted and made again; None if the cluster has no ids."""

    leaders: Mapping[int, int]
    """The id of the broker that leads each partition, -1 where there is none now."""

    internal: bool


class Connection:
    """All of one cluster's brokers, for raw requests; `connect` makes or finds one.

    Threads may share it. A forked child has its parent's object but never its sockets.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self.bootstrap = settings.bootstrap
        self._security = security_from(settings.properties)
        self._client_id = settings.properties.get("client.id", "headrace")
        self._start_afresh()

    def ask(
        self,
        recipient: Recipient,
        asked: Request,
        *,
        code_of: Callable[[Any], int] = lambda answer: 0,
        seconds: float = REQUEST_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> Any:
        """The answer to a request, sent again until it is not one that passes by itself.

        Args:
            recipient: Whom to ask.
            asked: What to ask; harmless if it arrives twice.
            code_of: The error code in an answer. Codes that say "not here" or "not now" lead to
                another try; all others are the caller's business.
            seconds: How long a broker may take for one answer.
            patience: How long to keep trying.

        Raises:
            ClusterUnreachable: Nobody answers.
            BrokerNotTrusted, AuthenticationFailed: At once, since no other try will go better.
            UnknownTopic: Of a leader, there is no such topic.
            ClusterUnready: It was "not now" for longer than `patience`.
        """
        return self._persist(recipient, asked, asked.read, code_of, seconds, patience)

    def ask_frame(
        self,
        recipient: Recipient,
        asked: Request,
        *,
        read: Callable[[memoryview], Any],
        code_of: Callable[[Any], int],
        seconds: float = REQUEST_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> Any:
        """As `ask`, with an answer made by `read` from the response's bytes, without a copy."""
        return self._persist(recipient, asked, read, code_of, seconds, patience)

    def topics(
        self, names: Iterable[str] | None = None, *, patience: float = PATIENCE_SECONDS
    ) -> dict[str, TopicMetadata]:
        """The topics of these names that exist, or all of them. Creates none."""
        wanted = None if names is None else [{"topic_id": None, "name": name} for name in names]
        asked = request(
            "metadata",
            10,
            topics=wanted,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        answer = self.ask(Anyone(), asked, patience=patience)
        found = {}
        for topic in answer.topics:
            if topic.error_code and topic.error_code not in _PASSING:
                continue
            leaders = {each.partition_index: each.leader_id for each in topic.partitions}
            found[topic.name] = TopicMetadata(
                topic.name, topic.topic_id, leaders, topic.is_internal
            )
        with self._lock:
            self._addresses |= {each.node_id: (each.host, each.port) for each in answer.brokers}
            for topic in found.values():
                for number, leader in topic.leaders.items():
                    self._leaders[Partition(topic.name, number)] = leader
        return found

    def leaders(
        self, partitions: Iterable[Partition], *, fresh: bool = True
    ) -> dict[Node, list[Partition]]:
        """Which broker to ask about which partitions.

        Without `fresh`, what is known from before will do, if it is known of all. Partitions that
        have no leader at the moment are left out. Raises `UnknownTopic` if a topic is not there,
        after a moment's patience.
        """
        wanted = list(partitions)
        if fresh or any(each not in self._leaders for each in wanted):
            self._find_topics({each.topic for each in wanted})
        found: dict[Node, list[Partition]] = {}
        for each in wanted:
            if (leader := self._leaders.get(each, -1)) >= 0:
                found.setdefault(Node(leader), []).append(each)
        return found

    def close(self) -> None:
        """Hang up everywhere; another request connects again."""
        with self._lock:
            while self._wires:
                self._wires.popitem()[1].close()

    def _start_afresh(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._wires: dict[int, Wire] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._leaders: dict[Partition, int] = {}
        self._coordinators: dict[Recipient, int] = {}
        places = [split_address(each) for each in self.bootstrap.split(",")]
        self._bootstrap_places = itertools.cycle(places)

    def _persist(
        self,
        recipient: Recipient,
        asked: Request,
        read: Callable[[Any], Any],
        code_of: Callable[[Any], int],
        seconds: float,
        patience: float,
    ) -> Any:
        if os.getpid() != self._process:
            self._start_afresh()
        deadline = time.monotonic() + patience
        pause = _FIRST_PAUSE
        while True:
            failure: ClusterError
            try:
                wire = self._wire(self._find(recipient))
                frame = wire.ask_frame(asked, seconds)
                answer = read(frame if read is not asked.read else bytes(frame))
                code = int(code_of(answer))
                if code not in _PASSING and not self._is_new(recipient, code):
                    return answer
                failure = unready(f"{asked.api.replace('_', ' ')} at {wire.address}", code)
            except OSError as error:
                failure = self._silence(error)
            except _NotNow as error:
                failure = error.failure
            self._forget(recipient)
            if time.monotonic() + pause > deadline:
                raise failure
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _is_new(self, recipient: Recipient, code: int) -> bool:
        """Whether a broker that does not know a topic may only not know it yet."""
        if code not in _UNKNOWN_TOPIC or not isinstance(recipient, Leader):
            return False
        self._find_topics({recipient.partition.topic})
        return True

    def _silence(self, error: OSError) -> ClusterError:
        kind = ClusterUnreachable if isinstance(error, ConnectionRefusedError) else ClusterSilent
        reason = "no answer in time" if isinstance(error, TimeoutError) else error.strerror
        return kind(self.bootstrap, (reason or str(error)).lower())

    def _wire(self, node: int) -> Wire:
        with self._lock:
            wire = self._wires.get(node)
            place = self._addresses.get(node)
            if wire is None or place not in (None, wire.place):
                place = place or next(self._bootstrap_places)
                wire = self._wires[node] = Wire(place, self._security, client_id=self._client_id)
            return wire

    def _find(self, recipient: Recipient) -> int:
        match recipient:
            case Anyone():
                return next(iter(self._addresses), _BOOTSTRAP)
            case Node(number):
                return number
            case Leader(partition):
                if self._leaders.get(partition, -1) < 0:
                    self._find_topics({partition.topic})
                if (leader := self._leaders.get(partition, -1)) < 0:
                    raise _NotNow(unready(f"find the leader of {partition}", 5))
                return leader
            case GroupCoordinator(name):
                return self._find_coordinator(recipient, name, 0)
            case TransactionCoordinator(name):
                return self._find_coordinator(recipient, name, 1)

    def _find_topics(self, names: set[str]) -> None:
        deadline = time.monotonic() + _TOPIC_SECONDS
        while missing := names - self.topics(names).keys():
            if time.monotonic() > deadline:
                raise UnknownTopic(min(missing))
            time.sleep(_FIRST_PAUSE)

    def _find_coordinator(self, recipient: Recipient, key: str, kind: int) -> int:
        if recipient not in self._coordinators:
            asked = request("find_coordinator", 3, key=key, key_type=kind)
            answer = self.ask(Anyone(), asked, code_of=lambda answer: answer.error_code)
            if answer.error_code:
                raise refused(f"find the coordinator of {key}", answer.error_code)
            with self._lock:
                self._addresses[answer.node_id] = (answer.host, answer.port)
                self._coordinators[recipient] = answer.node_id
        return self._coordinators[recipient]

    def _forget(self, recipient: Recipient) -> None:
        """Look for a recipient anew, and for the whole cluster if nobody in particular is gone."""
        with self._lock:
            match recipient:
                case Leader(partition):
                    self._leaders.pop(partition, None)
                case GroupCoordinator() | TransactionCoordinator():
                    self._coordinators.pop(recipient, None)
                case Anyone():
                    for node in (_BOOTSTRAP, *self._addresses):
                        if wire := self._wires.pop(node, None):
                            wire.close()
                    self._addresses.clear()
                case Node():
                    pass


class _NotNow(Exception):
    """There is nobody to ask at the moment."""

    def __init__(self, failure: ClusterError) -> None:
        self.failure = failure


def unready(attempt: str, code: int) -> ClusterUnready:
    """The error for a code that meant "not now" until nobody wanted to wait any longer."""
    from confluent_kafka import KafkaError

    return ClusterUnready(attempt, KafkaError(int(code)))


def refused(attempt: str, code: int) -> RequestRefused:
    """The error for a code that a broker answered; `attempt` completes "Cannot ..."."""
    from confluent_kafka import KafkaError

    return RequestRefused(attempt, KafkaError(int(code)))


_connections: dict[tuple[str, tuple[tuple[str, str], ...]], Connection] = {}


def connect(settings: KafkaSettings) -> Connection:
    """This process's connection with those settings; made once, so that later callers save time."""
    key = (settings.bootstrap, tuple(sorted(settings.properties.items())))
    if key not in _connections:
        connection = _connections[key] = Connection(settings)
        atexit.register(connection.close)
    return _connections[key]
