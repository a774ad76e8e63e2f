"""What flows and captures tell about themselves, in a topic, so that anybody can see it.

    __headrace_status        compacted, one partition; a record's key is "flow/orders" and the like

A run writes a record when something has changed, at most once an interval, and one now and then
when nothing has: whoever has not been heard of for a while is gone, however that came about. It may
write others beside it, such as "batch/orders/totals/7", when they change. What is in a record is
its writer's affair; `version`, `at_ms`, `host` and `process` are in all of them.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

import orjson

from headrace.clock import Clock, SystemClock
from headrace.errors import HeadraceError
from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import UnknownTopic
from headrace.kafka.positions import AtTime, find_offsets
from headrace.kafka.reader import Reader
from headrace.kafka.topics import ensure_topic, partitions_of

if TYPE_CHECKING:
    from confluent_kafka import Message, Producer

TOPIC: Final = "__headrace_status"

VERSION: Final = 1
"""Of the records; a reader skips those of a later one."""

HEARTBEAT_MS: Final = 5_000
"""After which a record is written even if nothing has changed."""

SILENCE_MS: Final = 20_000
"""After which whoever has not been heard of counts as gone."""

REMEMBERED_MS: Final = 24 * 3600_000
"""How far back a reader looks."""

_CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
}
_LAST_SECONDS: Final = 2.0
"""How long the last record may take at the end."""

logger = logging.getLogger(__name__)

Status = Mapping[str, Any]

Description = Callable[[], Mapping[str, Status]]
"""What there is to tell at this moment, by key and without the time."""


class StatusReporter:
    """Tells about one run until it is closed; what goes wrong never harms the run.

    Args:
        cluster: Where to tell it.
        key: Whose status it is, such as "flow/orders"; only this one is told again unchanged.
        describe: Asked for what there is to tell, from a thread of the reporter.
        interval_ms: Time between two looks.
        clock: The time.
    """

    def __init__(
        self,
        cluster: Cluster,
        key: str,
        describe: Description,
        *,
        interval_ms: int,
        clock: Clock | None = None,
    ) -> None:
        self._cluster = cluster
        self._key = key
        self._describe = describe
        self._interval = interval_ms / 1000
        self._clock = clock or SystemClock()
        self._producer: Producer | None = None
        self._told: Mapping[str, Status] = {}
        self._told_ms = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"status {key}", daemon=True)

    def start(self) -> Self:
        """Begin to tell."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Tell how it ended, and stop."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            self._tell()
            self._over.wait(self._interval)
        self._tell()
        if self._producer is not None:
            self._producer.flush(_LAST_SECONDS)

    def _tell(self) -> None:
        now, found = self._clock.now_ms(), self._describe()
        new = {key: each for key, each in found.items() if self._told.get(key) != each}
        if not new and now - self._told_ms < HEARTBEAT_MS:
            return
        try:
            for key, status in {self._key: found[self._key], **new}.items():
                self._write(key, status, now)
        except (HeadraceError, BufferError) as error:
            logger.debug("the status of %s is not told: %s", self._key, error)
        else:
            self._told, self._told_ms = found, now

    def _write(self, key: str, status: Status, now: int) -> None:
        if self._producer is None:
            ensure_topic(self._cluster, TOPIC, partitions=1, config=_CONFIG)
            # What is old by the time it could be sent is better not sent at all.
            self._producer = self._cluster.producer({"message.timeout.ms": HEARTBEAT_MS})
        about = {
            "version": VERSION,
            "at_ms": now,
            "host": socket.gethostname(),
            "process": os.getpid(),
        }
        self._producer.produce(TOPIC, orjson.dumps({**about, **status}), key, partition=0)
        self._producer.poll(0)


class StatusFollower:
    """Reads what everybody tells, from a day ago on; close it. Belongs to one thread."""

    def __init__(self, cluster: Cluster, *, clock: Clock | None = None) -> None:
        self._cluster = cluster
        self._clock = clock or SystemClock()
        self._reader: Reader | None = None
        self._batches: Iterator[list[Message]] = iter(())
        self._found: dict[str, dict[str, Any]] = {}

    def read(self) -> Mapping[str, Mapping[str, Any]]:
        """The last that was told of everything, by key; ClusterError if that cannot be known."""
        try:
            if self._reader is None:
                self._open()
            while messages := next(self._batches, []):
                for message in messages:
                    self._note(message)
        except UnknownTopic:
            # Nobody has told anything yet.
            self.close()
        except HeadraceError:
            self.close()
            raise
        return dict(self._found)

    def close(self) -> None:
        """Let go of the connection; the next reading begins anew."""
        if self._reader is not None:
            self._reader.__exit__(None, None, None)
        self._reader, self._batches = None, iter(())

    def _open(self) -> None:
        since = AtTime(self._clock.now_ms() - REMEMBERED_MS)
        start = find_offsets(self._cluster, partitions_of(self._cluster, TOPIC), since)
        self._reader = Reader(self._cluster, start)
        self._batches = self._reader.batches()
        # The first may take a while to come, and an empty list means that there are no more.
        for messages in self._batches:
            for message in messages:
                self._note(message)
            if messages or self._reader.at_end:
                break

    def _note(self, message: "Message") -> None:
        key, value = message.key(), message.value()
        if not isinstance(key, bytes):
            return
        with suppress(UnicodeDecodeError, orjson.JSONDecodeError):
            name = key.decode()
            told = orjson.loads(value) if isinstance(value, bytes) else None
            if not isinstance(told, dict):
                self._found.pop(name, None)
            elif told.get("version", VERSION + 1) <= VERSION:
                self._found[name] = told
