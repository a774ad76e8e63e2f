"""Reading a topic into a store, for ever: one thread for each view.

Only what is committed is read. A batch is what the client library has at hand, so batches grow with
the backlog and are small, and soon there, when there is none.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from headrace.clock import Clock, SystemClock
from headrace.errors import HeadraceError
from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import ClusterError, UnknownTopic
from headrace.kafka.positions import Partition
from headrace.kafka.topic_config import topic_config
from headrace.kafka.topics import partitions_of
from headrace.views.errors import StoreDamaged, StoreUnavailable
from headrace.views.materialized.description import ViewDescription
from headrace.views.materialized.records import Incoming, Rejected, RowReader
from headrace.views.materialized.store import AppliedBatch, Store, StoreState

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

logger = logging.getLogger(__name__)

_BATCH: Final = 5_000
"""Records applied at a time, at most."""

_IDLE_SECONDS: Final = 0.1
_LINGER_SECONDS: Final = 0.002
"""How long a batch that would be small waits for others, so that many small ones become few."""

_LOOK_SECONDS: Final = 0.25
"""Between two looks at how far the ends are."""

_PARTITIONS_SECONDS: Final = 30.0
"""Between two looks for new partitions."""

_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds before another try, when something failed again and again."""


class Restart(Exception):
    """The store has to be begun anew; the text says why."""


@dataclass(frozen=True, slots=True)
class Following:
    """How the reading of a topic stands."""

    state: StoreState
    ends: Mapping[int, int]
    """Where the partitions end, as far as is known."""

    error: str = ""
    """Why nothing is read at the moment, if so."""

    rebuilt: str = ""
    """Why the store was begun anew while this server runs, if it was."""

    applied_ms: int = 0
    """The time of the last record that was applied."""

    @property
    def lag(self) -> int:
        """Records that are there and not applied yet."""
        reached = self.state.offsets
        return sum(max(end - reached.get(number, 0), 0) for number, end in self.ends.items())


