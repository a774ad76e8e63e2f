"""The offsets that groups have committed; they survive a restart and a crash."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from headrace.broker.groups.consumer.stored import ConsumerGroupChanged
from headrace.broker.groups.entries import (
    Committed,
    Entry,
    GroupConfigured,
    GroupDeleted,
    GroupSettled,
    OffsetsCommitted,
    OffsetsPending,
    OffsetsRemoved,
    PendingEnded,
    TopicPartition,
    decode,
    encode,
)
from headrace.broker.groups.pending import PendingOffsets
from headrace.log import Journal

COMPACTION_FLOOR: Final = 1 << 20
"""A journal with fewer bytes than this is not worth rewriting."""

COMPACTION_RATIO: Final = 10
"""How many times larger than the live offsets a journal may grow."""

_NO_OFFSETS: Final[Mapping[TopicPartition, Committed]] = MappingProxyType({})


class OffsetStore:
    """Committed offsets by group, in memory, with a journal behind them.

    Every change is written to the journal before it can be seen, and is safe once the journal has
    been flushed, for which whoever answers a client waits. A change that the disk refuses raises
    `StorageError` and has not happened.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._offsets: dict[str, dict[TopicPartition, Committed]] = {}
        self._settled: dict[str, GroupSettled] = {}
        self._consumers: dict[str, ConsumerGroupChanged] = {}
        self._configs: dict[str, Mapping[str, str]] = {}
        self._pending = PendingOffsets()
        self._compact_size = 0

    @classmethod
    def open(cls, journal: Journal) -> "OffsetStore":
        """The offsets that a journal tells of."""
        store = cls(journal)
        for payload in journal.entries():
            store._apply(decode(payload))
        store._compact_size = sum(len(encode(entry)) for entry in store._live_entries())
        return store

    def groups(self) -> set[str]:
        """The groups that have offsets, or had members."""
        known = self._offsets.keys() | self._settled.keys() | self._consumers.keys()
        return known | self._pending.groups()

    def topics(self) -> set[str]:
        """The topics that any group has offsets in."""
        committed = {each.topic for offsets in self._offsets.values() for each in offsets}
        return committed | self._pending.topics()

    def history(self, group_id: str) -> GroupSettled | None:
        """How the group's last generation ended up; None if it never had members."""
        return self._settled.get(group_id)

    def consumer_group(self, group_id: str) -> ConsumerGroupChanged | None:
        """All that is known of a group of the consumer kind; None if it is a classic one."""
        return self._consumers.get(group_id)

    def configs(self) -> Mapping[str, Mapping[str, str]]:
        """The groups that have a configuration of their own, and what it says."""
        return self._configs

    def fetch(self, group_id: str) -> Mapping[TopicPartition, Committed]:
        """All offsets of a group; empty if it has none."""
        return self._offsets.get(group_id, _NO_OFFSETS)

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Set offsets of a group, all or none."""
        if offsets:
            self._record(OffsetsCommitted(group_id, tuple(offsets.items())))

    def pending(self, group_id: str) -> frozenset[TopicPartition]:
        """The partitions for which open transactions have sent offsets of a group."""
        return self._pending.of_group(group_id)

    def pending_producers(self) -> frozenset[int]:
        """The producers whose open transactions have sent offsets."""
        return self._pending.producers()

    def send(
        self, group_id: str, producer_id: int, offsets: Mapping[TopicPartition, Committed]
    ) -> None:
        """Keep offsets of a group until the producer's transaction ends, all or none."""
        if offsets:
            self._record(OffsetsPending(group_id, producer_id, tuple(offsets.items())))

    def end_pending(self, producer_id: int, *, commit: bool) -> None:
        """Write down that a producer's transaction has ended; `reveal_pending` lets it show."""
        self.journal.append(encode(PendingEnded(producer_id, commit)))
        self._pending.decide(producer_id, commit)

    def reveal_pending(self, producer_id: int, *, commit: bool) -> None:
        """Put the offsets that a producer's transaction has sent into force, or forget them."""
        self._apply(PendingEnded(producer_id, commit))

    def remove(self, group_id: str, partitions: Collection[TopicPartition]) -> None:
        """Forget offsets of a group; those it does not have are no concern."""
        pending = self._pending.of_group(group_id)
        known = tuple(
            each for each in partitions if each in self.fetch(group_id) or each in pending
        )
        if known:
            self._record(OffsetsRemoved(group_id, known))

    def settle(self, entry: GroupSettled | ConsumerGroupChanged) -> None:
        """Remember where a group stands; it is then a group of the kind that the entry is for."""
        self._record(entry)

    def configure(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Give a group a configuration of its own, in place of the one it had."""
        self._record(GroupConfigured(group_id, dict(configs)))

    def delete_group(self, group_id: str) -> None:
        """Forget everything about a group."""
        if group_id in self.groups():
            self._record(GroupDeleted(group_id))

    def forget_topic(self, topic: str) -> None:
        """Forget every group's offsets in a topic, which has been deleted."""
        for group_id, offsets in tuple(self._offsets.items()):
            self.remove(group_id, [each for each in offsets if each.topic == topic])
        for group_id in self._pending.groups():
            sent = self._pending.of_group(group_id)
            self.remove(group_id, [each for each in sent if each.topic == topic])

    def compact_if_due(self) -> bool:
        """Rewrite the journal if most of it is history; blocks on the disk while it does.

        The cost is that of writing the live offsets once, spread over the commits that made the
        journal `COMPACTION_RATIO` times larger than it was after the last rewrite.
        """
        if self.journal.size < max(COMPACTION_FLOOR, COMPACTION_RATIO * self._compact_size):
            return False
        self.journal.rewrite(map(encode, self._live_entries()))
        self._compact_size = self.journal.size
        return True

    def _live_entries(self) -> Iterator[Entry]:
        yield from itertools.starmap(GroupConfigured, self._configs.items())
        yield from self._settled.values()
        yield from self._consumers.values()
        for group_id, offsets in self._offsets.items():
            yield OffsetsCommitted(group_id, tuple(offsets.items()))
        yield from self._pending.entries()

    def _record(self, entry: Entry) -> None:
        self.journal.append(encode(entry))
        self._apply(entry)

    def _apply(self, entry: Entry) -> None:
        match entry:
            case OffsetsCommitted(group_id, offsets):
                self._offsets.setdefault(group_id, {}).update(offsets)
                # What is committed later counts, whatever becomes of the transaction.
                self._pending.forget(group_id, dict(offsets))
            case OffsetsPending():
                self._pending.add(entry)
            case PendingEnded(producer_id, commit):
                for sent in self._pending.end(producer_id):
                    if commit:
                        self._offsets.setdefault(sent.group_id, {}).update(sent.offsets)
            case OffsetsRemoved(group_id, partitions):
                self._forget(group_id, partitions)
                self._pending.forget(group_id, partitions)
            case GroupSettled(group_id):
                self._settled[group_id] = entry
                self._consumers.pop(group_id, None)
            case ConsumerGroupChanged(group_id):
                self._consumers[group_id] = entry.after(self._consumers.get(group_id))
                self._settled.pop(group_id, None)
            case GroupConfigured(group_id, configs):
                self._configs.pop(group_id, None)
                if configs:
                    self._configs[group_id] = configs
            case GroupDeleted(group_id):
                self._offsets.pop(group_id, None)
                self._settled.pop(group_id, None)
                self._consumers.pop(group_id, None)
                self._pending.forget(group_id, self._pending.of_group(group_id))

    def _forget(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        remaining = self._offsets.get(group_id, {})
        for each in partitions:
            remaining.pop(each, None)
        if not remaining:
            self._offsets.pop(group_id, None)
