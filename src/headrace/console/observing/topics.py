"""Topics as a list: names, partitions, records, bytes and rates, in a few requests for all."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.clock import Clock, SystemClock
from headrace.errors import HeadraceError
from headrace.kafka import ClusterUnreachable, Partition
from headrace.kafka.connection import Connection, Node, TopicMetadata
from headrace.kafka.messages import request
from headrace.kafka.raw_positions import EARLIEST, LATEST, list_offsets
from headrace.kafka.reachability import reason_nobody_answers

_EVERY: Final = 5
"""Beginnings and sizes change slowly, and are asked for at every fifth look only."""

_RATE_MS: Final = 10_000
"""Over which rates are taken."""

_HISTORY: Final = 120
"""Looks whose totals are remembered, for the chart."""

_PATIENCE_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic."""

    name: str
    partitions: int
    leaderless: int
    """Partitions that nobody leads now."""

    records: int
    """Offsets between the beginnings and the ends; compaction leaves fewer records."""

    size: int | None
    """Bytes on the disks; None if the cluster does not say."""

    rate: float
    """Records per second, lately."""

    internal: bool


@dataclass(frozen=True, slots=True)
class TopicsSample:
    """All topics at one moment."""

    rows: Mapping[str, TopicRow] = field(default_factory=dict)
    ends: Mapping[Partition, int] = field(default_factory=dict)
    brokers: int = 0
    history: tuple[tuple[int, float], ...] = ()
    """Times, and records per second in all topics but those of the cluster itself."""


class TopicsGatherer:
    """Looks at all topics; remembers what rates are taken from. Belongs to one thread."""

    def __init__(self, connection: Connection, *, clock: Clock | None = None) -> None:
        self._connection = connection
        self._clock = clock or SystemClock()
        self._looks = 0
        self._begins: dict[Partition, int] = {}
        self._sizes: dict[str, int] | None = None
        self._before: deque[tuple[int, dict[Partition, int]]] = deque()
        self._history: deque[tuple[int, float]] = deque(maxlen=_HISTORY)

    def gather(self) -> TopicsSample:
        """One look; ClusterUnreachable at once if nobody listens."""
        if reason := reason_nobody_answers(self._connection.bootstrap):
            raise ClusterUnreachable(self._connection.bootstrap, reason)
        topics = self._connection.topics(patience=_PATIENCE_SECONDS)
        led = [
            Partition(topic.name, number)
            for topic in topics.values()
            for number, leader in topic.leaders.items()
            if leader >= 0
        ]
        ends = self._offsets(led, LATEST)
        if self._looks % _EVERY == 0 or any(each not in self._begins for each in ends):
            self._begins = self._offsets(led, EARLIEST)
            self._sizes = self._log_sizes(topics)
        self._looks += 1
        now = self._clock.now_ms()
        rates = self._rates(ends, now)
        rows = {
            name: self._row(topics[name], ends, rates)
            for name in sorted(topics)
            if topics[name].leaders
        }
        nodes = {leader for topic in topics.values() for leader in topic.leaders.values()}
        self._history.append((now, sum(row.rate for row in rows.values() if not row.internal)))
        return TopicsSample(rows, ends, len(nodes - {-1}), tuple(self._history))

    def _offsets(self, partitions: list[Partition], which: int) -> dict[Partition, int]:
        if not partitions:
            return {}
        return list_offsets(self._connection, partitions, which, patience=_PATIENCE_SECONDS)

    def _rates(self, ends: dict[Partition, int], now: int) -> dict[str, float]:
        self._before.append((now, ends))
        while len(self._before) > 2 and now - self._before[1][0] >= _RATE_MS:
            self._before.popleft()
        then, earlier = self._before[0]
        seconds = (now - then) / 1000
        rates: dict[str, float] = {}
        for each, end in ends.items():
            # A topic that was made anew begins at 0 again.
            grown = max(end - earlier.get(each, end), 0)
            rates[each.topic] = rates.get(each.topic, 0.0) + (grown / seconds if seconds else 0.0)
        return rates

    def _row(
        self, topic: TopicMetadata, ends: Mapping[Partition, int], rates: Mapping[str, float]
    ) -> TopicRow:
        mine = [Partition(topic.name, number) for number in topic.leaders]
        return TopicRow(
            topic.name,
            len(topic.leaders),
            sum(leader < 0 for leader in topic.leaders.values()),
            sum(max(ends[each] - self._begins.get(each, 0), 0) for each in mine if each in ends),
            None if self._sizes is None else self._sizes.get(topic.name, 0),
            rates.get(topic.name, 0.0),
            topic.internal or topic.name.startswith("__"),
        )

    def _log_sizes(self, topics: Mapping[str, TopicMetadata]) -> dict[str, int] | None:
        """Bytes by topic, of what leaders have; None where one may not ask."""
        leaders = {
            (topic.name, number): leader
            for topic in topics.values()
            for number, leader in topic.leaders.items()
        }
        sizes: dict[str, int] = {}
        for node in {leader for leader in leaders.values() if leader >= 0}:
            try:
                asked = request("describe_log_dirs", 1, topics=None)
                answer = self._connection.ask(Node(node), asked, patience=_PATIENCE_SECONDS)
            except HeadraceError:
                return None
            for result in answer.results:
                for topic in result.topics:
                    for each in topic.partitions:
                        if leaders.get((topic.name, each.partition_index)) == node:
                            sizes[topic.name] = sizes.get(topic.name, 0) + each.partition_size
        return sizes
