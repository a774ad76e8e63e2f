"""The transaction coordinator: what producers with a transactional id may do, and when."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial

from kio.schema.errors import ErrorCode

from headrace.broker.groups.entries import TopicPartition
from headrace.broker.groups.timers import Deadline, Timers
from headrace.broker.transactions import decisions
from headrace.broker.transactions.ending import Ending
from headrace.broker.transactions.errors import (
    TransactionError,
    fenced,
    nameless,
    not_available,
    not_part,
    still_ending,
    unknown_producer,
)
from headrace.broker.transactions.participants import Participants
from headrace.broker.transactions.recovery import abort_hanging, with_hanging, without_later
from headrace.broker.transactions.settings import TransactionSettings
from headrace.broker.transactions.state import (
    NO_EPOCH,
    Identity,
    TransactionRecord,
    TransactionState,
)
from headrace.broker.transactions.store import TransactionStore
from headrace.clock import Clock
from headrace.log.errors import LogError

log = logging.getLogger("headrace.broker")


class TransactionCoordinator:
    """Leads every transaction from its first partition to its last marker.

    All methods belong to the event loop's thread and change state before they first wait. Refusals
    are `TransactionError`s. A change is safe once the store's journal is flushed, for which whoever
    answers a client waits.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        timers: Timers,
        store: TransactionStore,
        participants: Participants,
        new_producer_id: Callable[[], int],
        settings: TransactionSettings,
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._store = store
        self._participants = participants
        self._new_producer_id = new_producer_id
        self._settings = settings
        self._endings: dict[str, Ending] = {}
        self._deadlines: dict[str, Deadline] = {}
        self._expiration_check = Deadline(timers)
        self._compaction_check = Deadline(timers)
        self._closed = False
        self.timed_out = 0
        """How many transactions were aborted because their time was up."""

    @property
    def open_count(self) -> int:
        """How many transactions are open."""
        return len(self._deadlines)

    async def recover(self) -> None:
        """Bring every transaction that a crash interrupted to its end, or back on its way.

        Decided ones are finished, open ones get the rest of their time, and what is open in a log
        without any coordinator knowing of it is aborted. To be called before anybody reads.
        """
        found = tuple(self._participants.open_transactions())
        for record in tuple(self._store):
            if record.state.is_decided:
                self._conclude(without_later(record, found))
            elif record.state is TransactionState.ONGOING:
                elapsed = self._clock.now_ms() - record.started_ms
                self._watch(record, min(max(record.timeout_ms - elapsed, 0), record.timeout_ms))
        await self._all_ended()
        for extended in with_hanging(self._store, self._participants.open_transactions()):
            try:
                self._abort(extended)
            except TransactionError as error:
                log.error("what %r wrote stays open: %s", extended.transactional_id, error)
        await self._all_ended()
        await abort_hanging(self._participants, self._store)

    async def _all_ended(self) -> None:
        for ending in tuple(self._endings.values()):
            try:
                await ending.wait()
            except TransactionError as error:
                log.error("a transaction is still to be ended: %s", error)

    def start(self) -> None:
        """Begin to look after ids that expire and a journal that grows."""
        self._expiration_check.set(self._settings.expiration_check_ms, self._check_expiration)
        self._compaction_check.set(self._settings.compaction_check_ms, self._check_compaction)

    def close(self) -> None:
        """Stop: transactions stay as they are, and whoever waits is told to ask again."""
        self._closed = True
        self._expiration_check.cancel()
        self._compaction_check.cancel()
        for deadline in self._deadlines.values():
            deadline.cancel()
        for ending in self._endings.values():
            ending.stop()

    # Producers

    async def initialize(
        self, transactional_id: str, timeout_ms: int, claimed: Identity | None = None
    ) -> Identity:
        """Give a producer its identity, and end what an earlier instance has left open.

        `claimed` is the identity of a producer that goes on after an error (KIP-360): nobody may
        have taken over since.
        """
        self._check_open()
        if not transactional_id:
            raise nameless()
        if not 0 < timeout_ms <= self._settings.max_timeout_ms:
            raise TransactionError(
                ErrorCode.invalid_transaction_timeout,
                f"a transaction timeout of {timeout_ms} ms is not between 1 and "
                f"{self._settings.max_timeout_ms} ms; change the client's transaction.timeout.ms "
                "or the broker's transaction_max_timeout",
            )
        while True:
            record = self._store.get(transactional_id)
            if record is not None and record.state is TransactionState.ONGOING:
                decisions.check_claim(record, claimed)
                self._abort(record)
            elif (ending := self._endings.get(transactional_id)) is not None:
                await ending.wait()
            else:
                break
        renewed = decisions.initialized(
            record or self._created(transactional_id, timeout_ms),
            timeout_ms=timeout_ms,
            claimed=claimed,
            new_producer_id=self._next_producer_id,
            now_ms=self._clock.now_ms(),
        )
        self._put(renewed)
        return renewed.identity

    def add_partitions(
        self,
        transactional_id: str,
        identity: Identity,
        partitions: Collection[TopicPartition],
    ) -> bool:
        """Let a transaction write to partitions; it begins with the first.

        Returns whether anything changed, which then is to be made safe.
        """
        record = self._ready(transactional_id, identity)
        if record.state is TransactionState.ONGOING and record.partitions.issuperset(partitions):
            return False
        self._extend(record, partitions=record.partitions.union(partitions))
        return True

    def add_group(self, transactional_id: str, identity: Identity, group_id: str) -> bool:
        """Let a transaction commit offsets of a group; returns like `add_partitions`."""
        record = self._ready(transactional_id, identity)
        if record.state is TransactionState.ONGOING and group_id in record.groups:
            return False
        self._extend(record, groups=record.groups | {group_id})
        return True

    def check_producer(self, transactional_id: str, identity: Identity) -> None:
        """Refuse a producer that was fenced, or whose previous transaction is still ending."""
        self._ready(transactional_id, identity)

    def check_partition(
        self, transactional_id: str, identity: Identity, where: TopicPartition
    ) -> None:
        """Refuse a write to a partition that is not part of an open transaction."""
        record = self._ready(transactional_id, identity)
        if record.state is not TransactionState.ONGOING or where not in record.partitions:
            raise not_part(transactional_id, f"{where.topic}-{where.partition}")

    def check_group(self, transactional_id: str, identity: Identity, group_id: str) -> None:
        """Refuse offsets of a group that is not part of an open transaction."""
        record = self._ready(transactional_id, identity)
        if record.state is not TransactionState.ONGOING or group_id not in record.groups:
            raise not_part(transactional_id, f"offsets of group {group_id!r}")

    def end(
        self, transactional_id: str, identity: Identity, *, commit: bool, raises_epoch: bool
    ) -> "asyncio.Future[Identity]":
        """Commit or abort; the promise is kept once all of it is safe and visible.

        The producer goes on with the identity that it is promised. With `raises_epoch` (KIP-890)
        that has a new epoch, so that nothing of this transaction, however late, can be taken for
        a part of the next. Ending what has ended in the same way already is no error.
        """
        record = self._known(transactional_id, identity)
        ending = self._endings.get(transactional_id)
        decided = decisions.ended(
            record,
            identity,
            commit=commit,
            raises_epoch=raises_epoch,
            new_producer_id=self._next_producer_id,
            now_ms=self._clock.now_ms(),
        )
        if decided is not None:
            self._put(decided)
            ending = self._conclude(decided)
        if ending is not None:
            return ending.wait()
        future: asyncio.Future[Identity] = asyncio.get_running_loop().create_future()
        future.set_result(record.identity)
        return future

    # Administration

    def describe(self, transactional_id: str) -> TransactionRecord:
        """All that is known of a transactional id."""
        self._check_open()
        record = self._store.get(transactional_id)
        if record is None:
            raise TransactionError(
                ErrorCode.transactional_id_not_found,
                f"there is no transactional id {transactional_id!r}",
            )
        return record

    def records(self) -> Iterator[TransactionRecord]:
        """Every transactional id."""
        self._check_open()
        return iter(self._store)

    # Transactions

    def _check_open(self) -> None:
        if self._closed:
            raise not_available("the broker is shutting down; ask again")

    def _known(self, transactional_id: str, identity: Identity) -> TransactionRecord:
        self._check_open()
        if not transactional_id:
            raise nameless()
        record = self._store.get(transactional_id)
        if record is None:
            raise unknown_producer(transactional_id, identity.producer_id)
        return record

    def _ready(self, transactional_id: str, identity: Identity) -> TransactionRecord:
        """The record of a producer that may go on with a transaction, or begin one."""
        record = self._known(transactional_id, identity)
        if record.producer_id != identity.producer_id:
            raise unknown_producer(transactional_id, identity.producer_id)
        if record.epoch != identity.epoch:
            raise fenced(transactional_id, identity.epoch, record.epoch)
        if record.state.is_decided:
            raise still_ending(transactional_id)
        return record

    def _created(self, transactional_id: str, timeout_ms: int) -> TransactionRecord:
        return TransactionRecord(
            transactional_id=transactional_id,
            producer_id=self._next_producer_id(),
            epoch=NO_EPOCH,
            timeout_ms=timeout_ms,
            updated_ms=self._clock.now_ms(),
        )

    def _next_producer_id(self) -> int:
        try:
            return self._new_producer_id()
        except LogError as error:
            raise not_available(error) from error

    def _put(self, record: TransactionRecord) -> None:
        try:
            self._store.put(record)
        except LogError as error:
            raise not_available(error) from error

    def _extend(
        self,
        record: TransactionRecord,
        *,
        partitions: frozenset[TopicPartition] | None = None,
        groups: frozenset[str] | None = None,
    ) -> None:
        begins = record.state is not TransactionState.ONGOING
        now_ms = self._clock.now_ms()
        extended = replace(
            record,
            state=TransactionState.ONGOING,
            started_ms=now_ms if begins else record.started_ms,
            updated_ms=now_ms,
            partitions=record.partitions if partitions is None else partitions,
            groups=record.groups if groups is None else groups,
        )
        self._put(extended)
        if begins:
            self._watch(extended, extended.timeout_ms)

    def _watch(self, record: TransactionRecord, remaining_ms: int) -> None:
        """Abort a transaction if it is still open after some time."""
        key = record.transactional_id
        deadline = self._deadlines.setdefault(key, Deadline(self._timers))
        deadline.set(remaining_ms, partial(self._time_out, key))

    def _time_out(self, transactional_id: str) -> None:
        record = self._store.get(transactional_id)
        if record is None or record.state is not TransactionState.ONGOING:
            return
        log.warning(
            "aborting the transaction of %r, which was open for longer than its %d ms",
            transactional_id,
            record.timeout_ms,
        )
        try:
            self._abort(record)
            self.timed_out += 1
        except TransactionError as error:
            log.error("the transaction of %r is still open: %s", transactional_id, error)
            self._watch(record, self._settings.retry_ms)

    def _abort(self, record: TransactionRecord) -> None:
        """End a transaction without its producer, which is fenced by a new epoch."""
        fencing = decisions.aborted_by_coordinator(record, self._clock.now_ms())
        self._put(fencing)
        self._conclude(fencing)

    def _conclude(self, record: TransactionRecord) -> Ending:
        key = record.transactional_id
        if (deadline := self._deadlines.pop(key, None)) is not None:
            deadline.cancel()
        ending = self._endings[key] = Ending(
            record,
            participants=self._participants,
            timers=self._timers,
            retry_ms=self._settings.retry_ms,
            ended=partial(self._ended, key),
        )
        ending.begin()
        return ending

    def _ended(self, transactional_id: str) -> None:
        ending = self._endings.pop(transactional_id)
        completed = decisions.completed(ending.record, self._clock.now_ms())
        try:
            self._store.put(completed)
        except LogError as error:
            # The decision is in the journal, and a restart would come to the same end.
            log.warning("the end of a transaction could not be stored: %s", error)
            self._store.put_unwritten(completed)

    # Housekeeping

    def _check_expiration(self) -> None:
        before = self._clock.now_ms() - self._settings.expiration_ms
        expired = [
            record.transactional_id
            for record in self._store
            if record.updated_ms <= before
            and record.state is not TransactionState.ONGOING
            and not record.state.is_decided
        ]
        try:
            for transactional_id in expired:
                self._store.forget(transactional_id)
                log.info("forgot transactional id %r, which nobody uses", transactional_id)
        except LogError as error:
            log.warning("transactional ids could not be forgotten: %s", error)
        self._expiration_check.set(self._settings.expiration_check_ms, self._check_expiration)

    def _check_compaction(self) -> None:
        try:
            self._store.compact_if_due()
        except LogError as error:
            log.warning("the journal of transactions could not be compacted: %s", error)
        self._compaction_check.set(self._settings.compaction_check_ms, self._check_compaction)
