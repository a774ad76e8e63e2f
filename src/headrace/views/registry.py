"""What everybody has to know of views, in a topic of their own: `headrace.views`, compacted.

    declared/NAME   a view and the topic that it is of, by the flow that writes it or by a person
    position/NAME   after each batch of a flow: what the batch had read, and where its output ends
    served/NAME     which view readers of that name are shown, if it is not the one so called

Every value says its version. Servers follow the topic; flows and the command write it.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from headrace.errors import HeadraceError
from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import UnknownTopic
from headrace.kafka.positions import Partition, offset_ranges
from headrace.kafka.reader import Reader
from headrace.kafka.topics import ensure_topic, partitions_of
from headrace.views.errors import InvalidView, ViewsError
from headrace.views.materialized.description import ViewDescription
from headrace.views.positions import Offsets

TOPIC: Final = "headrace.views"
"""Where it is written."""

VERSION: Final = 1
"""Of the values."""

_NOTES: Final = 1_000
"""Batches of a flow that are remembered for each view."""

_PAUSE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Note:
    """A batch of a flow: once `outputs` are applied, exactly `sources` are reflected."""

    view: str
    batch: int
    sources: Offsets
    outputs: Mapping[int, int]
    """For each partition of the view's topic where it ended after the batch."""

    def is_reflected(self, applied: Mapping[int, int]) -> bool:
        """Whether a view that has applied so much has all of the batch."""
        return all(applied.get(number, 0) >= end for number, end in self.outputs.items())

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        sources: dict[str, dict[str, int]] = {}
        for partition, offset in self.sources.items():
            sources.setdefault(partition.topic, {})[str(partition.number)] = offset
        outputs = {str(number): end for number, end in self.outputs.items()}
        return {"batch": self.batch, "sources": sources, "outputs": outputs}

    @classmethod
    def from_json(cls, view: str, stored: Mapping[str, Any]) -> "Note":
        """What was stored."""
        return cls(
            view,
            stored["batch"],
            {
                Partition(topic, int(number)): offset
                for topic, partitions in stored["sources"].items()
                for number, offset in partitions.items()
            },
            {int(number): end for number, end in stored["outputs"].items()},
        )


@dataclass
class Registry:
    """What the topic says so far."""

    declared: dict[str, ViewDescription] = field(default_factory=dict)
    notes: dict[str, deque[Note]] = field(default_factory=dict)
    served: dict[str, str] = field(default_factory=dict)

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take in a record; one of a later version of Headrace is left out."""
        kind, _, name = (key or b"").decode(errors="replace").partition("/")
        if value is None:
            if kind == "declared":
                self.declared.pop(name, None)
                self.notes.pop(name, None)
            elif kind == "served":
                self.served.pop(name, None)
            return
        try:
            stored = orjson.loads(value)
            if stored["version"] != VERSION:
                return
            match kind:
                case "declared":
                    self.declared[name] = ViewDescription.from_json(stored["view"])
                case "position":
                    notes = self.notes.setdefault(name, deque(maxlen=_NOTES))
                    notes.append(Note.from_json(name, stored))
                case "served":
                    self.served[name] = stored["by"]
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, InvalidView):
            return

    def serving(self, name: str) -> str:
        """The view that readers of a name are shown."""
        return self.served.get(name, name)


def declaration(view: ViewDescription) -> tuple[str, dict[str, Any]]:
    """The record that declares a view."""
    return f"declared/{view.name}", {"view": view.to_json()}


def position(note: Note) -> tuple[str, dict[str, Any]]:
    """The record that tells of a batch."""
    return f"position/{note.view}", note.to_json()


def service(name: str, by: str) -> tuple[str, dict[str, Any]]:
    """The record that says which view readers of a name are shown."""
    return f"served/{name}", {"by": by}


class RegistryWriter:
    """Writes records of the topic, each until the cluster has it; for one thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        ensure_registry(cluster)
        self._producer = cluster.producer({"acks": "all", "linger.ms": 0})

    def write(self, *records: tuple[str, dict[str, Any] | None]) -> None:
        """Write records, and return when they are there; None takes one away."""
        failed: list[str] = []

        def told(error: object, _: object) -> None:
            if error is not None:
                failed.append(str(error))

        for key, value in records:
            stored = None if value is None else orjson.dumps({"version": VERSION, **value})
            self._producer.produce(TOPIC, stored, key.encode(), on_delivery=told)
        left = self._producer.flush(self._cluster.timeout)
        if left or failed:
            reason = failed[0] if failed else "nobody answered"
            raise ViewsError(f"What is known of views cannot be written to {TOPIC}: {reason}.")


def ensure_registry(cluster: Cluster) -> None:
    """Make the topic if it is not there."""
    ensure_topic(cluster, TOPIC, partitions=1, config={"cleanup.policy": "compact"})


def read_registry(cluster: Cluster) -> Registry:
    """All that the topic says at this moment; nothing if there is none."""
    registry = Registry()
    try:
        partitions = partitions_of(cluster, TOPIC)
    except UnknownTopic:
        return registry
    ranges = offset_ranges(cluster, partitions)
    start = {each: held.earliest for each, held in ranges.items()}
    end = {each: held.latest for each, held in ranges.items()}
    with Reader(cluster, start, end=end) as reader:
        for batch in reader.batches():
            for each in batch:
                registry.take(each.key(), each.value())
    return registry


class RegistryFollower:
    """Follows the topic in a thread, and tells when something has changed."""

    def __init__(self, cluster: Cluster, tell: Callable[[], None]) -> None:
        self.registry = Registry()
        """Changed by the thread alone; whoever reads it takes one entry at a time."""
        self._cluster = cluster
        self._tell = tell
        self._stop = threading.Event()
        self._current = threading.Event()
        self.error = ""
        self._thread = threading.Thread(target=self._live, name="views-registry", daemon=True)

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def wait_current(self, seconds: float) -> bool:
        """Whether all that was there at the start is known, after waiting for that."""
        return self._current.wait(seconds)

    def _live(self) -> None:
        while not self._stop.is_set():
            try:
                ensure_registry(self._cluster)
                self._follow()
            except HeadraceError as error:
                self.error = str(error)
                self._stop.wait(_PAUSE_SECONDS)

    def _follow(self) -> None:
        partition = Partition(TOPIC, 0)
        held = offset_ranges(self._cluster, [partition])[partition]
        registry, reached = Registry(), held.earliest
        from confluent_kafka import TopicPartition

        consumer = self._cluster.consumer(
            {
                "group.id": "headrace-views",  # demanded by the client library, never joined
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        try:
            consumer.assign([TopicPartition(TOPIC, 0, held.earliest)])
            while not self._stop.is_set():
                if reached >= held.latest and not self._current.is_set():
                    self._publish(registry)
                    self._current.set()
                first = consumer.poll(0.1)
                if first is None:
                    continue
                for each in (first, *consumer.consume(500, 0)):
                    if (error := each.error()) is not None:
                        raise self._cluster.failure(error, f"read {TOPIC}", topic=TOPIC)
                    registry.take(each.key(), each.value())
                    reached = (each.offset() or 0) + 1
                if reached >= held.latest:
                    self._publish(registry)
        finally:
            consumer.close()

    def _publish(self, registry: Registry) -> None:
        self.registry = registry
        self.error = ""
        self._tell()
