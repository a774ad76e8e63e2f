"""How a decided transaction ends: the decision is safe, then markers are, then all of it shows.

The order is what makes a transaction atomic. No marker is written before the decision is safe, so
no crash can leave markers of a transaction that comes back undecided. Nothing shows before every
marker is safe, and then all of it shows in one turn of the event loop, so that no reader sees a
part. Every step can be repeated: after a crash, whatever is still open in a log is marked again.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from headrace.broker.groups.entries import TopicPartition
from headrace.broker.groups.timers import Deadline, Timers
from headrace.broker.transactions.errors import TransactionError, not_available
from headrace.broker.transactions.participants import Participants
from headrace.broker.transactions.state import Identity, TransactionRecord
from headrace.log.errors import LogError
from headrace.records import Marker

log = logging.getLogger("headrace.broker")

COORDINATOR_EPOCH = 0
"""There is one coordinator, and nobody could take its place."""


class Ending:
    """One transaction from its decision to its end.

    If no disk has to be waited for, all of it happens within `begin`. What a disk refuses is tried
    again until it succeeds: a decision cannot be taken back.
    """

    def __init__(
        self,
        record: TransactionRecord,
        *,
        participants: Participants,
        timers: Timers,
        retry_ms: int,
        ended: Callable[[], None],
    ) -> None:
        self.record = record
        self._participants = participants
        self._retry_ms = retry_ms
        self._retry = Deadline(timers)
        self._ended = ended
        self._marker = Marker(
            record.producer_id, record.epoch, COORDINATOR_EPOCH, record.state.is_commit
        )
        self._unmarked = set(record.partitions)
        self._marked: list[tuple[TopicPartition, int]] = []
        self._offsets_written = not record.groups
        self._outstanding = 0
        self._failure: LogError | None = None
        self._waiting: list[asyncio.Future[Identity]] = []
        self.done = False
        """Whether everything has become visible."""

    def begin(self) -> None:
        """Make the decision safe, then go on."""
        self._participants.secure_decision(self._decided)

    def wait(self) -> "asyncio.Future[Identity]":
        """A promise of the producer's identity after the transaction, once that has ended."""
        future: asyncio.Future[Identity] = asyncio.get_running_loop().create_future()
        if self.done:
            future.set_result(self.record.next_identity)
        else:
            self._waiting.append(future)
        return future

    def stop(self) -> None:
        """Try no more; the next start of the broker does."""
        self._retry.cancel()
        self._refuse(not_available("the broker is shutting down; ask again"))

    def _decided(self, failure: LogError | None) -> None:
        if failure is not None:
            self._fail(failure)
            return
        self._failure = None
        # One more than there are, so that the last one to be told comes after this loop.
        self._outstanding = 1
        for where in sorted(self._unmarked):
            self._mark(where)
        if not self._offsets_written:
            self._write_offsets()
        self._told(None)

    def _mark(self, where: TopicPartition) -> None:
        self._outstanding += 1
        told = partial(self._marked_safely, where)
        try:
            offset = self._participants.mark(where, self._marker, told)
        except LogError as error:
            self._told(error)
            return
        if offset is None:
            told(None)
        else:
            self._marked.append((where, offset))

    def _marked_safely(self, where: TopicPartition, failure: LogError | None) -> None:
        if failure is None:
            self._unmarked.discard(where)
        self._told(failure)

    def _write_offsets(self) -> None:
        self._outstanding += 1
        try:
            self._participants.end_offsets(
                self._marker.producer_id, self._marker.commit, self._offsets_safe
            )
        except LogError as error:
            self._told(error)

    def _offsets_safe(self, failure: LogError | None) -> None:
        self._offsets_written = failure is None
        self._told(failure)

    def _told(self, failure: LogError | None) -> None:
        if failure is not None:
            self._failure = failure
        self._outstanding -= 1
        if self._outstanding:
            return
        if self._failure is not None:
            self._fail(self._failure)
        else:
            self._reveal()

    def _reveal(self) -> None:
        for where, offset in self._marked:
            self._participants.reveal(where, offset)
        if self.record.groups:
            self._participants.reveal_offsets(self._marker.producer_id, self._marker.commit)
        self.done = True
        self._ended()
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(self.record.next_identity)

    def _fail(self, failure: LogError) -> None:
        log.error(
            "the end of a transaction of %r is held up and tried again: %s",
            self.record.transactional_id,
            failure,
        )
        self._refuse(not_available(failure))
        self._retry.set(self._retry_ms, self.begin)

    def _refuse(self, error: TransactionError) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_exception(error)
