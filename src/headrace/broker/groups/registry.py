"""Every group of this broker by its id, and how groups come back after a restart."""

import logging
from collections.abc import Iterator
from functools import partial

from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic.group import ClassicGroup
from headrace.broker.groups.classic.state import GroupState
from headrace.broker.groups.configs import GroupConfigs
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.topics import KnownTopics
from headrace.broker.groups.entries import GroupSettled
from headrace.broker.groups.errors import GroupError, group_not_found, unknown_member
from headrace.broker.groups.offsets import OffsetStore
from headrace.broker.groups.settings import GroupSettings
from headrace.broker.groups.timers import Timers
from headrace.clock import Clock
from headrace.log.errors import LogError

AnyGroup = ClassicGroup | ConsumerGroup
"""A group of either kind."""

log = logging.getLogger("headrace.broker")


class GroupRegistry:
    """The groups that there are; those that the journal tells of are there from the start.

    A group without members becomes one of the other kind when a member of that kind joins; it keeps
    its offsets. Members of both kinds in one group are refused.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        timers: Timers,
        offsets: OffsetStore,
        settings: GroupSettings,
        topics: KnownTopics,
        configs: GroupConfigs,
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._offsets = offsets
        self._settings = settings
        self._topics = topics
        self._configs = configs
        self._groups: dict[str, AnyGroup] = {}
        for group_id in sorted(offsets.groups()):
            self._restore(group_id)

    def __iter__(self) -> Iterator[AnyGroup]:
        return iter(tuple(self._groups.values()))

    def get(self, group_id: str) -> AnyGroup | None:
        """The group with an id, if there is one."""
        return self._groups.get(group_id)

    def existing(self, group_id: str) -> AnyGroup:
        """The group with an id; `GROUP_ID_NOT_FOUND` if there is none."""
        group = self._groups.get(group_id)
        if group is None:
            raise group_not_found(group_id)
        return group

    # Classic groups

    def classic(self, group_id: str) -> ClassicGroup:
        """The classic group with an id; a consumer group does not count."""
        group = self.existing(group_id)
        if isinstance(group, ConsumerGroup):
            raise GroupError(
                ErrorCode.group_id_not_found,
                f"group {group_id!r} is a consumer group, not a classic one",
            )
        return group

    def create_classic(self, group_id: str) -> ClassicGroup:
        """A new group without members, in place of one of the other kind if there is one."""
        group = self._groups[group_id] = ClassicGroup(
            group_id,
            clock=self._clock,
            timers=self._timers,
            settings=self._settings,
            settled=self._remember,
        )
        return group

    def join_classic(self, group_id: str, member_id: str) -> ClassicGroup:
        """The group that a member of the classic kind joins; made if it has no id yet."""
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group
        if group is not None and not group.is_empty:
            raise GroupError(
                ErrorCode.inconsistent_group_protocol,
                f"group {group_id!r} has members that use group.protocol=consumer; use it too, or "
                "stop them first",
            )
        if member_id:
            raise unknown_member(group_id, member_id)
        return self.create_classic(group_id)

    # Consumer groups

    def consumer(self, group_id: str) -> ConsumerGroup:
        """The consumer group with an id; a classic group does not count."""
        group = self.existing(group_id)
        if isinstance(group, ClassicGroup):
            raise GroupError(
                ErrorCode.group_id_not_found,
                f"group {group_id!r} is a classic group, not a consumer group",
            )
        return group

    def join_consumer(self, group_id: str) -> ConsumerGroup:
        """The group that a member of the consumer kind joins; made if there is none."""
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is not None:
            if not group.is_empty:
                # Clients show the code alone, which says something else.
                log.info(
                    "refused a member with group.protocol=consumer in group %r: it has classic "
                    "members",
                    group_id,
                )
                raise GroupError(
                    ErrorCode.group_id_not_found,
                    f"group {group_id!r} has members that use group.protocol=classic; stop them "
                    "first, and the group becomes a consumer group that keeps its offsets",
                )
            group.dissolve(unknown_member(group_id, ""))
        created = self._groups[group_id] = self._new_consumer_group(group_id)
        return created

    # All groups

    def remove(self, group: AnyGroup) -> None:
        """Forget a group and its offsets; LogError if the disk refuses."""
        self._offsets.delete_group(group.id)
        del self._groups[group.id]
        self._end(group, unknown_member(group.id, ""))

    def dissolve(self, error: GroupError) -> None:
        """Send everybody away who waits in any group, because the broker stops."""
        for group in self:
            self._end(group, error)

    def _end(self, group: AnyGroup, error: GroupError) -> None:
        if isinstance(group, ConsumerGroup):
            group.close()
        else:
            group.dissolve(error)

    def _new_consumer_group(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(
            group_id,
            clock=self._clock,
            timers=self._timers,
            topics=self._topics,
            times=partial(self._configs.times, group_id),
            store=self._offsets.settle,
        )

    def _restore(self, group_id: str) -> None:
        stored = self._offsets.consumer_group(group_id)
        if stored is not None:
            consumers = self._groups[group_id] = self._new_consumer_group(group_id)
            consumers.restore(stored)
            return
        group = self.create_classic(group_id)
        history = self._offsets.history(group_id)
        if history is not None:
            # A group that had members when the broker stopped has been empty only since then.
            since_ms = history.empty_since_ms
            group.restore(
                history.protocol_type,
                history.generation,
                self._clock.now_ms() if since_ms is None else since_ms,
            )

    def _remember(self, group: ClassicGroup) -> None:
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
