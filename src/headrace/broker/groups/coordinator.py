"""The group coordinator: every group of this broker, by its id."""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic import joining, membership
from headrace.broker.groups.classic.description import describe
from headrace.broker.groups.classic.group import ClassicGroup
from headrace.broker.groups.classic.messages import (
    Departed,
    Departure,
    GroupDescription,
    Joined,
    JoinRequest,
    Synced,
    SyncRequest,
)
from headrace.broker.groups.commits import OffsetCommits
from headrace.broker.groups.configs import GroupConfigs
from headrace.broker.groups.consumer import administration, heartbeats
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.messages import (
    JOIN,
    ConsumerGroupDescription,
    Heartbeat,
    HeartbeatAnswer,
)
from headrace.broker.groups.consumer.topics import KnownTopics
from headrace.broker.groups.entries import Committed, TopicPartition
from headrace.broker.groups.errors import (
    GroupError,
    not_empty,
    refusing_what_the_disk_refuses,
    unknown_member,
)
from headrace.broker.groups.messages import Committer, GroupListing
from headrace.broker.groups.offsets import OffsetStore
from headrace.broker.groups.registry import GroupRegistry
from headrace.broker.groups.settings import GroupSettings
from headrace.broker.groups.timers import Timers
from headrace.broker.groups.upkeep import Upkeep
from headrace.clock import Clock


