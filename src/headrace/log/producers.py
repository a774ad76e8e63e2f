"""What a log remembers of idempotent producers, so that a retry is not stored twice."""

import struct
from collections.abc import Container, Mapping
from typing import Final, NamedTuple, Self

from headrace.clock import Clock
from headrace.log.errors import CorruptFile, OutOfOrderSequence, StaleProducerEpoch
from headrace.records import NO_TIMESTAMP, BatchHeader, Marker

BATCHES_KEPT: Final = 5
"""How many batches a producer may have in flight; each may have to be recognised."""

EXPIRY_MS: Final = 24 * 60 * 60 * 1000
"""A producer that was silent for this long is forgotten, as Kafka does."""

LAST_SEQUENCE: Final = (1 << 31) - 1
"""After this one, sequences begin again at zero."""

_STATE: Final = struct.Struct("<qhqB")
_BATCH: Final = struct.Struct("<iiqqq")

# Skips the Python-level constructors of named tuples; every idempotent batch makes two.
_new = tuple.__new__


class ProducerBatch(NamedTuple):
    """A batch that can be recognised when it comes again."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int
    """The broker's time that was stamped into it, or -1."""


class ProducerState(NamedTuple):
    """One producer, as of its last batch. A change makes a new one, so any thread may read it."""

    epoch: int
    last_seen_ms: int
    batches: tuple[ProducerBatch, ...]

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; -1 if none is known."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerStates:
    """All producers of one log.

    Belongs to the log's owner, who calls `check` before a batch is written and `record` after.
    """

    __slots__ = ("_clock", "_states")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._states: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        """How many producers are remembered."""
        return len(self._states)

    def active(self) -> Mapping[int, ProducerState]:
        """The producers by id."""
        return self._states.copy()

    def epoch(self, producer_id: int) -> int:
        """The epoch of a producer's last batch or marker; 0 if the producer is unknown."""
        state = self._states.get(producer_id)
        return 0 if state is None else state.epoch

    def check(self, header: BatchHeader) -> ProducerBatch | None:
        """Compare a batch with what its producer wrote before.

        Returns the original if this is a retry of one of the last five batches, and None if it
        may be appended. Raises `StaleProducerEpoch` or `OutOfOrderSequence` if it may not be.
        An unknown producer may begin anywhere: it may have been forgotten.
        """
        state = self._states.get(header.producer_id)
        sequence = header.base_sequence
        if state is None or sequence < 0:
            return None
        if header.producer_epoch != state.epoch:
            _check_epoch(header, state)
            return None
        if not state.batches:
            return None
        last = state.batches[-1].last_sequence
        if sequence == last + 1 or (sequence == 0 and last == LAST_SEQUENCE):
            return None
        last_sequence = sequence_after(sequence, header.last_offset_delta)
        for batch in state.batches:
            if batch.base_sequence == sequence and batch.last_sequence == last_sequence:
                return batch
        raise OutOfOrderSequence(
            f"producer {header.producer_id} sent sequence {sequence} after {last}: a batch was "
            "lost on the way or this one is too old to be recognised; begin a new epoch"
        )

    def check_first(self, header: BatchHeader) -> None:
        """Refuse to begin in the middle: an epoch of which nothing is known starts at sequence 0.

        For producers that raise their epoch with every transaction. They may have several batches
        on the way, and if the first is refused, none of the others may take its place.
        """
        state = self._states.get(header.producer_id)
        known = state is not None and state.epoch == header.producer_epoch and state.batches
        if header.base_sequence > 0 and not known:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} began epoch {header.producer_epoch} with sequence "
                f"{header.base_sequence}; send its first batch again"
            )

    def check_marker(self, marker: Marker) -> None:
        """Refuse to end a transaction on behalf of an epoch that is over."""
        state = self._states.get(marker.producer_id)
        if state is not None and marker.producer_epoch < state.epoch:
            raise StaleProducerEpoch(
                f"producer {marker.producer_id} has epoch {state.epoch} by now, not "
                f"{marker.producer_epoch}: that transaction has ended already"
            )

    def record(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
        """Remember a batch that was appended; `timestamp` is the broker's, or -1."""
        state = self._states.get(header.producer_id)
        delta = header.last_offset_delta
        sequence = header.base_sequence
        batches: tuple[ProducerBatch, ...] = ()
        if state is not None and state.epoch == header.producer_epoch:
            batches = state.batches
        if sequence >= 0:
            last_sequence = sequence_after(sequence, delta)
            batch = (sequence, last_sequence, base_offset, base_offset + delta, timestamp)
            batches = (*batches[1 - BATCHES_KEPT :], _new(ProducerBatch, batch))
        self._states[header.producer_id] = _new(
            ProducerState, (header.producer_epoch, self._clock.now_ms(), batches)
        )

    def replay(self, header: BatchHeader) -> None:
        """Remember an idempotent producer's batch that was found in the log."""
        timestamp = header.max_timestamp if header.has_append_time else NO_TIMESTAMP
        self.record(header, header.base_offset, timestamp)

    def truncate(self, end_offset: int) -> None:
        """Forget batches that the log no longer has at its end."""
        for producer_id, state in list(self._states.items()):
            kept = tuple(batch for batch in state.batches if batch.last_offset < end_offset)
            if len(kept) != len(state.batches):
                self._states[producer_id] = state._replace(batches=kept)

    def expire(self, kept: Container[int] = ()) -> int:
        """Forget producers that were silent for a day, but for those kept; return how many."""
        before = self._clock.now_ms() - EXPIRY_MS
        expired = [
            key
            for key, state in self._states.items()
            if state.last_seen_ms < before and key not in kept
        ]
        for producer_id in expired:
            del self._states[producer_id]
        return len(expired)

    @classmethod
    def decode(cls, data: bytes, clock: Clock) -> Self:
        """Read what `encode` wrote; `CorruptFile` if it did not."""
        producers = cls(clock)
        position = 0
        try:
            while position < len(data):
                producer_id, epoch, last_seen_ms, count = _STATE.unpack_from(data, position)
                position += _STATE.size
                end = position + count * _BATCH.size
                if end > len(data):
                    raise CorruptFile("the producers' state is cut short")
                batches = tuple(map(ProducerBatch._make, _BATCH.iter_unpack(data[position:end])))
                position = end
                producers._states[producer_id] = ProducerState(epoch, last_seen_ms, batches)
        except struct.error as error:
            raise CorruptFile(f"the producers' state is damaged: {error}") from error
        return producers


def encode(states: Mapping[int, ProducerState]) -> bytes:
    """Write down producers, for `ProducerStates.decode`."""
    data = bytearray()
    for producer_id, state in states.items():
        data += _STATE.pack(producer_id, state.epoch, state.last_seen_ms, len(state.batches))
        for batch in state.batches:
            data += _BATCH.pack(*batch)
    return bytes(data)


def sequence_after(sequence: int, count: int) -> int:
    """The sequence number that comes `count` records later.

    >>> sequence_after(7, 3), sequence_after(LAST_SEQUENCE, 1)
    (10, 0)
    """
    return (sequence + count) & LAST_SEQUENCE


def _check_epoch(header: BatchHeader, state: ProducerState) -> None:
    if header.producer_epoch < state.epoch:
        raise StaleProducerEpoch(
            f"producer {header.producer_id} has epoch {state.epoch} by now, not "
            f"{header.producer_epoch}: another instance took over; stop this one"
        )
    if header.base_sequence != 0:
        raise OutOfOrderSequence(
            f"producer {header.producer_id} began epoch {header.producer_epoch} with sequence "
            f"{header.base_sequence}; begin a new epoch with sequence 0"
        )
