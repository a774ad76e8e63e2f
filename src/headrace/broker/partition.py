"""A partition as the broker serves it: its log, who waits for its data, and what it has carried."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.log import Append, Flush, LogSettings, PartitionLog
from headrace.records import BatchHeader

if TYPE_CHECKING:
    from headrace.broker.durability import GroupCommit, Waiter

Wake = Callable[[int], None]
"""Told how many more bytes can be read."""


class Partition:
    """One partition of a topic."""

    __slots__ = (
        "_commits",
        "_unannounced",
        "_wakes",
        "bytes_in",
        "bytes_out",
        "dirty",
        "index",
        "log",
        "records_in",
        "retired",
        "topic",
        "waits_for_sync",
    )

    def __init__(self, topic: str, index: int, log: PartitionLog, commits: "GroupCommit") -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.retired = False
        self.dirty = False
        self.bytes_in = 0
        self.bytes_out = 0
        self.records_in = 0
        self.waits_for_sync = log.settings.flush is Flush.ACK
        """Whether what is appended is acknowledged, and shown to readers, only once synced."""
        self._commits = commits
        self._unannounced = 0
        self._wakes: set[Wake] = set()

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        append_time: int | None = None,
        waiter: "Waiter | None" = None,
    ) -> Append:
        """Append one valid batch; readers are woken as soon as they may see it.

        The waiter is told once the batch is as safe as the topic's flush policy demands: at once,
        unless the partition waits for syncs.
        """
        log = self.log
        appended = log.append(batch, header, append_time)
        syncs = self.waits_for_sync
        if not appended.duplicate:
            size = len(batch)
            self.bytes_in += size
            self.records_in += header.record_count
            self.dirty = True
            if syncs:
                self._unannounced += size
                self._commits.request(self, waiter)
                return appended
            if self._wakes:
                self._announce(size)
        elif syncs and appended.last_offset >= log.high_watermark:
            self._commits.request(self, waiter)
            return appended
        if waiter is not None:
            waiter(None)
        return appended

    def reconfigure(self, settings: LogSettings) -> None:
        """Behave differently from now on; readers are woken if that shows them more."""
        before = self.log.high_watermark
        self.log.reconfigure(settings)
        self.waits_for_sync = settings.flush is Flush.ACK
        if self.log.high_watermark > before:
            self._announce_synced()

    def flush(self) -> int:
        """Sync the log; called from the sync threads."""
        self.dirty = False
        return self.log.flush()

    def advance(self, flushed: int) -> None:
        """Take note that the log is durable up to an offset."""
        if self.log.advance(flushed):
            self._announce_synced()

    def watch(self, wake: Wake) -> None:
        """Be told about every growth of what can be read."""
        self._wakes.add(wake)

    def unwatch(self, wake: Wake) -> None:
        """Be told no longer."""
        self._wakes.discard(wake)

    def retire(self) -> None:
        """The topic is deleted: wake everybody, so that they find out."""
        self.retired = True
        self._announce(0)

    def _announce_synced(self) -> None:
        size, self._unannounced = self._unannounced, 0
        self._announce(size)

    def _announce(self, size: int) -> None:
        for wake in tuple(self._wakes):
            wake(size)