class GroupCoordinator:
    """Leads every group, of either kind, and keeps its offsets.

    All methods belong to the event loop's thread and change state before they first wait, so that
    requests take effect in the order in which they are made. Refusals are `GroupError`s.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        timers: Timers,
        offsets: OffsetStore,
        settings: GroupSettings,
        topics: KnownTopics,
    ) -> None:
        self._offsets = offsets
        self._settings = settings
        self.configs = GroupConfigs(offsets, settings.consumer_times)
        self._groups = GroupRegistry(
            clock=clock,
            timers=timers,
            offsets=offsets,
            settings=settings,
            topics=topics,
            configs=self.configs,
        )
        self._commits = OffsetCommits(
            self._groups, offsets, topics, settings.offset_metadata_max_bytes
        )
        self._upkeep = Upkeep(
            self._groups, clock=clock, timers=timers, offsets=offsets, settings=settings
        )
        self._closed = False

    def start(self) -> None:
        """Begin to look after offsets that expire and a journal that grows."""
        self._upkeep.start()

    def close(self) -> None:
        """Stop: whoever waits, and whoever comes later, is told to look for a coordinator again."""
        self._closed = True
        self._upkeep.close()
        self._groups.dissolve(GroupError(ErrorCode.not_coordinator, "the broker is shutting down"))

    # Members of classic groups

    async def join(self, request: JoinRequest) -> Joined:
        """Join the next generation of a group; returns once everybody has."""
        self._check_group_id(request.group_id)
        joining.check_session_timeout(request, self._settings)
        group = self._groups.join_classic(request.group_id, request.member_id)
        reply: asyncio.Future[Joined] = asyncio.get_running_loop().create_future()
        joining.join(group, request, reply)
        try:
            return await reply
        except asyncio.CancelledError:
            joining.abandon(group, reply)
            raise

    async def sync(self, request: SyncRequest) -> Synced:
        """Get a member's assignment; returns once the leader has brought it."""
        group = self._group_of(request.member_id, request.group_id)
        reply: asyncio.Future[Synced] = asyncio.get_running_loop().create_future()
        membership.sync(group, request, reply)
        return await reply

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> None:
        """Keep a member's session alive."""
        group = self._group_of(member_id, group_id)
        membership.heartbeat(group, member_id, instance_id, generation)

    def leave(self, group_id: str, departures: Sequence[Departure]) -> list[Departed]:
        """Let members go; each departure succeeds or fails by itself."""
        self._check_group_id(group_id)
        group = self._groups.get(group_id)
        if group is None:
            return [Departed(each, ErrorCode.unknown_member_id) for each in departures]
        if isinstance(group, ConsumerGroup):
            with refusing_what_the_disk_refuses():
                return administration.dismiss(group, departures)
        return membership.leave(group, departures)

    # Members of consumer groups

    def beat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """Let a member join a consumer group, go on, or leave; safe once the journal is flushed."""
        self._check_open()
        heartbeats.check(heartbeat)
        with refusing_what_the_disk_refuses():
            if heartbeat.epoch < JOIN:
                return heartbeats.leave(self._groups.consumer(heartbeat.group_id), heartbeat)
            if heartbeat.epoch == JOIN:
                group = self._groups.join_consumer(heartbeat.group_id)
            else:
                group = self._groups.consumer(heartbeat.group_id)
            return heartbeats.beat(group, heartbeat, max_size=self._settings.consumer_max_size)

    # Offsets

    def commit_offsets(
        self, committer: Committer, offsets: Mapping[TopicPartition, Committed]
    ) -> dict[TopicPartition, ErrorCode]:
        """Store offsets and say for each what came of it; safe once the journal is flushed."""
        self._check_open()
        return self._commits.commit(committer, offsets)

    def send_offsets(
        self, committer: Committer, producer_id: int, offsets: Mapping[TopicPartition, Committed]
    ) -> dict[TopicPartition, ErrorCode]:
        """Keep offsets for a producer's transaction, which they are committed with or not at all.

        Says for each what came of it; safe once the journal is flushed.
        """
        self._check_open()
        return self._commits.send(committer, producer_id, offsets)

    def pending_offsets(self, group_id: str) -> frozenset[TopicPartition]:
        """The partitions whose offset an open transaction may be about to change."""
        return self._offsets.pending(group_id)

    def fetch_offsets(
        self, group_id: str, member_id: str | None = None, epoch: int = -1
    ) -> Mapping[TopicPartition, Committed]:
        """All offsets of a group; none if there is no such group.

        A member of a consumer group says who it is, so that one that was fenced reads nothing old.
        """
        self._check_open()
        return self._commits.fetch(group_id, member_id, epoch)

    def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Forget offsets in topics that the group does not read."""
        self._check_group_id(group_id)
        return self._commits.delete(group_id, partitions)

    def forget_topic(self, topic: str) -> None:
        """Forget every group's offsets in a topic that has been deleted."""
        self._offsets.forget_topic(topic)

    # Administration

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[GroupListing]:
        """Every group, or those in the given states and of the given types, in any letter case."""
        self._check_open()
        wanted_states = {each.lower() for each in states}
        wanted_types = {each.lower() for each in types}
        listed = (
            GroupListing(group.id, group.kind, group.state, group.protocol_type or "")
            for group in self._groups
        )
        return [
            each
            for each in listed
            if (not wanted_states or each.state.lower() in wanted_states)
            and (not wanted_types or each.kind in wanted_types)
        ]

    def describe(self, group_id: str) -> GroupDescription:
        """A classic group and its members."""
        self._check_open()
        return describe(self._groups.classic(group_id))

    def describe_consumer_group(self, group_id: str) -> ConsumerGroupDescription:
        """A consumer group and its members."""
        self._check_group_id(group_id)
        return administration.describe(self._groups.consumer(group_id))

    def delete(self, group_id: str) -> None:
        """Delete a group without members, and its offsets."""
        self._check_open()
        group = self._groups.existing(group_id)
        if not group.is_empty:
            raise not_empty(group_id, len(group.roster))
        with refusing_what_the_disk_refuses():
            self._groups.remove(group)

    # Groups

    def _check_open(self) -> None:
        if self._closed:
            raise GroupError(
                ErrorCode.coordinator_not_available, "the broker is shutting down; try again"
            )

    def _check_group_id(self, group_id: str) -> None:
        self._check_open()
        if not group_id:
            raise GroupError(ErrorCode.invalid_group_id, "a group needs a name: set group.id")

    def _group_of(self, member_id: str, group_id: str) -> ClassicGroup:
        """The classic group that a member believes to be in: a lost group is a lost id to it."""
        self._check_group_id(group_id)
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise unknown_member(group_id, member_id)
        return group
