"""What all handlers share: the topics, the groups, the clock, the counters.

A `BrokerCore` is a broker without its sockets. It belongs to one event loop and one data directory.
Its stores are open as long as it is; who works with them is made when first needed, which `later`
is about.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.broker.durability import GroupCommit, Waiter
from headrace.broker.groups.entries import TopicPartition
from headrace.broker.groups.offsets import OffsetStore
from headrace.broker.groups.overtaken import OvertakenGroups
from headrace.broker.memory import RequestMemory
from headrace.broker.metrics import Metrics
from headrace.broker.partition import Partition
from headrace.broker.producer_ids import ProducerIds
from headrace.broker.topics import NODE_ID, Catalogue, Topic
from headrace.broker.transactions.store import TransactionStore
from headrace.broker.verification import Verification
from headrace.clock import Clock, SystemClock
from headrace.log import SYSTEM_DISK, DataDirectory, Disk, Flush, Journal
from headrace.settings import BrokerSettings

if TYPE_CHECKING:
    from headrace.broker.archive.archive import BrokerArchive
    from headrace.broker.archive.archiving import Archiving
    from headrace.broker.excision.jobs import Excisions
    from headrace.broker.groups.coordinator import GroupCoordinator
    from headrace.broker.transactions.coordinator import TransactionCoordinator

log = logging.getLogger("headrace.broker")


class JournalSync:
    """A journal as something that group commit can sync."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def flush(self) -> int:
        """Sync the journal; called from the sync threads."""
        return self._journal.flush()

    def advance(self, flushed: int) -> None:
        """Nothing depends on how far a journal has been synced."""


