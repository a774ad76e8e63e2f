"""Offsets that transactions have sent and that do not count yet."""

from collections.abc import Container, Iterator

from headrace.broker.groups.entries import (
    Committed,
    Entry,
    OffsetsPending,
    PendingEnded,
    TopicPartition,
)


class PendingOffsets:
    """The offsets that open transactions have sent, by producer and group."""

    def __init__(self) -> None:
        self._sent: dict[int, dict[str, dict[TopicPartition, Committed]]] = {}
        # Transactions whose end is written down but does not show yet.
        self._decided: dict[int, bool] = {}

    def groups(self) -> set[str]:
        """The groups that have any."""
        return {group_id for sent in self._sent.values() for group_id in sent}

    def producers(self) -> frozenset[int]:
        """The producers that have sent any."""
        return frozenset(self._sent)

    def topics(self) -> set[str]:
        """The topics that there are any for."""
        groups = [group for sent in self._sent.values() for group in sent.values()]
        return {each.topic for offsets in groups for each in offsets}

    def of_group(self, group_id: str) -> frozenset[TopicPartition]:
        """The partitions for which there are any of a group."""
        if not self._sent:
            return frozenset()
        return frozenset(each for sent in self._sent.values() for each in sent.get(group_id, ()))

    def add(self, entry: OffsetsPending) -> None:
        """Keep what a transaction has sent."""
        sent = self._sent.setdefault(entry.producer_id, {})
        sent.setdefault(entry.group_id, {}).update(entry.offsets)

    def decide(self, producer_id: int, commit: bool) -> None:
        """Remember how a transaction has ended until `end` is called."""
        self._decided[producer_id] = commit

    def end(self, producer_id: int) -> Iterator[OffsetsPending]:
        """Hand over what a transaction has sent."""
        self._decided.pop(producer_id, None)
        for group_id, offsets in self._sent.pop(producer_id, {}).items():
            yield OffsetsPending(group_id, producer_id, tuple(offsets.items()))

    def forget(self, group_id: str, partitions: Container[TopicPartition]) -> None:
        """Drop what was sent of a group for partitions."""
        for producer_id, sent in tuple(self._sent.items()):
            if group_id not in sent:
                continue
            offsets = sent[group_id]
            kept = {where: offsets[where] for where in offsets if where not in partitions}
            if kept:
                sent[group_id] = kept
            else:
                del sent[group_id]
            if not sent:
                del self._sent[producer_id]

    def entries(self) -> Iterator[Entry]:
        """The journal entries that lead to this state."""
        for producer_id, sent in self._sent.items():
            for group_id, offsets in sent.items():
                yield OffsetsPending(group_id, producer_id, tuple(offsets.items()))
        for producer_id, commit in self._decided.items():
            yield PendingEnded(producer_id, commit)
