"""Offsets of groups of either kind: who may commit, fetch and delete them, and what is refused."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic import membership
from headrace.broker.groups.consumer import commits as consumer_commits
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.partitions import PartitionId
from headrace.broker.groups.consumer.topics import KnownTopics
from headrace.broker.groups.entries import Committed, TopicPartition
from headrace.broker.groups.errors import (
    group_not_found,
    not_empty,
    refusing_what_the_disk_refuses,
)
from headrace.broker.groups.messages import Committer
from headrace.broker.groups.offsets import OffsetStore
from headrace.broker.groups.registry import AnyGroup, GroupRegistry

Codes = dict[TopicPartition, ErrorCode]
"""What came of each partition."""


class OffsetCommits:
    """Lets those change a group's offsets who may; a note longer than `longest_note` is refused.

    What is changed is safe once the journal is flushed.
    """

    def __init__(
        self, groups: GroupRegistry, offsets: OffsetStore, topics: KnownTopics, longest_note: int
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._topics = topics
        self._longest_note = longest_note

    def commit(self, committer: Committer, offsets: Mapping[TopicPartition, Committed]) -> Codes:
        """Store offsets."""
        group = self._group_of(committer)
        self._admit(group, committer, offsets, transactional=False)
        accepted = self._acceptable(offsets)
        with refusing_what_the_disk_refuses():
            self._offsets.commit(group.id, accepted)
        return _codes(offsets, accepted)

    def send(
        self, committer: Committer, producer_id: int, offsets: Mapping[TopicPartition, Committed]
    ) -> Codes:
        """Keep offsets for a producer's transaction, to be committed with it or not at all."""
        group = self._group_of(committer)
        self._admit(group, committer, offsets, transactional=True)
        accepted = self._acceptable(offsets)
        with refusing_what_the_disk_refuses():
            self._offsets.send(group.id, producer_id, accepted)
        return _codes(offsets, accepted)

    def fetch(
        self, group_id: str, member_id: str | None, epoch: int
    ) -> Mapping[TopicPartition, Committed]:
        """All offsets of a group; none if there is no such group."""
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            consumer_commits.admit_fetch(group, member_id, epoch)
        return self._offsets.fetch(group_id)

    def delete(self, group_id: str, partitions: Collection[TopicPartition]) -> Codes:
        """Forget offsets in topics that the group does not read."""
        group = self._groups.existing(group_id)
        if not group.is_empty and not group.tells_topics:
            raise not_empty(group_id, len(group.roster))
        unused = {each for each in partitions if not group.is_subscribed_to(each.topic)}
        with refusing_what_the_disk_refuses():
            self._offsets.remove(group_id, unused)
        return {
            each: ErrorCode.none if each in unused else ErrorCode.group_subscribed_to_topic
            for each in partitions
        }

    def _group_of(self, committer: Committer) -> AnyGroup:
        """The group that offsets are committed for; whoever has no generation may create it."""
        group = self._groups.get(committer.group_id)
        if group is None:
            if committer.generation >= 0:
                raise group_not_found(committer.group_id)
            group = self._groups.create_classic(committer.group_id)
        return group

    def _admit(
        self,
        group: AnyGroup,
        committer: Committer,
        partitions: Iterable[TopicPartition],
        *,
        transactional: bool,
    ) -> None:
        if isinstance(group, ConsumerGroup):
            if not (transactional and committer.is_nobody):
                consumer_commits.admit_commit(group, committer, self._identified(partitions))
        else:
            membership.admit_commit(group, committer, transactional=transactional)

    def _identified(self, partitions: Iterable[TopicPartition]) -> Iterator[PartitionId]:
        for name, number in partitions:
            topic = self._topics.get(name)
            if topic is not None:
                yield PartitionId(topic.id, number)

    def _acceptable(
        self, offsets: Mapping[TopicPartition, Committed]
    ) -> dict[TopicPartition, Committed]:
        return {
            where: committed
            for where, committed in offsets.items()
            if len(committed.metadata) <= self._longest_note
        }


def _codes(offsets: Iterable[TopicPartition], accepted: Collection[TopicPartition]) -> Codes:
    return {
        where: ErrorCode.none if where in accepted else ErrorCode.offset_metadata_too_large
        for where in offsets
    }
