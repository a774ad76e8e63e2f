"""What is done for groups by the clock: offsets that expire, and a journal that grows."""

import logging
from typing import Final

from headrace.broker.groups.offsets import OffsetStore
from headrace.broker.groups.registry import GroupRegistry
from headrace.broker.groups.retention import expired_offsets, has_nothing_left
from headrace.broker.groups.settings import GroupSettings
from headrace.broker.groups.timers import Deadline, Timers
from headrace.clock import Clock
from headrace.log.errors import LogError

COMPACTION_CHECK_MS: Final = 10_000
"""How often the journal of offsets is checked for history that can go."""

log = logging.getLogger("headrace.broker")


class Upkeep:
    """Removes what has expired and compacts the journal, from `start` to `close`."""

    def __init__(
        self,
        groups: GroupRegistry,
        *,
        clock: Clock,
        timers: Timers,
        offsets: OffsetStore,
        settings: GroupSettings,
    ) -> None:
        self._groups = groups
        self._clock = clock
        self._offsets = offsets
        self._settings = settings
        self._retention_check = Deadline(timers)
        self._compaction_check = Deadline(timers)

    def start(self) -> None:
        """Begin to look after the groups."""
        self._retention_check.set(self._settings.retention_check_ms, self._check_retention)
        self._compaction_check.set(COMPACTION_CHECK_MS, self._check_compaction)

    def close(self) -> None:
        """Do nothing more."""
        self._retention_check.cancel()
        self._compaction_check.cancel()

    def _check_retention(self) -> None:
        try:
            self._remove_expired()
        except LogError as error:
            log.warning("expired group offsets could not be removed: %s", error)
        self._retention_check.set(self._settings.retention_check_ms, self._check_retention)

    def _remove_expired(self) -> None:
        now_ms = self._clock.now_ms()
        for group in self._groups:
            offsets = self._offsets.fetch(group.id)
            self._offsets.remove(
                group.id,
                expired_offsets(group, offsets, self._settings.offsets_retention_ms, now_ms),
            )
            if (
                has_nothing_left(group)
                and not self._offsets.fetch(group.id)
                and not self._offsets.pending(group.id)
            ):
                self._groups.remove(group)

    def _check_compaction(self) -> None:
        try:
            self._offsets.compact_if_due()
        except LogError as error:
            log.warning("the journal of group offsets could not be compacted: %s", error)
        self._compaction_check.set(COMPACTION_CHECK_MS, self._check_compaction)
