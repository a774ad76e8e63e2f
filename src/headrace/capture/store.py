"""The topics in which captures keep what they remember, and people leave what they want.

Each capture has a small compacted topic of its own, with one partition. Its state is written by its
transactional producer, in the transaction of the records that it goes with; wishes are written by
whoever has them. A topic of its own, because a transaction that nobody ends hides what comes behind
it from readers: that of a capture which was killed must not hold up another one.
"""

import re
import time
from collections.abc import Iterable, Iterator
from typing import Final

from headrace.capture.state import CaptureState, Wishes
from headrace.kafka import (
    Cluster,
    ClusterError,
    Isolation,
    Partition,
    Reader,
    UnknownTopic,
    delete_topic,
    ensure_topic,
    list_topics,
    offset_ranges,
)

STATE: Final = b"state"
"""The key of a capture's state."""

_WISHES: Final = b"wishes"
_PREFIX: Final = "__headrace_capture."
_CONFIG: Final = {"cleanup.policy": "compact", "max.message.bytes": str(16 << 20)}
_PATIENCE_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.02


def store_of(name: str) -> str:
    """The topic of a capture.

    >>> store_of("shop")
    '__headrace_capture.shop'
    """
    return _PREFIX + re.sub(r"[^a-zA-Z0-9._-]", "_", name)


def ensure_store(cluster: Cluster, name: str) -> None:
    """Make the topic of a capture unless it is there."""
    ensure_topic(cluster, store_of(name), partitions=1, config=_CONFIG)


class Stored:
    """What is kept about one capture."""

    def __init__(self, found: dict[bytes, bytes]) -> None:
        self._found = found

    @property
    def state(self) -> CaptureState | None:
        """What it remembers; None if it never ran."""
        found = self._found.get(STATE)
        return None if found is None else CaptureState.from_bytes(found)

    @property
    def wishes(self) -> Wishes:
        """What people want of it."""
        found = self._found.get(_WISHES)
        return Wishes() if found is None else Wishes.from_bytes(found)


def read_store(cluster: Cluster, name: str, *, settled: bool = False) -> Stored:
    """What is kept about a capture; nothing if there is no such capture.

    Args:
        cluster: Where it runs.
        name: The capture.
        settled: Whether the end of transactions that are under way is waited for. Whoever goes on
            from the state needs that, and has fenced all others, so that it does not take long.
    """
    where = Partition(store_of(name), 0)
    try:
        held = offset_ranges(cluster, [where])[where]
        end = _stable(cluster, where)
    except UnknownTopic:
        return Stored({})
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while settled and end < held.latest:
        if time.monotonic() > deadline:
            raise ClusterError(f"A transaction in {where} does not end; try again later.")
        time.sleep(_PAUSE_SECONDS)
        end = _stable(cluster, where)
    return _read(cluster, {where: held.earliest}, {where: end})[where.topic]


def read_stores(cluster: Cluster) -> list[Stored]:
    """What is kept about all captures that have run on a cluster, as it is now."""
    topics = [each.name for each in list_topics(cluster) if each.name.startswith(_PREFIX)]
    where = [Partition(topic, 0) for topic in topics]
    held = offset_ranges(cluster, where, isolation=Isolation.READ_COMMITTED)
    start = {each: held[each].earliest for each in where}
    return list(_read(cluster, start, {each: held[each].latest for each in where}).values())


def follow_wishes(cluster: Cluster, names: Iterable[str]) -> Iterator[list[tuple[str, Wishes]]]:
    """Wishes as they come from now on, by the names of captures; a list may be empty."""
    by_topic = {store_of(name): name for name in names}
    where = [Partition(topic, 0) for topic in by_topic]
    start = {each: held.latest for each, held in offset_ranges(cluster, where).items()}
    with Reader(cluster, start) as reader:
        yield []
        for batch in reader.batches():
            yield [
                (by_topic[str(message.topic())], Wishes.from_bytes(value))
                for message in batch
                if message.key() == _WISHES and isinstance(value := message.value(), bytes)
            ]


def write_wishes(cluster: Cluster, name: str, wishes: Wishes) -> None:
    """Leave what is wanted of a capture."""
    topic = store_of(name)
    producer = cluster.producer({"enable.idempotence": True})
    outcome = []
    producer.produce(
        topic,
        wishes.to_bytes(),
        _WISHES,
        partition=0,
        on_delivery=lambda error, _: outcome.append(error),
    )
    producer.flush(cluster.timeout)
    if not outcome:
        raise ClusterError(f"The cluster at {cluster.bootstrap} did not take a record of {topic}.")
    if outcome[0] is not None:
        raise cluster.failure(outcome[0], f"write to {topic}", topic=topic)


def forget(cluster: Cluster, name: str) -> bool:
    """Remove all that is kept about a capture; False if there was nothing."""
    try:
        delete_topic(cluster, store_of(name))
    except UnknownTopic:
        return False
    return True


def _read(
    cluster: Cluster, start: dict[Partition, int], end: dict[Partition, int]
) -> dict[str, Stored]:
    """The last records of keys between two places, by topic."""
    found: dict[str, dict[bytes, bytes]] = {each.topic: {} for each in start}
    with Reader(cluster, start, end=end) as reader:
        for batch in reader.batches():
            for message in batch:
                key, value = message.key(), message.value()
                if isinstance(key, bytes) and isinstance(value, bytes):
                    found[str(message.topic())][key] = value
    return {topic: Stored(records) for topic, records in found.items()}


def _stable(cluster: Cluster, where: Partition) -> int:
    return offset_ranges(cluster, [where], isolation=Isolation.READ_COMMITTED)[where].latest
