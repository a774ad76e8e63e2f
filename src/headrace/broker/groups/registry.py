"""Every group of this broker by its id, and how groups come back after a restart."""

import logging
from collections.abc import Iterator

from headrace.broker.groups.classic.group import ClassicGroup
from headrace.broker.groups.classic.state import GroupState
from headrace.broker.groups.entries import GroupSettled
from headrace.broker.groups.errors import GroupError, group_not_found, unknown_member
from headrace.broker.groups.offsets import OffsetStore
from headrace.broker.groups.settings import GroupSettings
from headrace.broker.groups.timers import Timers
from headrace.clock import Clock
from headrace.log.errors import LogError

log = logging.getLogger("headrace.broker")


class GroupRegistry:
    """The groups that there are; those that the journal tells of are there from the start."""

    def __init__(
        self, *, clock: Clock, timers: Timers, offsets: OffsetStore, settings: GroupSettings
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._offsets = offsets
        self._settings = settings
        self._groups: dict[str, ClassicGroup] = {}
        for group_id in sorted(offsets.groups()):
            self._restore(group_id)

    def __iter__(self) -> Iterator[ClassicGroup]:
        return iter(tuple(self._groups.values()))

    def get(self, group_id: str) -> ClassicGroup | None:
        """The group with an id, if there is one."""
        return self._groups.get(group_id)

    def existing(self, group_id: str) -> ClassicGroup:
        """The group with an id; `GROUP_ID_NOT_FOUND` if there is none."""
        group = self._groups.get(group_id)
        if group is None:
            raise group_not_found(group_id)
        return group

    def create(self, group_id: str) -> ClassicGroup:
        """A new group without members."""
        group = self._groups[group_id] = ClassicGroup(
            group_id,
            clock=self._clock,
            timers=self._timers,
            settings=self._settings,
            settled=self._remember,
        )
        return group

    def remove(self, group: ClassicGroup) -> None:
        """Forget a group and its offsets; LogError if the disk refuses."""
        self._offsets.delete_group(group.id)
        del self._groups[group.id]
        group.dissolve(unknown_member(group.id, ""))

    def dissolve(self, error: GroupError) -> None:
        """Send everybody away who waits in any group, because the broker stops."""
        for group in self:
            group.dissolve(error)

    def _restore(self, group_id: str) -> None:
        group = self.create(group_id)
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
