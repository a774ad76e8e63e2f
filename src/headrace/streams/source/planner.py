"""What the next batch reads: decided on the driver, between two batches.

Everything that a batch depends on is in the offsets that end it (`offsets`), so nothing here has to
be remembered across a restart.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.clock import Clock, SystemClock
from headrace.kafka import ClusterUnreachable, Partition, UnknownTopic
from headrace.kafka.connection import Connection, TopicMetadata, connect
from headrace.kafka.gaps import OffsetsGone
from headrace.kafka.raw_positions import EARLIEST, LATEST, list_offsets
from headrace.kafka.reachability import reason_nobody_answers
from headrace.streams.source.admission import Pace, admit
from headrace.streams.source.errors import PartitionShrunk, TopicGone, TopicReplaced
from headrace.streams.source.offsets import SourceOffsets
from headrace.streams.source.options import SourceOptions
from headrace.streams.source.splits import Range, split
from headrace.streams.source.starting import Bound, find_bound

_CHECK_SECONDS = 3.0
"""How long somebody who listens may take to answer like a broker, before a query is started."""

logger = logging.getLogger(__name__)


class Planner:
    """Decides where batches begin and end."""

    def __init__(
        self,
        options: SourceOptions,
        *,
        connection: Connection | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._options = options
        self._connection = connection or connect(options.kafka)
        self._clock = clock or SystemClock()
        rate = options.max_records_per_second
        self._pace = None if rate is None else Pace(rate, self._clock)
        self._until: Mapping[Partition, int] | None = None
        self._away: set[str] = set()
        self.latest_seen: Mapping[Partition, int] = {}
        """Where partitions ended when this was last looked at."""

    def check(self) -> None:
        """Raise `UnknownTopic` or `ClusterUnreachable` if there is nothing to read from.

        Unlike a running query, whoever starts one is told at once if nobody answers.
        """
        if reason := reason_nobody_answers(self._connection.bootstrap):
            raise ClusterUnreachable(self._connection.bootstrap, reason)
        self._connection.topics(self._options.topics or None, patience=_CHECK_SECONDS)
        self._topics()

    def initial(self) -> SourceOffsets:
        """Where a new query begins, in all partitions that there are."""
        topics = self._topics()
        starts = self._find(self._options.start, topics)
        # As begins too: of a first batch that is run again, Spark only knows how it ends.
        return SourceOffsets(offsets=starts, ids=_ids(topics.values()), begins=starts)

    def bounded(self) -> list[tuple[Range, ...]]:
        """The tasks of a batch read, from one bound to the other."""
        topics = self._topics()
        starts = self._find(self._options.start, topics)
        ends = self._find(self._options.end, topics, otherwise=LATEST)
        return split(starts, ends, self._options.parallelism)

    def stop_at_latest(self) -> None:
        """From now on, nothing that comes later is read."""
        # Whether all are there is looked at with every batch.
        self._until = self._ends(_partitions(self._listed().values()))

    def next(self, start: SourceOffsets, limit: int | None) -> SourceOffsets:
        """The end of the next batch; `start` itself if there is nothing new."""
        if self._options.hold_first and start.clock is None:
            return replace(start, begins=_unmoved(start), clock=self._now(start))
        topics = self._topics(start)
        ends = self._ends(_partitions(topics.values()))
        self.latest_seen = ends
        if self._until is not None:
            ends = {each: min(end, self._until.get(each, 0)) for each, end in ends.items()}
        moved = self._begins(start, topics, ends)
        going_on = {each: moved.get(each, start.offsets.get(each, 0)) for each in ends}
        backlog = {each: max(end - going_on[each], 0) for each, end in ends.items()}
        granted = admit(backlog, self._limit(limit))
        if not moved and not any(granted.values()):
            return self._ticked(start)
        ids = {**start.ids, **_ids(topics.values())}
        read = {each: going_on[each] + granted[each] for each in ends}
        return SourceOffsets(
            offsets={**_out_of_sight(start, ends, ids), **read},
            ids=ids,
            begins={**_unmoved(start), **moved},
            lost=_add_lost(start, moved, ids),
            tasks=self._options.parallelism,
            clock=self._now(start),
        )

    def _now(self, start: SourceOffsets) -> int | None:
        """The clock of a batch, which does not go back from one to the next."""
        if not (self._options.tells_time or self._options.hold_first):
            return None
        return max(self._clock.now_ms(), start.clock or 0)

    def _ticked(self, start: SourceOffsets) -> SourceOffsets:
        """A batch of nothing but the clock, if it is time for one; else `start` itself.

        Whoever reads what is there and then stops wants no such batches: they would never end.
        """
        tick, now = self._options.time_tick_ms, self._now(start)
        if tick is None or now is None or start.clock is None or self._until is not None:
            return start
        if now - start.clock < tick:
            return start
        return replace(start, begins=_unmoved(start), clock=now)

    def _limit(self, limit: int | None) -> int | None:
        limits = [limit, self._pace.allowance() if self._pace else None]
        return min((each for each in limits if each is not None), default=None)

    def _topics(self, start: SourceOffsets | None = None) -> dict[str, TopicMetadata]:
        """The topics to read; those of the batch before must still be the same."""
        options, topics = self._options, self._listed()
        read_before = set() if start is None else {each.topic for each in start.offsets}
        for name in sorted((set(options.topics) | read_before) - topics.keys()):
            if name not in read_before:
                raise UnknownTopic(name)
            if options.on_gap == "fail":
                raise TopicGone(name)
            if name not in self._away:
                logger.warning("the topic %s is not there; going on without it", name)
        self._away = read_before - topics.keys()
        return topics

    def _listed(self) -> dict[str, TopicMetadata]:
        """Those of the topics to read that the cluster has now."""
        options = self._options
        return {
            name: topic
            for name, topic in self._connection.topics(options.topics or None).items()
            if options.wants(name) and not (options.pattern and topic.internal)
        }

    def _begins(
        self,
        start: SourceOffsets,
        topics: Mapping[str, TopicMetadata],
        ends: Mapping[Partition, int],
    ) -> dict[Partition, int]:
        """Where partitions begin that do not simply go on, because they are new or have a gap."""
        replaced = {
            name
            for name, topic in topics.items()
            if start.ids.get(name, str(topic.id)) != str(topic.id)
        }
        if replaced and self._options.on_gap == "fail":
            raise TopicReplaced(min(replaced))
        new = {each for each in ends if each not in start.offsets or each.topic in replaced}
        shrunk = {each for each in ends.keys() - new if self._is_shrunk(each, start, ends[each])}
        moved = [each for each in ends if each in new or start.offsets[each] < ends[each]]
        first = list_offsets(self._connection, moved, EARLIEST) if moved else {}
        begins = {each: ends[each] for each in shrunk} | {each: first[each] for each in new}
        for each in first.keys() - new:
            if (read := start.offsets[each]) < first[each]:
                gone = OffsetsGone(each, read, first[each] - 1, first[each])
                if self._options.on_gap == "fail":
                    raise gone
                logger.warning("skipping: %s", gone)
                begins[each] = first[each]
        return begins

    def _is_shrunk(self, partition: Partition, start: SourceOffsets, end: int) -> bool:
        """Whether a partition ends before what was read; a target in the past does not count."""
        read = start.offsets[partition]
        if end >= read or self.latest_seen[partition] >= read:
            return False
        if self._options.on_gap == "fail":
            raise PartitionShrunk(partition, read, end)
        logger.warning("skipping: %s", PartitionShrunk(partition, read, end))
        return True

    def _find(
        self, bound: Bound, topics: Mapping[str, TopicMetadata], *, otherwise: int = EARLIEST
    ) -> dict[Partition, int]:
        return find_bound(
            self._connection,
            _partitions(topics.values()),
            bound,
            self._options.isolation,
            otherwise=otherwise,
        )

    def _ends(self, partitions: list[Partition]) -> dict[Partition, int]:
        isolation = self._options.isolation
        return list_offsets(self._connection, partitions, LATEST, isolation=isolation)


def tasks_between(start: SourceOffsets, end: SourceOffsets) -> list[tuple[Range, ...]]:
    """What each task of a batch reads; a function of its offsets alone."""
    return split({**start.offsets, **end.begins}, end.offsets, end.tasks)


def _partitions(topics: Iterable[TopicMetadata]) -> list[Partition]:
    return [Partition(topic.name, number) for topic in topics for number in sorted(topic.leaders)]


def _ids(topics: Iterable[TopicMetadata]) -> dict[str, str]:
    return {topic.name: str(topic.id) for topic in topics if topic.id is not None}


def _out_of_sight(
    start: SourceOffsets, seen: Mapping[Partition, int], ids: Mapping[str, str]
) -> dict[Partition, int]:
    """Where to go on in what the cluster does not list now, if the same topics are back."""
    return {
        each: offset
        for each, offset in start.offsets.items()
        if each not in seen and start.ids.get(each.topic) == ids.get(each.topic)
    }


def _unmoved(offsets: SourceOffsets) -> dict[Partition, int]:
    """Where partitions begin of which nothing was read yet.

    The first batch has no other that says where it begins, and to find the start anew could find
    another one.
    """
    return {
        each: begin for each, begin in offsets.begins.items() if offsets.offsets.get(each) == begin
    }


def _add_lost(
    start: SourceOffsets, begins: Mapping[Partition, int], ids: Mapping[str, str]
) -> dict[Partition, int]:
    """Add to what was lost before what lies between the last batch and this one."""
    lost = dict(start.lost)
    for partition, begin in begins.items():
        same_topic = start.ids.get(partition.topic) == ids.get(partition.topic)
        skipped = begin - start.offsets.get(partition, begin)
        if same_topic and skipped > 0:
            lost[partition] = lost.get(partition, 0) + skipped
    return lost