class BrokerCore:
    """Everything a broker knows and does, apart from talking to clients."""

    def __init__(
        self,
        settings: BrokerSettings,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Clock | None = None,
        disk: Disk = SYSTEM_DISK,
    ) -> None:
        self.settings = settings
        self.loop = loop
        self.clock: Clock = clock or SystemClock()
        self.node_id = NODE_ID
        self.metrics = Metrics()
        self.memory = RequestMemory(settings.request_memory)
        self._syncs: dict[int, JournalSync] = {}
        with contextlib.ExitStack() as opened:
            directory = DataDirectory.open(settings.data, disk=disk)
            opened.callback(directory.close)
            self.cluster_id = directory.cluster_id
            self.commits = GroupCommit(loop)
            opened.callback(self.commits.close)
            self.verification = Verification(loop, self.metrics)
            self.archive = self._open_archive(settings.archive, directory)
            """Where sealed segments go, if the broker was given an archive."""
            if self.archive is not None:
                opened.callback(self.archive.close)
            self.topics = Catalogue(
                directory,
                settings,
                self.clock,
                self.commits,
                self.verification,
                archive=self.archive,
            )
            opened.callback(self.topics.close)
            opened.callback(self.verification.close)
            self.metrics.truncated_bytes = sum(
                partition.log.recovery.truncated_bytes for partition in self.partitions()
            )
            self.producer_ids = ProducerIds(directory)
            opened.callback(self.producer_ids.journal.close)
            self.offsets = OffsetStore.open(directory.journal("groups"))
            opened.callback(self.offsets.journal.close)
            for name in self.offsets.topics():
                if name not in self.topics:
                    # A crash came between a topic's deletion and that of its offsets.
                    self.offsets.forget_topic(name)
            self.overtaken = OvertakenGroups(
                self.offsets,
                (
                    (TopicPartition(each.topic, each.index), each.start_offset)
                    for each in self.partitions()
                ),
            )
            self.transaction_store = TransactionStore.open(directory.journal("transactions"))
            opened.callback(self.transaction_store.journal.close)
            self._opened = opened.pop_all()

    @cached_property
    def groups(self) -> "GroupCoordinator":
        """Who leads the groups."""
        from headrace.broker.groups.coordinator import GroupCoordinator
        from headrace.broker.groups.settings import ConsumerTimes, GroupSettings

        settings = self.settings
        return GroupCoordinator(
            clock=self.clock,
            timers=self.loop,
            offsets=self.offsets,
            topics=self.topics,
            settings=GroupSettings(
                initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
                min_session_timeout_ms=settings.group_min_session_timeout_ms,
                max_session_timeout_ms=settings.group_max_session_timeout_ms,
                consumer_times=ConsumerTimes(
                    session_timeout_ms=settings.group_consumer_session_timeout_ms,
                    heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
                ),
                consumer_max_size=settings.group_consumer_max_size,
                offsets_retention_ms=settings.offsets_retention_ms,
            ),
        )

    @cached_property
    def transactions(self) -> "TransactionCoordinator":
        """Who leads the transactions."""
        from headrace.broker.participants import BrokerParticipants
        from headrace.broker.transactions.coordinator import TransactionCoordinator
        from headrace.broker.transactions.settings import TransactionSettings

        return TransactionCoordinator(
            clock=self.clock,
            timers=self.loop,
            store=self.transaction_store,
            participants=BrokerParticipants(self),
            new_producer_id=self.producer_ids.allocate,
            settings=TransactionSettings(
                max_timeout_ms=self.settings.transaction_max_timeout_ms,
                expiration_ms=self.settings.transactional_id_expiration_ms,
            ),
        )

    @cached_property
    def excisions(self) -> "Excisions":
        """Who erases records."""
        from headrace.broker.excision.jobs import Excisions

        return Excisions(self)

    @cached_property
    def archiving(self) -> "Archiving | None":
        """Who moves segments to the archive, if there is one."""
        if self.archive is None:
            return None
        from headrace.broker.archive.archiving import Archiving

        return Archiving(self, self.archive)

    async def recover(self) -> None:
        """Bring back the groups and transactions that the directory tells of.

        To be called before anybody reads. Where it tells of none, nobody is there to lead any yet:
        see `later`.
        """
        if self.offsets.groups():
            self.groups.start()
        if (
            len(self.transaction_store)
            or self.offsets.pending_producers()
            or any(partition.log.transactions.open for partition in self.partitions())
        ):
            await self.transactions.recover()

    def partitions(self) -> Iterable[Partition]:
        """Every partition of every topic."""
        return (partition for topic in self.topics for partition in topic.partitions)

    def partition(self, topic_name: str, index: int) -> Partition | None:
        """A partition, if it exists."""
        topic = self.topics.get(topic_name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def delete_topic(self, topic: Topic) -> None:
        """Delete a topic and what groups have committed for it."""
        self.topics.delete(topic)
        self.groups.forget_topic(topic.name)
        self.overtaken.forget_topic(topic.name)

    def note_log_start(self, partition: Partition) -> None:
        """To be called after anything that may have removed records from a partition."""
        where = TopicPartition(partition.topic, partition.index)
        self.overtaken.observe(where, partition.start_offset)

    async def journaled(self, journal: Journal) -> None:
        """Wait until a journal is as durable as the broker's flush policy demands."""
        if self.settings.flush != Flush.ACK:
            return
        await self.commits.durable(self._sync_of(journal))

    def secure(self, journal: Journal, waiter: Waiter) -> None:
        """Tell once a journal is as durable as the broker's flush policy demands; maybe at once."""
        if self.settings.flush != Flush.ACK:
            waiter(None)
        else:
            self.commits.request(self._sync_of(journal), waiter)

    async def topics_stored(self) -> None:
        """Wait until every change of topics is on the disk, whatever the broker's policy.

        A topic may have a stricter one, and would be removed with its records if nobody knew it.
        """
        if self.topics.journal.dirty:
            await self.commits.durable(self._sync_of(self.topics.journal))

    def sync_journals(self) -> None:
        """Begin to sync every journal that has changed."""
        for journal in (
            self.topics.journal,
            self.producer_ids.journal,
            self.offsets.journal,
            self.transaction_store.journal,
        ):
            if journal.dirty:
                self.commits.request(self._sync_of(journal))

    def _open_archive(
        self, location: str | None, directory: DataDirectory
    ) -> "BrokerArchive | None":
        if location is None:
            return None
        from headrace.broker.archive.archive import BrokerArchive

        return BrokerArchive(location, directory, self.settings, self.loop, self.clock)

    def _sync_of(self, journal: Journal) -> JournalSync:
        return self._syncs.setdefault(id(journal), JournalSync(journal))

    def unsettled(self, journal: Journal) -> bool:
        """Whether somebody waits for a journal to be durable: a power loss may take the last of it.

        What a client then does with a topic that it has just seen could be lost with the topic.
        """
        return self.commits.is_busy_with(self._syncs.get(id(journal)))

    async def close(self) -> None:
        """Sync and close everything cleanly, so that the next start has nothing to recover."""
        await self.commits.drain()
        await self.loop.run_in_executor(None, self._opened.close)
