"""The topic in which captures keep what they remember, and people leave what they want.

One compacted topic for all captures of a cluster. The state of a capture is written by its
transactional producer, in the transaction of the records that it goes with; wishes are written by
whoever has them.
"""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from headrace.capture.state import CaptureState, Wishes
from headrace.kafka import (
    Cluster,
    ClusterError,
    Isolation,
    Partition,
    Reader,
    UnknownTopic,
    ensure_topic,
    offset_ranges,
)

if TYPE_CHECKING:
    from confluent_kafka import Message

TOPIC: Final = "__headrace_captures"
"""Its name."""

_CONFIG: Final = {"cleanup.policy": "compact", "max.message.bytes": str(16 << 20)}
_WHERE: Final = Partition(TOPIC, 0)
_WISHES: Final = "/wishes"
_PATIENCE_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.02


def state_key(name: str) -> bytes:
    """Where a capture's state is."""
    return name.encode()


def wishes_key(name: str) -> bytes:
    """Where the wishes about a capture are."""
    return f"{name}{_WISHES}".encode()


def ensure_store(cluster: Cluster) -> None:
    """Make the topic unless it is there."""
    ensure_topic(cluster, TOPIC, partitions=1, config=_CONFIG)


class Stored:
    """What was in the topic at some moment."""

    def __init__(self, found: dict[bytes, bytes], end: int) -> None:
        self._found = found
        self.end = end
        """The offset behind it, from which one can follow."""

    def names(self) -> list[str]:
        """The captures that there are."""
        names = (key.decode() for key in self._found)
        return sorted(name for name in names if not name.endswith(_WISHES))

    def state(self, name: str) -> CaptureState | None:
        """What a capture remembers; None if it never ran."""
        found = self._found.get(state_key(name))
        return None if found is None else CaptureState.from_bytes(found)

    def wishes(self, name: str) -> Wishes:
        """What people want of a capture."""
        found = self._found.get(wishes_key(name))
        return Wishes() if found is None else Wishes.from_bytes(found)


def read_store(cluster: Cluster) -> Stored:
    """Everything in the topic, up to the last record that was written before the call.

    Of transactions that are under way, the end is awaited: what they decide may be ours.
    """
    try:
        held = offset_ranges(cluster, [_WHERE])[_WHERE]
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (stable := _stable(cluster)) < held.latest:
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"A transaction in {TOPIC} does not end; another capture may hang. Look at "
                    "`headrace capture status`."
                )
            time.sleep(_PAUSE_SECONDS)
    except UnknownTopic:
        return Stored({}, 0)
    found: dict[bytes, bytes] = {}
    with Reader(cluster, {_WHERE: held.earliest}, end={_WHERE: held.latest}) as reader:
        for batch in reader.batches():
            _apply(batch, found)
    return Stored(found, stable)


def follow_wishes(cluster: Cluster, start: int) -> Iterator[list[tuple[str, Wishes]]]:
    """Wishes as they come, by the names of captures; a list may be empty."""
    with Reader(cluster, {_WHERE: start}) as reader:
        for batch in reader.batches():
            found: dict[bytes, bytes] = {}
            _apply(batch, found)
            yield [
                (key.decode().removesuffix(_WISHES), Wishes.from_bytes(value))
                for key, value in found.items()
                if key.endswith(_WISHES.encode())
            ]


def write_wishes(cluster: Cluster, name: str, wishes: Wishes | None) -> None:
    """Leave what is wanted of a capture; None takes back everything."""
    _write(cluster, wishes_key(name), None if wishes is None else wishes.to_bytes())


def forget(cluster: Cluster, name: str) -> None:
    """Remove all that is kept about a capture."""
    _write(cluster, state_key(name), None)
    _write(cluster, wishes_key(name), None)


def _write(cluster: Cluster, key: bytes, value: bytes | None) -> None:
    producer = cluster.producer({"enable.idempotence": True})
    failures = []
    producer.produce(
        TOPIC, value, key, partition=0, on_delivery=lambda error, _: failures.append(error)
    )
    producer.flush(cluster.timeout)
    if not failures:
        raise ClusterError(f"The cluster at {cluster.bootstrap} did not take a record of {TOPIC}.")
    if failures[0] is not None:
        raise cluster.failure(failures[0], f"write to {TOPIC}", topic=TOPIC)


def _stable(cluster: Cluster) -> int:
    return offset_ranges(cluster, [_WHERE], isolation=Isolation.READ_COMMITTED)[_WHERE].latest


def _apply(batch: "list[Message]", found: dict[bytes, bytes]) -> None:
    for message in batch:
        key, value = message.key(), message.value()
        if not isinstance(key, bytes):
            continue
        if isinstance(value, bytes):
            found[key] = value
        else:
            found.pop(key, None)
