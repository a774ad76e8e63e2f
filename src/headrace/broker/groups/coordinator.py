"""The group coordinator: every group of this broker, by its id."""

import asyncio
import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from headrace.broker.groups import joining, membership
from headrace.broker.groups.description import describe
from headrace.broker.groups.entries import Committed, GroupSettled, TopicPartition
from headrace.broker.groups.errors import GroupError, group_not_found, unknown_member
from headrace.broker.groups.group import Group
from headrace.broker.groups.messages import (
    Committer,
    Departed,
    Departure,
    GroupDescription,
    Joined,
    JoinRequest,
    Synced,
    SyncRequest,
)
from headrace.broker.groups.offsets import OffsetStore
from headrace.broker.groups.retention import expired_offsets
from headrace.broker.groups.settings import GroupSettings
from headrace.broker.groups.state import GroupState
from headrace.broker.groups.subscription import CONSUMER_PROTOCOL
from headrace.broker.groups.timers import Deadline, Timers
from headrace.clock import Clock
from headrace.log.errors import LogError

GROUP_TYPE: Final = "classic"
"""What clients call the type of these groups."""

COMPACTION_CHECK_MS: Final = 10_000
"""How often the journal of offsets is checked for history that can go."""

log = logging.getLogger("headrace.broker")


class GroupCoordinator:
    """Leads every classic group through its generations and keeps its offsets.

    All methods belong to the event loop's thread and change state before they first wait, so that
    requests take effect in the order in which they are made. Refusals are `GroupError`s.
    """

    def __init__(
        self, *, clock: Clock, timers: Timers, offsets: OffsetStore, settings: GroupSettings
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._offsets = offsets
        self._settings = settings
        self._groups: dict[str, Group] = {}
        self._closed = False
        self._retention_check = Deadline(timers)
        self._compaction_check = Deadline(timers)
        for group_id in sorted(offsets.groups()):
            self._restore(group_id)

    def start(self) -> None:
        """Begin to look after offsets that expire and a journal that grows."""
        self._retention_check.set(self._settings.retention_check_ms, self._check_retention)
        self._compaction_check.set(COMPACTION_CHECK_MS, self._check_compaction)

    def close(self) -> None:
        """Stop: whoever waits, and whoever comes later, is told to look for a coordinator again."""
        self._closed = True
        self._retention_check.cancel()
        self._compaction_check.cancel()
        for group in self._groups.values():
            group.dissolve(GroupError(ErrorCode.not_coordinator, "the broker is shutting down"))

    # Members

    async def join(self, request: JoinRequest) -> Joined:
        """Join the next generation of a group; returns once everybody has."""
        self._check_group_id(request.group_id)
        self._check_session_timeout(request.session_timeout_ms)
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_id:
                raise unknown_member(request.group_id, request.member_id)
            group = self._create(request.group_id)
        reply: asyncio.Future[Joined] = asyncio.get_running_loop().create_future()
        joining.join(group, request, reply)
        return await reply

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
        return membership.leave(group, departures)

    # Offsets

    def commit_offsets(
        self, committer: Committer, offsets: Mapping[TopicPartition, Committed]
    ) -> dict[TopicPartition, ErrorCode]:
        """Store offsets and say for each what came of it; safe once the journal is flushed."""
        self._check_open()
        group = self._groups.get(committer.group_id)
        if group is None:
            if committer.generation >= 0:
                raise group_not_found(committer.group_id)
            group = self._create(committer.group_id)
        membership.admit_commit(group, committer)
        longest = self._settings.offset_metadata_max_bytes
        accepted = {
            where: committed
            for where, committed in offsets.items()
            if len(committed.metadata) <= longest
        }
        with _refusing_what_the_disk_refuses():
            self._offsets.commit(group.id, accepted)
        return {
            where: ErrorCode.none if where in accepted else ErrorCode.offset_metadata_too_large
            for where in offsets
        }

    def fetch_offsets(self, group_id: str) -> Mapping[TopicPartition, Committed]:
        """All offsets of a group; none if there is no such group."""
        self._check_open()
        return self._offsets.fetch(group_id)

    def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Forget offsets in topics that the group does not read."""
        self._check_group_id(group_id)
        group = self._existing(group_id)
        if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL:
            raise _not_empty(group)
        unused = {each for each in partitions if not group.is_subscribed_to(each.topic)}
        with _refusing_what_the_disk_refuses():
            self._offsets.remove(group_id, unused)
        return {
            each: ErrorCode.none if each in unused else ErrorCode.group_subscribed_to_topic
            for each in partitions
        }

    def forget_topic(self, topic: str) -> None:
        """Forget every group's offsets in a topic that has been deleted."""
        self._offsets.forget_topic(topic)

    # Administration

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[GroupDescription]:
        """Every group, or those in the given states and of the given types, in any letter case."""
        self._check_open()
        if types and GROUP_TYPE not in {each.lower() for each in types}:
            return []
        wanted = {state.lower() for state in states}
        return [
            describe(group)
            for group in self._groups.values()
            if not wanted or group.state.lower() in wanted
        ]

    def describe(self, group_id: str) -> GroupDescription:
        """A group and its members."""
        return describe(self._existing(group_id))

    def delete(self, group_id: str) -> None:
        """Delete a group without members, and its offsets."""
        group = self._existing(group_id)
        if group.state is not GroupState.EMPTY:
            raise _not_empty(group)
        with _refusing_what_the_disk_refuses():
            self._remove(group)

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

    def _check_session_timeout(self, session_timeout_ms: int) -> None:
        shortest = self._settings.min_session_timeout_ms
        longest = self._settings.max_session_timeout_ms
        if not shortest <= session_timeout_ms <= longest:
            raise GroupError(
                ErrorCode.invalid_session_timeout,
                f"a session timeout of {session_timeout_ms} ms is not between {shortest} and "
                f"{longest} ms; change the client's session.timeout.ms or the broker's limits",
            )

    def _existing(self, group_id: str) -> Group:
        self._check_open()
        group = self._groups.get(group_id)
        if group is None:
            raise group_not_found(group_id)
        return group

    def _group_of(self, member_id: str, group_id: str) -> Group:
        """The group that a member believes to be in: to members a lost group is a lost id."""
        self._check_group_id(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise unknown_member(group_id, member_id)
        return group

    def _create(self, group_id: str) -> Group:
        group = self._groups[group_id] = Group(
            group_id,
            clock=self._clock,
            timers=self._timers,
            settings=self._settings,
            settled=self._remember,
        )
        return group

    def _remove(self, group: Group) -> None:
        self._offsets.delete_group(group.id)
        del self._groups[group.id]
        group.dissolve(unknown_member(group.id, ""))

    def _restore(self, group_id: str) -> None:
        group = self._create(group_id)
        history = self._offsets.history(group_id)
        if history is not None:
            # A group that had members when the broker stopped has been empty only since then.
            since_ms = history.empty_since_ms
            group.restore(
                history.protocol_type,
                history.generation,
                self._clock.now_ms() if since_ms is None else since_ms,
            )

    def _remember(self, group: Group) -> None:
        entry = GroupSettled(
            group.id,
            group.protocol_type or "",
            group.generation,
            group.state_since_ms if group.state is GroupState.EMPTY else None,
        )
        try:
            self._offsets.settle(entry)
        except LogError as error:
            # The group can work without it; at worst its offsets expire by an earlier state.
            log.warning("group %r: its state could not be stored: %s", group.id, error)

    # Housekeeping

    def _check_retention(self) -> None:
        try:
            self._remove_expired()
        except LogError as error:
            log.warning("expired group offsets could not be removed: %s", error)
        self._retention_check.set(self._settings.retention_check_ms, self._check_retention)

    def _remove_expired(self) -> None:
        now_ms = self._clock.now_ms()
        for group in tuple(self._groups.values()):
            offsets = self._offsets.fetch(group.id)
            self._offsets.remove(group.id, expired_offsets(group, offsets, now_ms))
            if (
                group.state is GroupState.EMPTY
                and not group.pending
                and not self._offsets.fetch(group.id)
            ):
                self._remove(group)

    def _check_compaction(self) -> None:
        try:
            self._offsets.compact_if_due()
        except LogError as error:
            log.warning("the journal of group offsets could not be compacted: %s", error)
        self._compaction_check.set(COMPACTION_CHECK_MS, self._check_compaction)


@contextlib.contextmanager
def _refusing_what_the_disk_refuses() -> Iterator[None]:
    try:
        yield
    except LogError as error:
        raise GroupError(ErrorCode.coordinator_not_available, str(error)) from error


def _not_empty(group: Group) -> GroupError:
    return GroupError(
        ErrorCode.non_empty_group,
        f"group {group.id!r} has {len(group.roster)} members; stop them first",
    )
