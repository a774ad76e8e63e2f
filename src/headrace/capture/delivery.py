"""Exactly once: records and the position that they lead to, in one Kafka transaction.

A capture has one transactional id, so that a run that takes over fences the one before: from then
on nothing that the old one writes is ever seen. Records of one or several whole source transactions
are sent as they come, into a transaction that is open as long; the capture's state is the last
record in it. What is not committed is not there for readers, however much of it was sent, so a
source transaction need not fit into memory.
"""

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from headrace.capture.envelope.records import Record
from headrace.capture.errors import CaptureError, CaptureTakenOver
from headrace.capture.state import CaptureState
from headrace.capture.store import STATE, store_of
from headrace.kafka import Cluster, ensure_topic, partitions_of

if TYPE_CHECKING:
    from confluent_kafka import KafkaException, Producer

_FENCED: Final = (
    "_FENCED",
    "INVALID_PRODUCER_EPOCH",
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_ID_MAPPING",
)
"""Errors that say that another producer has our transactional id."""

_LONGEST_MS: Final = 900_000
"""How long a transaction may take: as long as Kafka allows unless it is told otherwise."""

_LARGEST: Final = 64 << 20
"""How many bytes a record may have; a row may be large, and must not stop a capture."""

_SETTINGS: Final = {
    "delivery.report.only.error": True,
    "linger.ms": 5,
    "message.max.bytes": _LARGEST,
    "queue.buffering.max.kbytes": 64 << 10,
    "queue.buffering.max.messages": 100_000,
    "transaction.timeout.ms": _LONGEST_MS,
}

_ATTEMPT_SECONDS: Final = 10.0
"""How long the cluster may take before others are told that it does, and it is asked again."""

_FULL_SECONDS: Final = 0.1

Waiting = Callable[[str], None]
"""Told why nothing goes on for now; what it raises ends the waiting."""

logger = logging.getLogger(__name__)


