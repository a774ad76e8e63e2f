"""Writing records for somebody: one that was typed in, or dead letters sent back."""

from collections.abc import Iterable, Sequence
from typing import Final

from headrace.console.observing.records import RecordSeen
from headrace.errors import HeadraceError
from headrace.kafka import Cluster, ClusterError

DEAD_LETTER_HEADERS: Final = "headrace."
"""How the headers begin that a dead letter has besides its own."""

_ORIGIN: Final = "headrace.topic"
_REASON: Final = "headrace.reason"


class NoDeadLetter(HeadraceError):
    """A record that does not say which topic it came from."""


def produce(
    cluster: Cluster,
    topic: str,
    value: bytes | None,
    key: bytes | None = None,
    headers: Sequence[tuple[str, bytes | None]] = (),
    partition: int | None = None,
) -> tuple[int, int]:
    """Write one record; where it lies now, as partition and offset."""
    (place,) = _produce(cluster, [(topic, value, key, headers, partition)])
    return place


def origin_of(record: RecordSeen) -> str | None:
    """The topic that a dead letter came from; None if it is none."""
    return next((text for name, text in record.headers if name == _ORIGIN), None)


def reason_of(record: RecordSeen) -> str:
    """Why a dead letter was rejected, the last time it was."""
    return next((text for name, text in reversed(record.headers) if name == _REASON), "")


def redrive(cluster: Cluster, records: Iterable[RecordSeen]) -> int:
    """Write dead letters once more to the topics they came from, as they were; how many.

    The letters stay where they are: what is read again and again is a log.
    """
    wanted = []
    for record in records:
        if (topic := origin_of(record)) is None:
            raise NoDeadLetter(f"{record.place} has no header {_ORIGIN}: it is no dead letter.")
        kept = [each for each in record.raw_headers if not each[0].startswith(DEAD_LETTER_HEADERS)]
        wanted.append((topic, record.raw_value, record.raw_key, kept, None))
    return len(_produce(cluster, wanted))


_Outgoing = tuple[str, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int | None]


def _produce(cluster: Cluster, records: Sequence[_Outgoing]) -> list[tuple[int, int]]:
    producer = cluster.producer({"enable.idempotence": True})
    places: list[tuple[int, int]] = []
    failures: list[ClusterError] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failures.append(cluster.failure(error, "write a record"))  # type: ignore[arg-type]
        else:
            places.append((message.partition(), message.offset()))  # type: ignore[attr-defined]

    for topic, value, key, headers, partition in records:
        producer.produce(
            topic,
            value,
            key,
            partition=-1 if partition is None else partition,
            headers=list(headers),
            on_delivery=delivered,
        )
    left = producer.flush(cluster.timeout)
    if failures:
        raise failures[0]
    if left:
        raise ClusterError(f"The cluster at {cluster.bootstrap} did not take {left} records.")
    return places