class Follower:
    """Keeps the store of a view up to date, until it is told to stop."""

    def __init__(
        self,
        description: ViewDescription,
        store: Store,
        cluster: Cluster,
        *,
        history: int,
        tell: Callable[[AppliedBatch], None] = lambda applied: None,
        clock: Clock | None = None,
    ) -> None:
        self.description = description
        self.store = store
        self._cluster = cluster
        self._history = history
        self._tell = tell
        self._clock = clock or SystemClock()
        self._stop = threading.Event()
        self._opened = threading.Event()
        self._reader = RowReader(description)
        self._ended: set[int] = set()
        self._looked = self._assigned = 0.0
        self._failures = 0
        self._reopen = True
        self.now = Following(StoreState(""), {})
        """How it stands; replaced as a whole, and read from any thread."""
        self._thread = threading.Thread(
            target=self._live, name=f"view-{description.name}", daemon=True
        )

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the batch at hand, and close the store."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.store.close()

    def wait_open(self, seconds: float) -> bool:
        """Whether the store can be read, after waiting for that."""
        return self._opened.wait(seconds)

    def _live(self) -> None:
        while not self._stop.is_set():
            try:
                if self._reopen:
                    self._open()
                self._follow()
            except (Restart, StoreDamaged) as error:
                self._begin_anew(str(error))
            except (HeadraceError, OSError) as error:
                self._note(str(error))
                # What was written last may be there or not; the store knows.
                self._reopen = self._reopen or isinstance(error, StoreUnavailable)
                self._stop.wait(_PAUSES[min(self._failures, len(_PAUSES) - 1)])
                self._failures += 1
            except Exception as error:
                logger.exception("view %s", self.description.name)
                self._note(f"{type(error).__name__}: {error}")
                self._stop.wait(_PAUSES[-1])

    def _open(self) -> None:
        try:
            state = self.store.open(self.description)
        except StoreDamaged as error:
            state = self._anew(str(error))
        self._reopen = False
        self._becomes(state)
        self._opened.set()
        self._tell(AppliedBatch(state, (), history=False))

    def _begin_anew(self, reason: str) -> None:
        try:
            state = self._anew(reason)
        except (HeadraceError, OSError) as error:
            self._note(str(error))
            self._stop.wait(_PAUSES[-1])
            return
        self._reopen = False
        self._becomes(state)
        self._opened.set()
        self._tell(AppliedBatch(state, (), history=False))

    def _anew(self, reason: str) -> StoreState:
        logger.warning("view %s is built anew: %s", self.description.name, reason)
        self._ended.clear()
        state = self.store.reset(self.description, reason)
        self.now = replace(self.now, rebuilt=reason)
        return state

    def _becomes(self, state: StoreState) -> None:
        self._reader = RowReader(self.description, state.columns)
        self.now = replace(self.now, state=state, error="")

    def _note(self, error: str) -> None:
        self.now = replace(self.now, error=error)

    def _follow(self) -> None:
        partitions = self._partitions()
        self._ended.clear()
        self._require_tombstones()
        consumer = self._cluster.consumer(
            {
                "group.id": "headrace-view",  # demanded by the client library, never joined
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "fetch.queue.backoff.ms": 10,
                "queued.max.messages.kbytes": 16_384,
            }
        )
        try:
            self._assign(consumer, partitions)
            while not self._stop.is_set():
                self._take(consumer)
                self._mind(consumer)
        finally:
            consumer.close()

    def _partitions(self) -> list[int]:
        try:
            return [each.number for each in partitions_of(self._cluster, self.description.topic)]
        except UnknownTopic:
            raise ClusterError(
                f"The topic {self.description.topic} is not there yet; the view is filled when "
                "somebody writes it."
            ) from None

    def _require_tombstones(self) -> None:
        """Begin anew if deletions may have been compacted away since the store saw the end."""
        state = self.now.state
        if not state.seen_ms:
            return
        found = topic_config(self._cluster, self.description.topic)
        config = {each.name: each.value for each in found}
        if "compact" not in (config.get("cleanup.policy") or ""):
            return
        kept_ms = int(config.get("delete.retention.ms") or 0)
        if self._clock.now_ms() - state.seen_ms > kept_ms:
            raise Restart(
                f"it was last up to date {(self._clock.now_ms() - state.seen_ms) // 1000} s ago, "
                f"and deletions are kept in {self.description.topic} for {kept_ms // 1000} s only"
            )

    def _assign(self, consumer: "Consumer", partitions: Sequence[int]) -> None:
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        reached, topic = self.now.state.offsets, self.description.topic
        ends: dict[int, int] = {}
        wanted = []
        for number in partitions:
            found = consumer.get_watermark_offsets(
                TopicPartition(topic, number), timeout=self._cluster.timeout
            )
            if found is None:
                raise ClusterError(f"Nobody tells where {Partition(topic, number)} ends.")
            low, high = found
            ends[number] = high
            offset = reached.get(number)
            if offset is not None and (offset > high or offset < low):
                raise Restart(
                    f"{Partition(topic, number)} was applied up to {offset}, and has {low} to "
                    f"{high} now"
                )
            begin = OFFSET_BEGINNING if offset is None else offset
            wanted.append(TopicPartition(topic, number, begin))
        self.now = replace(self.now, ends=ends, error="")
        consumer.assign(wanted)
        self._assigned = self._clock.monotonic()

    def _take(self, consumer: "Consumer") -> None:
        first = consumer.poll(_IDLE_SECONDS)
        if first is None:
            return
        if self.now.lag <= 1:
            self._stop.wait(_LINGER_SECONDS)
        self._apply([first, *consumer.consume(_BATCH - 1, 0)])

    def _apply(self, messages: "list[Message]") -> None:
        incoming: list[Incoming] = []
        offsets: dict[int, int] = {}
        state = self.now.state
        applied_ms = self.now.applied_ms
        for each in messages:
            number, offset = each.partition(), each.offset()
            error = each.error()
            if error is not None:
                if error.name() == "_PARTITION_EOF" and number is not None and offset is not None:
                    self._ended.add(number)
                    offsets[number] = offset
                    continue
                self._raise(error, each)
            assert number is not None
            assert offset is not None
            offsets[number] = offset + 1
            try:
                incoming += self._reader.read(each.key(), each.value(), number, offset)
            except Rejected as reason:
                where = Partition(self.description.topic, number)
                state = replace(
                    state,
                    rejected=state.rejected + 1,
                    rejection=f"{where} offset {offset}: {reason}",
                )
            applied_ms = each.timestamp()[1]
        self._store(incoming, offsets, state, applied_ms)

    def _store(
        self,
        incoming: list[Incoming],
        offsets: Mapping[int, int],
        state: StoreState,
        applied_ms: int,
    ) -> None:
        complete = state.complete or self._ended.issuperset(self.now.ends)
        at_end = all(
            offsets.get(number, state.offsets.get(number, 0)) >= end
            for number, end in self.now.ends.items()
        )
        state = replace(
            state,
            complete=complete,
            columns=tuple(self._reader.columns),
            seen_ms=self._clock.now_ms() if complete and at_end else state.seen_ms,
        )
        backlog = self.now.lag - len(incoming) > self._history
        applied = self.store.apply(incoming, offsets, state=state, history=not backlog)
        self._failures = 0
        self.now = replace(self.now, state=applied.state, error="", applied_ms=applied_ms)
        self._tell(applied)

    def _raise(self, error: object, message: "Message") -> None:
        from confluent_kafka import KafkaError

        assert isinstance(error, KafkaError)
        topic = self.description.topic
        if error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
            where = Partition(topic, message.partition() or 0)
            raise Restart(f"{where} no longer has what comes next")
        raise self._cluster.failure(error, f"read {topic}", topic=topic)

    def _mind(self, consumer: "Consumer") -> None:
        """Look now and then how far the ends are, and whether there are more of them."""
        from confluent_kafka import TopicPartition

        now = self._clock.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        topic = self.description.topic
        ends = dict(self.now.ends)
        for number, end in self.now.ends.items():
            found = consumer.get_watermark_offsets(TopicPartition(topic, number), cached=True)
            if found is not None:
                ends[number] = max(end, found[1])
        self.now = replace(self.now, ends=ends)
        if now - self._assigned > _PARTITIONS_SECONDS:
            partitions = self._partitions()
            if len(partitions) != len(ends):
                self._assign(consumer, partitions)
            self._assigned = now