class Topics:
    """The topics of a capture, made when they are first written to.

    Args:
        cluster: Where.
        partitions: How many partitions new ones have; the cluster decides if None.
        replicas: How many replicas.
        config: What they are configured with, on top of our own.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        partitions: int | None = None,
        replicas: int | None = None,
        config: dict[str, str] | None = None,
    ) -> None:
        self._cluster = cluster
        self._partitions = partitions
        self._replicas = replicas
        self._config = config or {}
        self.known: dict[str, int] = {}
        """Those that are there, and how many partitions they have."""

    def ensure(self, topic: str, *, compacted: bool) -> None:
        """Make it if it is not there.

        A topic of rows is compacted: it keeps the last state of every key for ever. One of events
        keeps them as long as the cluster says.
        """
        ours = {"max.message.bytes": str(_LARGEST)}
        if compacted:
            ours["cleanup.policy"] = "compact"
        ensure_topic(
            self._cluster,
            topic,
            partitions=self._partitions,
            replicas=self._replicas,
            config=ours | self._config,
        )
        self.known[topic] = len(partitions_of(self._cluster, topic))


class Delivery:
    """Writes records and state, all or nothing; used by one thread.

    Args:
        cluster: Where to.
        name: The capture's.
        topics: Whose topics are made when needed.
        waiting: Told whenever the cluster has taken nothing for a while: a disk is full, a broker
            is away. What was written is kept, and tried for as long as this does not raise.
    """

    def __init__(
        self, cluster: Cluster, name: str, topics: Topics, waiting: Waiting = logger.warning
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._topics = topics
        self._waiting = waiting
        self._failure: list[Any] = []
        self._open = False
        self.pending = 0
        """Records in the open transaction."""
        self.pending_bytes = 0
        self._producer = self._fence()

    def send(self, records: Iterable[Record], *, compacted: bool = True) -> None:
        """Write records into the open transaction, which is begun if there is none."""
        if not self._open:
            self._begin()
        known, produce = self._topics.known, self._producer.produce
        for record in records:
            topic, key, value, headers, everywhere = record
            if topic not in known:
                self._topics.ensure(topic, compacted=compacted)
            if everywhere:
                for partition in range(known[topic]):
                    self._insist(record, partition)
            elif headers is not None:
                self._insist(record)
            else:
                try:
                    produce(topic, value, key)
                except BufferError:
                    self._insist(record)
            self.pending += 1
            self.pending_bytes += len(value) if value is not None else 0

    def commit(self, state: CaptureState) -> None:
        """Make everything since the last commit visible, together with the state it leads to."""
        if not self._open:
            self._begin()
        self._insist(Record(store_of(self._name), STATE, state.to_bytes()), 0)
        self._attempt(
            lambda: self._producer.commit_transaction(_ATTEMPT_SECONDS), "commit to the log"
        )
        self._check()
        self._open = False
        self.pending = self.pending_bytes = 0

    def abort(self) -> None:
        """Take back what was not committed."""
        from confluent_kafka import KafkaException

        if self._open:
            try:
                self._producer.abort_transaction(_ATTEMPT_SECONDS)
            except KafkaException as exception:
                # Whoever comes next with our transactional id takes it back.
                logger.debug("the transaction was not aborted: %s", exception)
        self._open = False
        self.pending = self.pending_bytes = 0

    def close(self) -> None:
        """Take back what was not committed, and leave."""
        self.abort()
        self._leave()

    def _leave(self) -> None:
        """Have the producer try nothing more: what it is refused now, it might be granted later.

        A run after this one would then be fenced by it.
        """
        self._producer.purge()
        self._producer.flush(1.0)
        # Its close() would abort once more, and warn that there is nothing to abort.
        del self._producer

    def _fence(self) -> "Producer":
        """A producer beside which no other one writes for this capture."""
        settings = {
            **_SETTINGS,
            "transactional.id": f"headrace-capture-{self._name}",
            "on_delivery": self._delivered,
        }
        self._producer = self._cluster.producer(settings)
        try:
            self._attempt(
                lambda: self._producer.init_transactions(_ATTEMPT_SECONDS),
                "take the capture over",
            )
        except BaseException:
            self._leave()
            raise
        return self._producer

    def _begin(self) -> None:
        self._attempt(self._producer.begin_transaction, "begin a transaction")
        self._open = True

    def _attempt(self, action: Callable[[], object], attempt: str) -> None:
        from confluent_kafka import KafkaException

        while True:
            try:
                action()
            except KafkaException as exception:
                error = exception.args[0]
                if not self._passes(exception):
                    raise self._meaning(error, attempt) from None
                self._wait(attempt, error.str())
            else:
                return

    def _insist(self, record: Record, partition: int = -1) -> None:
        """Write a record, after waiting for room if there is none."""
        topic, key, value, headers, _ = record
        tries = 0
        while True:
            try:
                # The library's types want lists of lists.
                self._producer.produce(topic, value, key, partition, headers=headers)  # type: ignore[arg-type]
            except BufferError:
                tries += 1
                self._make_room(tries)
            else:
                return

    def _make_room(self, tries: int) -> None:
        """Let some of what waits to be sent be sent."""
        self._producer.poll(_FULL_SECONDS)
        self._check()
        if tries % int(_ATTEMPT_SECONDS / _FULL_SECONDS) == 0:
            self._wait("write to the log", "it takes no more records")

    def _wait(self, attempt: str, reason: str) -> None:
        self._waiting(
            f"The cluster at {self._cluster.bootstrap} did not let the capture {self._name} "
            f"{attempt} for {_ATTEMPT_SECONDS:.0f} seconds: {reason.rstrip('.')}. It is tried "
            "again, and nothing is lost; see whether a broker is away, or its disk is full."
        )

    def _passes(self, exception: "KafkaException") -> bool:
        error = exception.args[0]
        return bool(error.retriable()) and not error.txn_requires_abort() and not error.fatal()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failure.append((error, message.topic()))

    def _check(self) -> None:
        if self._failure:
            error, topic = self._failure[0]
            raise self._meaning(error, f"write to {topic}")

    def _meaning(self, error: Any, attempt: str) -> Exception:
        if error.name() in _FENCED:
            return CaptureTakenOver(
                f"Another process has taken over the capture {self._name}; this one stops. If that "
                "is not meant, give one of them another name."
            )
        if self._failure:
            error = self._failure[0][0]
        if error.name() == "MSG_SIZE_TOO_LARGE":
            return CaptureError(
                f"Cannot {attempt}: a row is larger than the topic allows. Raise it with "
                "`headrace topics config TOPIC --set max.message.bytes=...`."
            )
        return self._cluster.failure(error, attempt)
