"""Groups that were overtaken: records they had not read yet are gone.

A log with retention is a ring buffer, and a ring buffer drops the oldest records whether or not
somebody still wanted them. That is its purpose, but it must not happen silently.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from headrace.broker.groups.entries import TopicPartition
from headrace.broker.groups.offsets import OffsetStore

log = logging.getLogger("headrace.broker")


class Overtaken(NamedTuple):
    """What a group has lost in one partition since the broker started."""

    group_id: str
    where: TopicPartition
    records: int


class OvertakenGroups:
    """Counts, for every group and partition, offsets that were removed before the group read them.

    It is shown each partition's log start whenever that may have moved, by whatever cause, and
    charges every group whose committed offset lies before the new one. An offset that is committed
    below the log start later on loses nothing by that: only a removal counts. The first loss is
    logged, further ones only after the group had caught up in between.
    """

    def __init__(self, offsets: OffsetStore, starts: Iterable[tuple[TopicPartition, int]]) -> None:
        self._offsets = offsets
        self._starts = dict(starts)
        self._lost: dict[tuple[str, TopicPartition], int] = {}
        self._warned: set[tuple[str, TopicPartition]] = set()

    def observe(self, where: TopicPartition, start: int) -> None:
        """Take note of where a partition's log starts now; costs nothing if it has not moved."""
        before = self._starts.get(where, 0)
        if start <= before:
            return
        self._starts[where] = start
        for group_id in self._offsets.groups():
            committed = self._offsets.fetch(group_id).get(where)
            if committed is not None:
                self._charge(group_id, where, committed.offset, before, start)

    def forget_topic(self, topic: str) -> None:
        """Let go of a topic that has been deleted; one of the same name starts at 0 again."""
        self._starts = {each: at for each, at in self._starts.items() if each.topic != topic}
        for key in [each for each in self._lost if each[1].topic == topic]:
            self._forget(key)

    def __iter__(self) -> Iterator[Overtaken]:
        """All losses of groups that still have an offset in the partition."""
        for key in [each for each in self._lost if each[1] not in self._offsets.fetch(each[0])]:
            self._forget(key)
        return (Overtaken(*key, records) for key, records in self._lost.items())

    def _charge(
        self, group_id: str, where: TopicPartition, committed: int, before: int, start: int
    ) -> None:
        key = (group_id, where)
        if committed >= before:
            self._warned.discard(key)
        lost = start - max(committed, before)
        if lost <= 0:
            return
        self._lost[key] = self._lost.get(key, 0) + lost
        if key not in self._warned:
            self._warned.add(key)
            log.warning(
                "group %s had not read %d offsets of %s-%d that are gone now: it is at %d, and the "
                "log starts at %d; a longer retention would have kept them",
                group_id,
                lost,
                where.topic,
                where.partition,
                committed,
                start,
            )

    def _forget(self, key: tuple[str, TopicPartition]) -> None:
        self._lost.pop(key, None)
        self._warned.discard(key)
